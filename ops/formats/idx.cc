#include "ops/formats/idx.h"

#include <array>

#include "devices/base/text.h"
#include "ops/formats/array_file.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

// The element type of byte 2; invalid for a code that the format does not have.
DType dtype_of_code(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0b:
      return DType::i16;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
    default:
      return DType::invalid;
  }
}

// Four bytes, then a size of 4 bytes for each dimension.
constexpr uint64_t kLongestHeader = 4 + 4 * kMaxRank;

// Reads the header from the first bytes of a file, of which there may be fewer than it needs. The
// checks go from front to back, so that a message names the first byte that is wrong.
Result<ArrayHeader> parse_header(std::span<const std::byte> bytes, std::string_view subject) {
  if (bytes.size() < 4) {
    return invalid_argument(
        cat("'", subject, "': expected an IDX header of 4 bytes, the file has ", bytes.size()));
  }
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(bytes[i]); };
  // Two zeros, then the element type and the number of dimensions, are the magic number of IDX.
  if (byte(0) != 0 || byte(1) != 0) {
    return invalid_argument(cat("'", subject,
                                "': expected 0, 0 at byte 0 as in an IDX file, received ", byte(0),
                                ", ", byte(1)));
  }
  const DType dtype = dtype_of_code(static_cast<uint8_t>(byte(2)));
  if (dtype == DType::invalid) {
    return invalid_argument(cat("'", subject,
                                "': expected an IDX type (8, 9, 11, 12, 13 or 14) at ",
                                "byte 2, received ", byte(2)));
  }
  // A scalar has no IDX file: the format begins at one dimension.
  const size_t rank = byte(3);
  if (rank < 1 || rank > kMaxRank) {
    return invalid_argument(
        cat("'", subject, "': expected 1 to ", kMaxRank, " dimensions at byte 3, received ", rank));
  }
  const size_t header_bytes = 4 + 4 * rank;
  if (bytes.size() < header_bytes) {
    return invalid_argument(cat("'", subject, "': expected ", rank, " sizes up to byte ",
                                header_bytes, ", the file has ", bytes.size(), " bytes"));
  }
  std::array<int64_t, kMaxRank> dims{};
  for (size_t i = 0; i < rank; ++i) {
    // Sizes are big-endian, so the bytes of each one are reversed.
    dims[i] = __builtin_bswap32(load_little<uint32_t>(bytes.data() + 4 + 4 * i));
  }
  // Sizes of 32 bits can have a product beyond 64 bits, which must not wrap around.
  const auto shape = Shape::checked({dims.data(), rank});
  if (!shape) {
    return invalid_argument(cat("'", subject, "': expected sizes whose product is at most 2^62 at ",
                                "byte 4, received ", join(std::span(dims.data(), rank), " x ")));
  }
  return ArrayHeader{dtype, *shape, header_bytes};
}

}  // namespace

const ArrayFormat& idx_format() {
  // The last field says that elements are big-endian.
  static constexpr ArrayFormat kFormat{parse_header, kLongestHeader, true};
  return kFormat;
}

Result<Tensor> read_idx(Files& files, const std::string& path, uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(ArrayFile file, ArrayFile::open(files, path, idx_format(), limit));
  return file.read_all();
}

}  // namespace leat
