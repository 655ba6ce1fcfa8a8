#include "ops/data/stores/s3_signature.h"

#include <algorithm>
#include <span>

#include "devices/base/ascii_text.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// RFC 2104 with SHA-256.
std::string hmac_of(std::string key, std::string_view message) {
  constexpr size_t kBlock = 64;
  if (key.size() > kBlock) {
    const Sha256Digest digest = sha256(std::as_bytes(std::span(key)));
    key.assign(digest.begin(), digest.end());
  }
  key.resize(kBlock, '\0');
  std::string inner = key, outer = key;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  Sha256 hash;
  hash.update(inner);
  hash.update(message);
  const Sha256Digest first = hash.finish();
  hash.update(outer);
  hash.update(std::as_bytes(std::span(first)));
  const Sha256Digest second = hash.finish();
  return {second.begin(), second.end()};
}

std::string hex_of(std::string_view bytes) {
  return to_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string hash_of(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

std::string time_text(std::time_t now) {
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

}  // namespace

std::string query_text(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = url_encoded(name);
    value = url_encoded(value);
  }
  std::sort(query.begin(), query.end());
  std::vector<std::string> parts;
  for (const auto& [name, value] : query) parts.push_back(cat(name, "=", value));
  return join(parts, "&");
}

std::vector<std::pair<std::string, std::string>> sign_s3(const S3Request& request,
                                                         const S3Credentials& credentials,
                                                         const std::string& region,
                                                         std::time_t now) {
  const std::string time = time_text(now), day = time.substr(0, 8);
  const std::string content = to_hex(sha256(request.body));
  std::vector<std::pair<std::string, std::string>> added{{"x-amz-content-sha256", content},
                                                         {"x-amz-date", time}};
  if (!credentials.session_token.empty())
    added.emplace_back("x-amz-security-token", credentials.session_token);
  // Task 1: the canonical request.
  auto signed_headers = request.headers;
  signed_headers.emplace_back("host", request.host);
  signed_headers.insert(signed_headers.end(), added.begin(), added.end());
  std::sort(signed_headers.begin(), signed_headers.end());
  std::string lines;
  std::vector<std::string> names;
  for (const auto& [name, value] : signed_headers) {
    lines += cat(name, ":", value, "\n");
    names.push_back(name);
  }
  const std::string canonical =
      cat(request.method, "\n", request.path, "\n", query_text(request.query), "\n", lines, "\n",
          join(names, ";"), "\n", content);
  // Task 2: the string to sign.
  const std::string scope = cat(day, "/", region, "/s3/aws4_request");
  const std::string to_sign =
      cat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", hash_of(canonical));
  // Task 3: the signature.
  std::string key = "AWS4" + credentials.secret_key;
  for (const std::string& part : {day, region, std::string("s3"), std::string("aws4_request")})
    key = hmac_of(key, part);
  added.emplace_back("authorization", cat("AWS4-HMAC-SHA256 Credential=", credentials.access_key,
                                          "/", scope, ",SignedHeaders=", join(names, ";"),
                                          ",Signature=", hex_of(hmac_of(key, to_sign))));
  return added;
}

}  // namespace leat
