#include "daemon/status/http_tls.h"

#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>

#include "daemon/base/file_stamp.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using TlsContext = boost::asio::ssl::context;

Status check_key_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return invalid_argument(cat("'", path, "': expected a file with a key, there is none"));
  if ((info.st_mode & 027) != 0)
    return invalid_argument(cat("'", path, "': expected a file that only its owner, and at most ",
                                "its group, may read (chmod 0600)"));
  return {};
}

}  // namespace

Result<std::unique_ptr<HttpTls>> HttpTls::open(std::string certificate_file, std::string key_file,
                                               Logger log, std::chrono::milliseconds look_again) {
  std::unique_ptr<HttpTls> tls(
      new HttpTls(std::move(certificate_file), std::move(key_file), std::move(log), look_again));
  LEAT_RETURN_IF_ERROR(tls->read());
  return tls;
}

Result<std::shared_ptr<HttpTls>> open_tls(const SecurityConfig& config, const Logger& log) {
  if (config.http_certificate_file.empty()) return std::shared_ptr<HttpTls>();
  LEAT_ASSIGN_OR_RETURN(auto tls,
                        HttpTls::open(config.http_certificate_file, config.http_key_file, log));
  return std::shared_ptr<HttpTls>(std::move(tls));
}

std::string HttpTls::look() const {
  const std::string certificate = file_stamp(certificate_file_), key = file_stamp(key_file_);
  return certificate.empty() || key.empty() ? "" : certificate + " " + key;
}

Status HttpTls::read() {
  looked_at_ = std::chrono::steady_clock::now();
  seen_ = look();
  LEAT_RETURN_IF_ERROR(check_key_file(key_file_));
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // A key with a passphrase is an error, and no question on the terminal.
  SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return 0; });
  boost::system::error_code error;
  const auto wrong = [&](const std::string& file, std::string_view what) {
    return invalid_argument(cat("'", file, "': expected ", what, ": ", error.message()));
  };
  if (context->use_certificate_chain_file(certificate_file_, error); error)
    return wrong(certificate_file_, "a certificate in PEM");
  if (context->use_private_key_file(key_file_, TlsContext::pem, error); error)
    return wrong(key_file_, "the certificate's key in PEM");
  // A key of another type than the certificate's loads all the same.
  if (SSL_CTX_check_private_key(native) != 1)
    return invalid_argument(
        cat("'", key_file_, "': expected the key of the certificate ", certificate_file_));
  context_ = std::move(context);
  return {};
}

std::shared_ptr<TlsContext> HttpTls::context() {
  if (std::chrono::steady_clock::now() - looked_at_ < look_again_) return context_;
  looked_at_ = std::chrono::steady_clock::now();
  if (look() == seen_) return context_;
  const Status again = read();
  if (again.ok()) {
    log_.info("http: read the certificate again");
  } else {
    log_.warning("http: the certificate has changed and cannot be used: ", again.message());
  }
  return context_;
}

}  // namespace leat
