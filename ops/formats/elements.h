// Shared functions of the readers of tensor files: they make tensors of raw elements, and numbers
// of bytes. Private to ops/formats.
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

// All supported machines are little-endian, and so are all formats but IDX.
static_assert(std::endian::native == std::endian::little);

// Reads a number of 1, 2, 4 or 8 bytes. REQUIRES: that many bytes at `at`.
template <typename T>
T load_little(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The size in bytes of a tensor of `dtype` and `shape`; nothing on overflow of an int64.
std::optional<int64_t> bytes_of(DType dtype, const Shape& shape);

// Checks that the elements end at the end of the file, which has `file_bytes`; else
// invalid_argument, with `subject`, the file, in quotes. REQUIRES: file_bytes >= header.offset.
Status check_size(const ArrayHeader& header, uint64_t file_bytes, std::string_view subject);

// invalid_argument if a boolean tensor holds a byte other than 0 and 1, which is undefined
// behaviour in C++. `subject` begins the message; `offset` is the offset of the tensor's first byte
// in the file.
Status check_booleans(const Tensor& tensor, std::string_view subject, uint64_t offset);
Status check_booleans(DType dtype, std::span<const std::byte> bytes, std::string_view subject,
                      uint64_t offset);

// Makes a tensor with a copy of `bytes`, which need no alignment. invalid_argument for booleans as
// above; resource_exhausted without memory. REQUIRES: bytes.size() == bytes_of(dtype, shape).
Result<Tensor> tensor_from_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                 std::string_view subject, uint64_t offset);

// Reverses the bytes of every element where it stands; elements of one byte stay as they are.
// REQUIRES: elements.size() is a multiple of the size of `dtype`.
void swap_bytes(std::span<std::byte> elements, DType dtype);
// Converts elements from the file's order to C's. It returns `elements` itself if the orders are
// the same, else a new tensor. REQUIRES: `elements` has the type of the header.
Result<Tensor> in_c_order(const ArrayHeader& header, Tensor elements);

// The bytes of a tensor, to write and to read. The span is valid as long as the tensor or a copy of
// it; copies share the bytes. REQUIRES: the tensor is valid.
inline std::span<std::byte> writable_bytes(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}
inline std::span<const std::byte> bytes_of(const Tensor& tensor) { return writable_bytes(tensor); }

}  // namespace leat
