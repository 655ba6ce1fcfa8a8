#include "daemon/checkpoint/sealed_values.h"

#include <algorithm>

#include "daemon/checkpoint/sealed_chunks.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {

std::string place_of(std::initializer_list<std::string_view> words) {
  std::string place;
  for (const std::string_view word : words) place += cat(word.size(), ":", word);
  return place;
}

// A place may be longer than a role.
std::string SealedValues::role_of(std::string_view place) const {
  const std::string whole = place_of({owner_, place});
  return cat(kSealedValueRole, to_hex(sha256(std::as_bytes(std::span(whole)))));
}

Result<Bytes> SealedValues::seal(std::string_view place, std::span<const std::byte> value) const {
  LEAT_ASSIGN_OR_RETURN(const SealedHeader header, SealedHeader::create(key_, role_of(place)));
  LEAT_ASSIGN_OR_RETURN(SealedCipher cipher, SealedCipher::create(key_, header));
  Bytes out;
  out.reserve(header.salt.size() + value.size() + (value.size() / kSealedChunk + 1) * kSealedTag);
  out.assign(header.salt.begin(), header.salt.end());
  uint64_t number = 0;
  do {
    const auto chunk = value.first(std::min(value.size(), kSealedChunk));
    value = value.subspan(chunk.size());
    LEAT_RETURN_IF_ERROR(cipher.seal(number++, value.empty(), chunk, out));
  } while (!value.empty());
  return out;
}

Result<bool> SealedValues::open(std::string_view place, std::span<const std::byte> sealed,
                                Bytes& out) const {
  out.clear();
  SealedHeader header;
  header.key = key_.id();
  header.role = role_of(place);
  if (sealed.size() < header.salt.size() + kSealedTag) return false;
  std::copy_n(sealed.begin(), header.salt.size(), header.salt.begin());
  sealed = sealed.subspan(header.salt.size());
  LEAT_ASSIGN_OR_RETURN(SealedCipher cipher, SealedCipher::create(key_, header));
  Bytes plain(sealed.size());  // the tags are too many
  size_t size = 0;
  for (uint64_t number = 0; !sealed.empty(); ++number) {
    const auto chunk = sealed.first(std::min(sealed.size(), kSealedChunk + kSealedTag));
    sealed = sealed.subspan(chunk.size());
    if (chunk.size() < kSealedTag) return false;
    const auto to = std::span(plain).subspan(size, chunk.size() - kSealedTag);
    LEAT_ASSIGN_OR_RETURN(const bool whole, cipher.open(number, sealed.empty(), chunk, to));
    if (!whole) return false;
    size += to.size();
  }
  plain.resize(size);
  out = std::move(plain);
  return true;
}

}  // namespace leat
