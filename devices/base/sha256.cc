#include "devices/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace leat {
namespace {

// Ends the process if a call of libcrypto failed: without SHA-256 no promise of the runtime holds.
void require(int ok) {
  if (ok == 1) return;
  std::fputs("leat: libcrypto cannot compute SHA-256: check its installation\n", stderr);
  std::abort();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

// The second call prepares the context for the next input.
Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  require(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

// The file is never whole in memory.
Result<std::string> sha256_of(const ReadableFile& file) {
  Sha256 hash;
  LEAT_RETURN_IF_ERROR(read_in_pieces(file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    return Status();
  }));
  return to_hex(hash.finish());
}

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// Upper-case digits are refused, so that equal digests have equal texts.
bool from_hex(std::string_view text, std::span<uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view digits = text.substr(2 * i, 2);
    if (digits.find_first_not_of("0123456789abcdef") != digits.npos) return false;
    std::from_chars(digits.data(), digits.data() + 2, bytes[i], 16);
  }
  return true;
}

}  // namespace leat
