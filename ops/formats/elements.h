// What the readers of tensor files share: raw elements into tensors, and numbers out of bytes.
// Private to ops/formats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "devices/core/tensor.h"
#include "ops/formats/array_header.h"

namespace leat {

// Everything we run on is little-endian, and so are the formats, but for IDX.
static_assert(std::endian::native == std::endian::little);

// A number of 1, 2, 4 or 8 bytes. REQUIRES: that many bytes at `at`.
template <typename T>
T load_little(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Bytes of `shape` elements of `dtype`, empty on overflow.
std::optional<int64_t> bytes_of(DType dtype, const Shape& shape);

// That the elements end where the file of `file_bytes` ends.
Status check_size(const ArrayHeader& header, uint64_t file_bytes, std::string_view subject);

// invalid_argument if a boolean tensor holds a byte other than 0 and 1, which C++ must not read.
// `subject` begins the message, `offset` is where its first byte stands in the file.
Status check_booleans(const Tensor& tensor, std::string_view subject, uint64_t offset);
Status check_booleans(DType dtype, std::span<const std::byte> bytes, std::string_view subject,
                      uint64_t offset);

// A tensor with a copy of `bytes`. REQUIRES: bytes.size() == bytes_of(dtype, shape).
Result<Tensor> tensor_from_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                 std::string_view subject, uint64_t offset);

// Every element's bytes in the other order.
void swap_bytes(std::span<std::byte> elements, DType dtype);
// Elements in the file's order, in C's.
Result<Tensor> in_c_order(const ArrayHeader& header, Tensor elements);

inline std::span<std::byte> writable_bytes(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}
inline std::span<const std::byte> bytes_of(const Tensor& tensor) { return writable_bytes(tensor); }

}  // namespace leat
