#include "daemon/checkpoint/sealed_chunks.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "daemon/base/sealed_magic.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::byte kVersion{1};
constexpr size_t kNonceBytes = 12;

const unsigned char* octets(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* octets(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

Status cipher_failed() {
  return internal_error("checkpoint encryption: expected AES-256-GCM of libcrypto, it failed");
}

}  // namespace

Result<SealedHeader> SealedHeader::create(const CheckpointKey& key, std::string role) {
  SealedHeader header;
  header.key = key.id();
  header.role = std::move(role);
  if (::getrandom(header.salt.data(), header.salt.size(), 0) !=
      static_cast<ssize_t>(header.salt.size()))
    return internal_error("random numbers: expected 32 bytes of the system");
  return header;
}

Bytes SealedHeader::print() const {
  Bytes out(bytes());
  std::memcpy(out.data(), kSealedMagic.data(), kSealedMagic.size());
  out[8] = kVersion;
  out[9] = static_cast<std::byte>(role.size());
  auto at = std::copy(key.begin(), key.end(), out.begin() + 10);
  at = std::copy(salt.begin(), salt.end(), at);
  std::memcpy(&*out.begin() + (at - out.begin()), role.data(), role.size());
  return out;
}

Result<SealedHeader> read_sealed_header(const ReadableFile& file) {
  const auto wrong = [&](std::string_view what) {
    return invalid_argument(
        cat("'", file.path(), "': expected an encrypted file of version 1, ", what));
  };
  std::array<std::byte, SealedHeader::kFixedBytes> fixed;
  if (file.size() < fixed.size()) return wrong("its header is cut off");
  LEAT_RETURN_IF_ERROR(file.read(0, fixed));
  if (fixed[8] != kVersion) return wrong(cat("received version ", std::to_integer<int>(fixed[8])));
  SealedHeader header;
  const auto id = fixed.begin() + 10, salt = id + CheckpointKey::kIdBytes;
  std::copy(id, salt, header.key.begin());
  std::copy(salt, fixed.end(), header.salt.begin());
  header.role.resize(std::to_integer<size_t>(fixed[9]));
  if (file.size() < header.bytes()) return wrong("its header is cut off");
  LEAT_RETURN_IF_ERROR(file.read(
      fixed.size(), std::as_writable_bytes(std::span(header.role.data(), header.role.size()))));
  return header;
}

void SealedCipher::Free::operator()(evp_cipher_ctx_st* context) const {
  ::EVP_CIPHER_CTX_free(context);
}

Result<SealedCipher> SealedCipher::create(const CheckpointKey& key, const SealedHeader& header) {
  LEAT_ASSIGN_OR_RETURN(const auto file_key, key.file_key(header.salt, header.role));
  Context context(::EVP_CIPHER_CTX_new());
  if (context == nullptr) return cipher_failed();
  return SealedCipher(std::move(context), file_key, header.print());
}

// The associated data are the header, the number and the mark of the last chunk; the nonce has both
// of these, too.
Status SealedCipher::begin(uint64_t number, bool last, bool encrypts) {
  std::array<std::byte, kNonceBytes> nonce{};
  nonce[3] = static_cast<std::byte>(last ? 1 : 0);
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<std::byte>(number >> (56 - 8 * i));
  const int mode = encrypts ? 1 : 0;
  int size = 0;
  const bool ok = ::EVP_CipherInit_ex(context_.get(), ::EVP_aes_256_gcm(), nullptr,
                                      octets(key_.data()), octets(nonce.data()), mode) == 1 &&
                  ::EVP_CipherUpdate(context_.get(), nullptr, &size, octets(header_.data()),
                                     static_cast<int>(header_.size())) == 1 &&
                  ::EVP_CipherUpdate(context_.get(), nullptr, &size, octets(nonce.data()),
                                     static_cast<int>(nonce.size())) == 1;
  return ok ? Status() : cipher_failed();
}

Status SealedCipher::seal(uint64_t number, bool last, std::span<const std::byte> chunk,
                          Bytes& out) {
  LEAT_RETURN_IF_ERROR(begin(number, last, true));
  const size_t at = out.size();
  out.resize(at + chunk.size() + kSealedTag);
  int size = 0, end = 0;
  // The mode writes as many bytes as it reads, and none at the end. An empty chunk is only a tag.
  const bool ok = (chunk.empty() ||
                   ::EVP_CipherUpdate(context_.get(), octets(out.data() + at), &size,
                                      octets(chunk.data()), static_cast<int>(chunk.size())) == 1) &&
                  ::EVP_CipherFinal_ex(context_.get(), octets(out.data() + at + size), &end) == 1 &&
                  ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kSealedTag,
                                        out.data() + at + chunk.size()) == 1;
  return ok ? Status() : cipher_failed();
}

Result<bool> SealedCipher::open(uint64_t number, bool last, std::span<const std::byte> chunk,
                                std::span<std::byte> out) {
  LEAT_RETURN_IF_ERROR(begin(number, last, false));
  std::array<std::byte, kSealedTag> tag;
  std::copy(chunk.end() - kSealedTag, chunk.end(), tag.begin());
  int size = 0, end = 0;
  std::byte none{};
  std::byte* const to = out.empty() ? &none : out.data();
  if (!out.empty() && ::EVP_CipherUpdate(context_.get(), octets(to), &size, octets(chunk.data()),
                                         static_cast<int>(out.size())) != 1)
    return cipher_failed();
  if (::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kSealedTag, tag.data()) != 1)
    return cipher_failed();
  if (::EVP_CipherFinal_ex(context_.get(), octets(to + size), &end) == 1) return true;
  // No byte may be used that the tag does not vouch for.
  std::fill(out.begin(), out.end(), std::byte{0});
  return false;
}

}  // namespace leat
