// Tests the encryption of values: what is written comes back at its place, and nothing else does.
#include "daemon/checkpoint/sealed_values.h"

#include <algorithm>

#include "daemon/checkpoint/sealed_chunks.h"
#include "daemon/checkpoint/sealed_files.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

CheckpointKey value_key(char each) { return must(CheckpointKey::of(std::string(32, each))); }

// Bytes in which no two chunks are equal.
Bytes varied(size_t size) {
  Bytes bytes(size);
  uint32_t state = 1;
  for (std::byte& each : bytes) {
    state = state * 1664525 + 1013904223;
    each = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

bool opens(const SealedValues& values, std::string_view place, const Bytes& sealed) {
  Bytes out = varied(3);
  const bool whole = must(values.open(place, sealed, out));
  if (!whole) CHECK(out.empty());
  return whole;
}

}  // namespace

TEST_CASE("encrypted values of all sizes come back, and no two of them are equal") {
  const SealedValues values(value_key('k'), "session-1");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16}, kSealedChunk - 1, kSealedChunk,
                            kSealedChunk + 1, 3 * kSealedChunk}) {
    INFO(size);
    const Bytes value = varied(size), sealed = must(values.seal("a", value));
    const size_t chunks = std::max<size_t>(1, (size + kSealedChunk - 1) / kSealedChunk);
    CHECK(sealed.size() == 32 + size + chunks * kSealedTag);
    CHECK(must(values.seal("a", value)) != sealed);
    Bytes out;
    REQUIRE(must(values.open("a", sealed, out)));
    CHECK(out == value);
    if (size < 16) continue;
    CHECK(std::search(sealed.begin(), sealed.end(), value.begin(), value.begin() + 16) ==
          sealed.end());
  }
}

TEST_CASE("an encrypted value is refused in another place, of another record, and when changed") {
  const SealedValues values(value_key('k'), "session-1");
  const Bytes sealed = must(values.seal(place_of({"step", "12"}), varied(kSealedChunk + 9)));
  const std::string place = place_of({"step", "12"});
  REQUIRE(opens(values, place, sealed));
  CHECK_FALSE(opens(values, place_of({"step", "1", "2"}), sealed));
  CHECK_FALSE(opens(values, place_of({"step1", "2"}), sealed));
  CHECK_FALSE(opens(SealedValues(value_key('k'), "session-2"), place, sealed));
  CHECK_FALSE(opens(SealedValues(value_key('o'), "session-1"), place, sealed));
  for (const size_t at : {size_t{0}, size_t{31}, size_t{32}, 32 + kSealedChunk,
                          32 + kSealedChunk + kSealedTag, sealed.size() - 1}) {
    INFO(at);
    Bytes changed = sealed;
    changed[at] ^= std::byte{1};
    CHECK_FALSE(opens(values, place, changed));
  }
  for (const size_t size : {size_t{0}, size_t{31}, size_t{32}, size_t{47}, size_t{48},
                            32 + kSealedChunk + kSealedTag, sealed.size() - 1}) {
    INFO(size);
    CHECK_FALSE(
        opens(values, place, Bytes(sealed.begin(), sealed.begin() + static_cast<long>(size))));
  }
  Bytes longer = sealed;
  longer.push_back(std::byte{0});
  CHECK_FALSE(opens(values, place, longer));
}

TEST_CASE("an encrypted value that is made a file is not decrypted as one") {
  const TemporaryDirectory folder;
  const CheckpointKey key = value_key('k');
  SealedFiles files(real_files(), std::make_shared<CheckpointKeys>(CheckpointKeys{key}));
  // As good a file as somebody without the key can make of it: with the role of the value.
  SealedHeader header = must(SealedHeader::create(key, std::string(kSealedValueRole) + "0"));
  Bytes bytes = header.print();
  SealedCipher cipher = must(SealedCipher::create(key, header));
  must(cipher.seal(0, true, varied(100), bytes));
  for (const char* name : {"blob", "weights.safetensors"}) {
    must(write_file_atomically(real_files(), folder / name, bytes));
    const auto opened = files.open(folder / name);
    CHECK(opened.status().code() == Code::invalid_argument);
    CHECK_THAT(opened.status().message(),
               Catch::Contains(name) && Catch::Contains("received 'value 0'"));
  }
}

}  // namespace leat
