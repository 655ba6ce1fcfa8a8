#include "ops/data/stores/store_address.h"

#include <algorithm>
#include <ctime>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// "scheme" and what follows "://". Without one there is no scheme.
std::pair<std::string, std::string> cut_scheme(const std::string& path) {
  const size_t colon = path.find("://");
  if (colon == std::string::npos) return {"", path};
  return {path.substr(0, colon), path.substr(colon + 3)};
}

// True if the bucket can be a part of the name of a host. One with a dot cannot: no certificate of
// a store is good for names of several parts.
bool fits_host(std::string_view bucket) {
  return std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// The signs of a URL. One that is encoded already stays as it is.
constexpr std::string_view kUrlSigns = "/:@!$&'()*+,;=%[]";

}  // namespace

bool is_store_path(std::string_view path) {
  return path.starts_with("http://") || path.starts_with("https://") || path.starts_with("s3://");
}

Status check_store_path(const std::string& path) {
  const std::string rest = cut_scheme(path).second;
  const std::string host = rest.substr(0, rest.find('/'));
  if (host.find('@') != std::string::npos)
    return invalid_argument(
        "the address of a store: expected none with a user, since others read job files");
  if (!host.empty() && rest.find_first_of("?#") == std::string::npos) return {};
  return invalid_argument(cat("the address of a store: expected ",
                              path.starts_with("s3") ? "s3://BUCKET/PREFIX" : "https://HOST/PATH",
                              ", received '", path, "'"));
}

Status check_writable_place(const std::string& path) {
  if (!is_store_path(path)) return {};
  LEAT_RETURN_IF_ERROR(check_store_path(path));
  if (path.starts_with("s3://")) return {};
  return invalid_argument(
      cat("the address of a store that takes files: expected s3://BUCKET/PREFIX, received '", path,
          "'"));
}

Result<StoreAddress> StoreAddress::make(const std::string& path, const Variables& variables) {
  LEAT_RETURN_IF_ERROR(check_store_path(path));
  StoreAddress out;
  const auto [scheme, rest] = cut_scheme(path);
  out.is_s3_ = scheme == "s3";
  if (!out.is_s3_) {
    out.url_ = cat(scheme, "://", url_encoded(rest, kUrlSigns));
    return out;
  }
  const auto variable = [&](const std::string& name) { return variables(name).value_or(""); };
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string bucket = rest.substr(0, slash);
  out.key_ = rest.substr(std::min(slash + 1, rest.size()));
  out.region_ = variable("AWS_REGION");
  if (out.region_.empty()) out.region_ = variable("AWS_DEFAULT_REGION");
  if (out.region_.empty()) out.region_ = "us-east-1";
  out.access_key_ = variable("AWS_ACCESS_KEY_ID");
  out.secret_key_ = variable("AWS_SECRET_ACCESS_KEY");
  out.session_token_ = variable("AWS_SESSION_TOKEN");
  const std::string endpoint = variable("AWS_ENDPOINT_URL");
  const std::string place = cat("s3.", out.region_, ".amazonaws.com");
  if (endpoint.empty() && fits_host(bucket)) {
    out.scheme_ = "https";
    out.host_ = cat(bucket, ".", place);
    out.folder_ = "/";
    return out;
  }
  auto [own_scheme, host] = cut_scheme(endpoint.empty() ? cat("https://", place) : endpoint);
  while (host.ends_with('/')) host.pop_back();
  if ((own_scheme != "http" && own_scheme != "https") || host.empty() ||
      host.find_first_of("/?#@") != std::string::npos) {
    return invalid_argument(cat("AWS_ENDPOINT_URL: expected https://HOST or https://HOST:PORT",
                                host.find('@') != std::string::npos
                                    ? std::string(" without a user")
                                    : cat(", received '", endpoint, "'")));
  }
  out.scheme_ = own_scheme;
  out.host_ = host;
  out.folder_ = cat("/", url_encoded(bucket), "/");
  return out;
}

std::string StoreAddress::prefix() const {
  return key_.empty() || key_.ends_with('/') ? key_ : key_ + "/";
}

UrlRequest StoreAddress::get(
    const std::vector<std::pair<std::string, std::string>>& headers) const {
  if (!is_s3_) return {.url = url_, .headers = headers, .follow = true};
  return s3_request(key_, {.headers = headers});
}

UrlRequest StoreAddress::object(const std::string& method,
                                const std::vector<std::pair<std::string, std::string>>& query,
                                std::span<const std::byte> body) const {
  return s3_request(key_, {.query = query, .method = method, .body = body});
}

UrlRequest StoreAddress::list(const std::string& continuation) const {
  std::vector<std::pair<std::string, std::string>> query{
      {"delimiter", "/"}, {"list-type", "2"}, {"prefix", prefix()}};
  if (!continuation.empty()) query.emplace_back("continuation-token", continuation);
  return s3_request("", {.query = query});
}

UrlRequest StoreAddress::s3_request(const std::string& key, S3Request request) const {
  request.host = host_;
  request.path = folder_ + url_encoded(key, "/");
  UrlRequest out{.url = cat(scheme_, "://", host_, request.path),
                 .headers = request.headers,
                 .method = request.method,
                 .body = request.body};
  if (!request.query.empty()) out.url += "?" + query_text(request.query);
  // Without a key the store gets what it gives to everyone.
  if (access_key_.empty() || secret_key_.empty()) return out;
  const auto added =
      sign_s3(request, {access_key_, secret_key_, session_token_}, region_, std::time(nullptr));
  out.headers.insert(out.headers.end(), added.begin(), added.end());
  return out;
}

}  // namespace leat
