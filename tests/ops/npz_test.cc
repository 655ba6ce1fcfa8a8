// Writes a zip archive of arrays, and reads it back by the rules of zip.
#include "ops/formats/npz.h"

#include <cstring>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/memory_files.h"
#include "tests/must.h"

namespace leat {
namespace {

Bytes npz_of(const std::map<std::string, Tensor>& arrays) {
  Bytes out;
  must(format_npz(arrays, [&](std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return Status();
  }));
  return out;
}

uint64_t number(const Bytes& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
  return value;
}

std::string text(const Bytes& bytes, size_t at, size_t size) {
  REQUIRE(at + size <= bytes.size());
  return {reinterpret_cast<const char*>(bytes.data()) + at, size};
}

// Computes a CRC bit by bit from the polynomial.
uint32_t slow_crc(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

// Reads the archive as zip readers do: from its end to the directory, and from there to each file.
std::map<std::string, Tensor> read_back(const Bytes& bytes) {
  const size_t end = bytes.size() - 22, locator = end - 20;
  REQUIRE(text(bytes, end, 4) == "PK\x05\x06");
  REQUIRE(text(bytes, locator, 4) == "PK\x06\x07");
  const size_t end64 = number(bytes, locator + 8, 8);
  REQUIRE(text(bytes, end64, 4) == "PK\x06\x06");
  const uint64_t count = number(bytes, end64 + 32, 8);
  size_t at = number(bytes, end64 + 48, 8);
  CHECK(at + number(bytes, end64 + 40, 8) == end64);
  std::map<std::string, Tensor> arrays;
  for (uint64_t i = 0; i < count; ++i) {
    REQUIRE(text(bytes, at, 4) == std::string("PK\x01\x02"));
    const size_t name_size = number(bytes, at + 28, 2), extra = at + 46 + name_size;
    const std::string name = text(bytes, at + 46, name_size);
    REQUIRE(number(bytes, extra, 2) == 1);
    const uint64_t size = number(bytes, extra + 4, 8), offset = number(bytes, extra + 20, 8);
    REQUIRE(text(bytes, offset, 4) == "PK\x03\x04");
    CHECK(text(bytes, offset + 30, name_size) == name);
    CHECK(number(bytes, offset + 14, 4) == number(bytes, at + 16, 4));
    const size_t begin = offset + 30 + name_size + number(bytes, offset + 28, 2);
    const auto file = std::span(bytes).subspan(begin, size);
    CHECK(slow_crc(file) == number(bytes, at + 16, 4));
    REQUIRE(name.ends_with(".npy"));
    MemoryFiles files(file);
    arrays.emplace(name.substr(0, name.size() - 4), must(read_npy(files, name)));
    at = extra + 4 + number(bytes, extra + 2, 2);
  }
  CHECK(at == end64);
  return arrays;
}

TEST_CASE("arrays come back from an npz as they were, whatever they are called") {
  Tensor a(DType::f32, {2, 3}), b(DType::i64, Shape()), none(DType::f64, {0, 4});
  for (int i = 0; i < 6; ++i) a.data<float>()[i] = 0.5f * static_cast<float>(i);
  *b.data<int64_t>() = -7;
  const std::map<std::string, Tensor> arrays = {{"l1/kernel", a}, {"schrittzähler", b}, {"", none}};
  const Bytes bytes = npz_of(arrays);
  const auto again = read_back(bytes);
  REQUIRE(again.size() == 3);
  for (const auto& [name, value] : arrays) CHECK(again.at(name).identical(value));
  CHECK(npz_of(arrays) == bytes);
  CHECK(read_back(npz_of({})).empty());
}

TEST_CASE("an npz that cannot be is refused before its first byte") {
  const auto refused = [](const std::map<std::string, Tensor>& arrays) {
    return format_npz(arrays, [](std::span<const std::byte>) -> Status {
      FAIL("a byte was given");
      return {};
    });
  };
  const Tensor good(DType::f32, {1});
  CHECK(refused({{"a", good}, {"b", Tensor(DType::bf16, {1})}}).code() == Code::unimplemented);
  CHECK(refused({{std::string(65'001, 'a'), good}}).code() == Code::invalid_argument);
}

// The file of one array "x", whose directory has `count` entries of other names for it.
std::string npz_of_entries(uint64_t count) {
  const Bytes good = npz_of({{"x", Tensor(DType::f32, {1})}});
  const std::string all(reinterpret_cast<const char*>(good.data()), good.size());
  const auto little = [](uint64_t value, size_t size) {
    return std::string(reinterpret_cast<const char*>(&value), size);
  };
  const size_t begin = all.find("PK\x01\x02"), end = all.find("PK\x06\x06");
  std::string entry = all.substr(begin, end - begin), out = all.substr(0, begin);
  entry.replace(28, 2, little(11, 2)).replace(46, 5, "1000000.npy");
  for (uint64_t i = 0; i < count; ++i) out += entry.replace(46, 7, cat(1'000'000 + i));
  const uint64_t size = out.size() - begin;
  out += all.substr(end, 24) + little(count, 8) + little(count, 8) + little(size, 8);
  out += little(begin, 8) + "PK\x06\x07" + little(0, 4) + little(begin + size, 8) + little(1, 4);
  return out + all.substr(all.size() - 22);
}

TEST_CASE("an npz of very many arrays is read up to a limit, and refused beyond it") {
  const auto arrays = [](uint64_t count) {
    const std::string bytes = npz_of_entries(count);
    MemoryFiles files(std::as_bytes(std::span(bytes)));
    return read_npz_directory(*must(files.open("many.npz")));
  };
  CHECK(must(arrays(3)).at(2).name == "1000002");
  CHECK(must(arrays(kNpzArrays)).size() == kNpzArrays);
  CHECK(arrays(kNpzArrays + 1).status().message() ==
        "'many.npz': expected a zip archive of NPY files, it has more than 65536 of them");
}

}  // namespace
}  // namespace leat
