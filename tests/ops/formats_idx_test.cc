#include <filesystem>

#include "ops/formats/idx.h"
#include "tests/catch.h"
#include "tests/gzip.h"
#include "tests/memory_files.h"
#include "tests/temporary_directory.h"

using namespace leat;

namespace {

Result<ArrayHeader> idx_header_of(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file,
                        ArrayFile::open(real_files(), path, idx_format(), ~uint64_t{0}));
  return file.header();
}

Result<Tensor> parse_idx(std::span<const std::byte> bytes, const std::string& path) {
  MemoryFiles files(bytes);
  return read_idx(files, path);
}

Bytes raw(std::initializer_list<int> values) {
  Bytes bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Status error_of(const Bytes& bytes) { return parse_idx(bytes, "f").status(); }

}  // namespace

TEST_CASE("IDX files of every type are read, big-endian") {
  CHECK(parse_idx(raw({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 5, 255}), "f")
            ->identical(Tensor::of<uint8_t>({2, 1}, {5, 255})));
  CHECK(parse_idx(raw({0, 0, 9, 1, 0, 0, 0, 2, 5, 255}), "f")
            ->identical(Tensor::of<int8_t>({2}, {5, -1})));
  CHECK(parse_idx(raw({0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 255, 254}), "f")
            ->identical(Tensor::of<int16_t>({2}, {258, -2})));
  CHECK(parse_idx(raw({0, 0, 12, 1, 0, 0, 0, 1, 1, 2, 3, 4}), "f")
            ->identical(Tensor::of<int32_t>({1}, {0x01020304})));
  CHECK(parse_idx(raw({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}), "f")
            ->identical(Tensor::of<float>({1}, {1.5f})));
  CHECK(parse_idx(raw({0, 0, 14, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0}), "f")
            ->identical(Tensor::of<double>({1}, {-2.5})));
}

TEST_CASE("an IDX file may have no elements") {
  const auto tensor = parse_idx(raw({0, 0, 8, 2, 0, 0, 0, 0, 255, 255, 255, 255}), "f");
  REQUIRE(tensor.ok());
  CHECK(tensor->shape() == Shape{0, 0xffffffff});
}

TEST_CASE("an IDX file cut anywhere, or with a byte more, is refused") {
  Bytes good = raw({0, 0, 12, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8});
  REQUIRE(parse_idx(good, "f").ok());
  for (size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(error_of(cut).code() == Code::invalid_argument);
  }
  good.push_back(std::byte{0});
  CHECK(error_of(good).message() ==
        "'f': expected 8 bytes for int32[1,2] from byte 12 to the end, received 9");
}

TEST_CASE("bad IDX headers are refused with what was expected") {
  CHECK(error_of({}).message() == "'f': expected an IDX header of 4 bytes, the file has 0");
  CHECK(error_of(raw({0, 1, 8, 1, 0, 0, 0, 0})).message() ==
        "'f': expected 0, 0 at byte 0 as in an IDX file, received 0, 1");
  CHECK(error_of(raw({0, 0, 10, 1, 0, 0, 0, 0})).message() ==
        "'f': expected an IDX type (8, 9, 11, 12, 13 or 14) at byte 2, received 10");
  CHECK(error_of(raw({0, 0, 8, 0})).message() ==
        "'f': expected 1 to 8 dimensions at byte 3, received 0");
  CHECK(error_of(raw({0, 0, 8, 9})).message() ==
        "'f': expected 1 to 8 dimensions at byte 3, received 9");
  CHECK(error_of(raw({0, 0, 8, 2, 0, 0, 0, 1, 0, 0})).message() ==
        "'f': expected 2 sizes up to byte 12, the file has 10 bytes");
}

TEST_CASE("IDX sizes that overflow are refused and nothing is allocated for them") {
  const Status product =
      error_of(raw({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}));
  CHECK(product.message() ==
        "'f': expected sizes whose product is at most 2^62 at byte 4, received "
        "4294967295 x 4294967295 x 4294967295");
  const Status bytes = error_of(raw({0, 0, 14, 2, 128, 0, 0, 0, 128, 0, 0, 0, 1}));  // 2^62 doubles
  CHECK(bytes.message() ==
        "'f': expected over 2^63 bytes for double[2147483648,2147483648] from byte 12 to the end, "
        "received 1");
  CHECK_FALSE(parse_idx(raw({0, 0, 8, 2, 128, 0, 0, 0, 128, 0, 0, 0, 1}), "f").ok());
}

TEST_CASE("Fashion-MNIST as Debian ships it is read") {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(folder)) {
    WARN("package dataset-fashion-mnist is not installed: not tested");
    return;
  }
  const auto images = read_idx(real_files(), folder + "train-images-idx3-ubyte.gz");
  REQUIRE(images.ok());
  const auto header = idx_header_of(folder + "train-images-idx3-ubyte.gz");
  REQUIRE(header.ok());
  CHECK(header->shape == images->shape());
  CHECK(images->dtype() == DType::u8);
  CHECK(images->shape() == Shape{60000, 28, 28});
  const auto labels = read_idx(real_files(), folder + "train-labels-idx1-ubyte.gz");
  REQUIRE(labels.ok());
  REQUIRE(labels->shape() == Shape{60000});
  std::vector<int> counts(10, 0);
  for (uint8_t label : labels->span<uint8_t>()) {
    REQUIRE(label < 10);
    ++counts[label];
  }
  CHECK(counts == std::vector<int>(10, 6000));
}

TEST_CASE("an IDX file past the limit, or missing, is refused by name") {
  const TemporaryDirectory dir;
  const Bytes bytes = raw({0, 0, 8, 1, 0, 0, 0, 1, 7});
  REQUIRE(write_file_atomically(real_files(), dir / "x", bytes).ok());
  CHECK(read_idx(real_files(), dir / "x", 9).ok());
  CHECK(read_idx(real_files(), dir / "x", 8).status().code() == Code::resource_exhausted);
  CHECK(read_idx(real_files(), dir / "y").status().message().find(dir / "y") != std::string::npos);
}

TEST_CASE("a compressed IDX file must end where its header says") {
  const TemporaryDirectory dir;
  const Bytes bytes = raw({0, 0, 11, 1, 0, 0, 0, 2, 0, 7, 1, 0});
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto read = [&](const std::string& content) {
    const std::string packed = gzipped(content);
    REQUIRE(write_file_atomically(real_files(), dir / "x", std::as_bytes(std::span(packed))).ok());
    return read_idx(real_files(), dir / "x");
  };
  CHECK(read(text)->identical(Tensor::of<int16_t>({2}, {7, 256})));
  CHECK(read(text + "x")
            .status()
            .message()
            .ends_with("expected 4 bytes for int16[2] from byte 8 to the end, received more"));
  CHECK(read(text.substr(0, 11))
            .status()
            .message()
            .ends_with("expected 4 bytes for int16[2] from byte 8 to the end, received 3"));
}
