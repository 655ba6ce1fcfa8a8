#include "transport/rpc/grant.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <vector>

#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "transport/seal/tls_session.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 7> kRightNames = {
    "member", "viewer", "submitter", "operator", "admin", "worker", "runner"};
constexpr std::string_view kTokenStart = "leat1:";
constexpr std::string_view kKeyUse = "leat key 1";
constexpr size_t kKeyDigits = 64;

std::span<const uint8_t> octets(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::vector<std::string_view> split_at_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

template <typename T>
bool read_number(std::string_view text, int base, T& out) {
  const char* const end = text.data() + text.size();
  const auto [parsed, failure] = std::from_chars(text.data(), end, out, base);
  return failure == std::errc() && parsed == end;
}

Status no_token(std::string_view what) {
  return invalid_argument(
      cat("token: expected leat1:ROLE:NAME:NUMBER:EXPIRES:KEY as `leat token "
          "create` writes it, received a wrong ",
          what));
}

}  // namespace

std::string_view rpc_role_name(RpcRole role) {
  switch (role) {
    case RpcRole::none:
      return "none";
    case RpcRole::client:
      return "client";
    case RpcRole::worker:
      return "worker";
    case RpcRole::master:
      return "master";
    case RpcRole::runner:
      return "runner";
  }
  return "unknown";
}

std::string_view right_name(Right right) { return kRightNames[static_cast<size_t>(right)]; }

Result<Right> right_named(std::string_view name) {
  for (const Right right :
       {Right::viewer, Right::submitter, Right::operate, Right::admin, Right::worker}) {
    if (right_name(right) == name) return right;
  }
  return invalid_argument(
      cat("role: expected viewer, submitter, operator, admin or worker, received '", name, "'"));
}

bool includes(Right has, Right needs) {
  if (has == Right::member) return true;
  const bool is_person = has <= Right::admin && needs <= Right::admin && needs != Right::member;
  return is_person && has >= needs;
}

bool fits(Right right, RpcRole role) {
  switch (right) {
    case Right::member:
      return true;
    case Right::worker:
      return role == RpcRole::worker;
    case Right::runner:
      return role == RpcRole::runner;
    default:
      return role == RpcRole::client;
  }
}

Result<Grant> grant_of(const PeerCertificate& certificate) {
  const auto right = right_named(certificate.name.role);
  if (!right.ok() || !check_name(certificate.name.name).ok())
    return failed_precondition(cat("certificate: expected that of a person or a worker, received ",
                                   uri_of(certificate.name)));
  Grant grant;
  grant.right = *right;
  grant.name = certificate.name.name;
  grant.expires = certificate.expires;
  return grant;
}

Status check_name(std::string_view name) {
  const bool sound = !name.empty() && name.size() <= Grant::kMostName && is_alphanumeric(name[0]) &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
                     });
  if (sound) return {};
  return invalid_argument(cat("name: expected 1 to ", Grant::kMostName,
                              " letters, digits, '-', '_' and '.', the first a letter or a digit, "
                              "received '",
                              printable(name.substr(0, Grant::kMostName)), "'"));
}

bool may_be_worker(const Grant& grant, std::string_view name) {
  if (grant.right != Right::worker) return grant.right == Right::member;
  if (!name.starts_with(grant.name)) return false;
  name.remove_prefix(grant.name.size());
  if (name.empty()) return true;
  // At most 1,000 places, each with one name.
  constexpr size_t kMostDigits = 3;
  const std::string_view digits = name.substr(1);
  return name[0] == '.' && !digits.empty() && digits.size() <= kMostDigits &&
         (digits == "0" || digits[0] != '0') &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string key_of(const Grant& grant, std::string_view secret) {
  if (grant.right == Right::member) return std::string(secret);
  // A name has no colon, so that two grants never have the same text.
  const std::string text = cat(kKeyUse, ":", right_name(grant.right), ":", grant.name, ":",
                               grant.number, ":", grant.expires);
  const TlsKey key = derive_key(octets(secret), octets(text));
  return std::string(key.begin(), key.end());
}

std::string write_token(const Credential& credential) {
  const Grant& grant = credential.grant;
  const std::string key = to_hex(octets(credential.key));
  std::array<char, 16> digits;
  const auto [end, failure] = std::to_chars(digits.begin(), digits.end(), grant.number, 16);
  static_cast<void>(failure);  // there is room for all 16
  const std::string_view hex(digits.data(), static_cast<size_t>(end - digits.data()));
  return cat(kTokenStart, right_name(grant.right), ":", grant.name, ":", hex, ":", grant.expires,
             ":", key);
}

std::string runner_credential(std::string_view secret, std::string_view job) {
  if (secret.empty()) return "";
  Grant grant;
  grant.right = Right::runner;
  grant.name = job;
  return write_token({grant, key_of(grant, secret)});
}

Result<Credential> read_credential(std::string_view content) {
  if (!content.starts_with(kTokenStart)) return Credential{{}, std::string(content)};
  const auto parts = split_at_colons(content);
  if (parts.size() != 6) return no_token("number of parts");
  Credential credential;
  const auto* const right = std::find(kRightNames.begin() + 1, kRightNames.end(), parts[1]);
  if (right == kRightNames.end()) return no_token("role");
  credential.grant.right = static_cast<Right>(right - kRightNames.begin());
  if (!check_name(parts[2]).ok()) return no_token("name");
  credential.grant.name = parts[2];
  if (!read_number(parts[3], 16, credential.grant.number)) return no_token("number");
  if (!read_number(parts[4], 10, credential.grant.expires) || credential.grant.expires < 0)
    return no_token("time");
  if (parts[5].size() != kKeyDigits) return no_token("key");
  for (size_t i = 0; i < kKeyDigits; i += 2) {
    uint8_t byte = 0;
    if (!read_number(parts[5].substr(i, 2), 16, byte)) return no_token("key");
    credential.key += static_cast<char>(byte);
  }
  return credential;
}

}  // namespace leat
