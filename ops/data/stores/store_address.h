// The addresses of files of stores, as requests. Private to ops/data.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "ops/data/stores/s3_signature.h"
#include "ops/data/stores/url_client.h"

namespace leat {

using Variables = std::function<std::optional<std::string>(const std::string&)>;

// Makes requests of paths of stores. Immutable. Threads: any.
class StoreAddress {
 public:
  // invalid_argument for an address that check_store_path() refuses, or an endpoint that is none.
  static Result<StoreAddress> make(const std::string& path, const Variables& variables);

  bool is_s3() const { return is_s3_; }
  // A request for the file, with these headers beside its own.
  UrlRequest get(const std::vector<std::pair<std::string, std::string>>& headers) const;
  // A request of this method for the file, which does something else than reading. `body` outlives
  // it. REQUIRES: is_s3().
  UrlRequest object(const std::string& method,
                    const std::vector<std::pair<std::string, std::string>>& query,
                    std::span<const std::byte> body = {}) const;
  // A request for the names below the path as a folder. REQUIRES: is_s3().
  UrlRequest list(const std::string& continuation) const;
  // "data/": what the keys of that list begin with.
  std::string prefix() const;

 private:
  // The request, with a signature if there are credentials. Its path is that of the key.
  UrlRequest s3_request(const std::string& key, S3Request request) const;

  bool is_s3_ = false;
  std::string url_;            // of HTTP
  std::string scheme_, host_;  // of S3
  std::string folder_;         // before the key: "/" or "/bucket/"
  std::string key_, region_;
  std::string access_key_, secret_key_, session_token_;
};

}  // namespace leat
