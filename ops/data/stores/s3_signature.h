// Signatures of requests to S3 and to stores that speak its protocol: AWS Signature Version 4.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
// Private to ops/data.
#pragma once

#include <cstddef>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat {

struct S3Credentials {
  std::string access_key, secret_key;
  std::string session_token;  // empty: none
};

struct S3Request {
  std::string host = {};  // with its port, if that is not the usual one
  std::string path = {};  // "/bucket/key", encoded by url_encoded() but for its '/'
  std::vector<std::pair<std::string, std::string>> query = {};    // not encoded
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside host; in small letters
  std::string method = "GET";
  std::span<const std::byte> body = {};
};

// The headers to send with the request beside its own: authorization, the time, the hash of the
// body and the session's token.
std::vector<std::pair<std::string, std::string>> sign_s3(const S3Request& request,
                                                         const S3Credentials& credentials,
                                                         const std::string& region,
                                                         std::time_t now);

// "a=1&b=x%2Fy", in the order of the encoded names.
std::string query_text(std::vector<std::pair<std::string, std::string>> query);

}  // namespace leat
