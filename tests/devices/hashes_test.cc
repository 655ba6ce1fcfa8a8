#include <array>
#include <string>
#include <vector>

#include "devices/base/crc32c.h"
#include "devices/base/philox.h"
#include "devices/base/sha256.h"
#include "tests/catch.h"

using namespace leat;

namespace {

std::span<const std::byte> view_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> noise(size_t size) {
  std::vector<std::byte> out(size);
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<std::byte>(philox({static_cast<uint32_t>(i), 0, 0, 0}, {1, 2})[0]);
  }
  return out;
}

}  // namespace

TEST_CASE("hexadecimal digits are read back, and nothing else is") {
  std::array<uint8_t, 3> bytes{};
  CHECK(from_hex("00af1f", bytes));
  CHECK(to_hex(bytes) == "00af1f");
  for (const char* wrong : {"", "00af1", "00af1f0", "00AF1F", "00af1g", "-0af1f", " 0af1f"})
    CHECK_FALSE(from_hex(wrong, bytes));
}

// FIPS 180-2, appendix B.
TEST_CASE("sha256 gives the published digests") {
  CHECK(to_hex(sha256(view_of(""))) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256(view_of("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256(view_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(view_of(std::string(1000000, 'a')))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 fed in pieces equals sha256 of the whole, and starts anew when finished") {
  Sha256 hash;
  for (int round = 0; round < 2; ++round) {
    hash.update("a");
    hash.update("");
    hash.update(view_of("bc"));
    CHECK(hash.finish() == sha256(view_of("abc")));
  }
}

// RFC 3720, B.4, and the check value of the CRC catalogues.
TEST_CASE("crc32c gives the published checksums") {
  std::vector<std::byte> rising(32), falling(32);
  for (size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<std::byte>(i);
    falling[i] = static_cast<std::byte>(31 - i);
  }
  for (auto* crc : {&crc32c, &crc32c_portable}) {
    CHECK(crc(view_of(""), 0) == 0);
    CHECK(crc(view_of("123456789"), 0) == 0xE3069283);
    CHECK(crc(std::vector<std::byte>(32, std::byte{0}), 0) == 0x8A9136AA);
    CHECK(crc(std::vector<std::byte>(32, std::byte{0xff}), 0) == 0x62A8AB43);
    CHECK(crc(rising, 0) == 0x46DD794E);
    CHECK(crc(falling, 0) == 0x113FDB5C);
  }
}

TEST_CASE("both crc32c agree at every length and alignment, whole and in two parts") {
  const std::vector<std::byte> data = noise(100);
  const std::span<const std::byte> all(data);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= data.size(); ++size) {
      const auto part = all.subspan(from, size);
      const uint32_t whole = crc32c(part);
      REQUIRE(crc32c_portable(part) == whole);
      const size_t cut = size / 3;
      REQUIRE(crc32c(part.subspan(cut), crc32c(part.first(cut))) == whole);
    }
  }
}

TEST_CASE("both crc32c agree on long buffers, whole and in two parts") {
  const std::vector<std::byte> data = noise(40000);
  const std::span<const std::byte> all(data);
  for (size_t size : {511, 512, 513, 767, 768, 1023, 6143, 6144, 6145, 12288, 18431, 39990}) {
    for (size_t from : {0, 1, 7}) {
      const auto part = all.subspan(from, size);
      const uint32_t whole = crc32c_portable(part);
      REQUIRE(crc32c(part) == whole);
      REQUIRE(crc32c(part.subspan(size / 5), crc32c(part.first(size / 5))) == whole);
    }
  }
}

TEST_CASE("crc32c sees every flipped bit of a frame") {
  std::vector<std::byte> frame = noise(32);
  const uint32_t before = crc32c(frame);
  for (size_t bit = 0; bit < 256; ++bit) {
    frame[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK(crc32c(frame) != before);
    frame[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}
