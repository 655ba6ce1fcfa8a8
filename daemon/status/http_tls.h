// The certificate of an HTTP server, for browsers and other tools of people.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/process/daemon_config.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace boost::asio::ssl {
class context;
}

namespace leat {

// Reads a certificate with its chain and its key, both PEM, and reads them again when one of the
// files has changed, so that a renewed certificate needs no restart. New files that cannot be used
// leave the old ones in use, with a line in the log.
// Threads: one at a time.
class HttpTls {
 public:
  static constexpr std::chrono::milliseconds kLookAgain{5'000};

  // invalid_argument, with the file, for files that are not there, are no such PEM or do not belong
  // together, and for a key that others may read.
  static Result<std::unique_ptr<HttpTls>> open(std::string certificate_file, std::string key_file,
                                               Logger log,
                                               std::chrono::milliseconds look_again = kLookAgain);

  // For the next connection: TLS 1.2 and 1.3. Looks at the files at most once in `look_again`.
  std::shared_ptr<boost::asio::ssl::context> context();

 private:
  HttpTls(std::string certificate_file, std::string key_file, Logger log,
          std::chrono::milliseconds look_again)
      : certificate_file_(std::move(certificate_file)),
        key_file_(std::move(key_file)),
        log_(std::move(log)),
        look_again_(look_again) {}
  // The times and sizes of both files as a text; empty if one cannot be looked at.
  std::string look() const;
  Status read();

  const std::string certificate_file_;
  const std::string key_file_;
  const Logger log_;
  const std::chrono::milliseconds look_again_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::string seen_;  // what look() returned when the files were read
  std::chrono::steady_clock::time_point looked_at_;
};

// The TLS that a daemon's configuration names; null if it names no certificate. Errors as of
// open().
Result<std::shared_ptr<HttpTls>> open_tls(const SecurityConfig& config, const Logger& log);

}  // namespace leat
