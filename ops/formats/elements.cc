#include "ops/formats/elements.h"

#include <array>

#include "devices/base/text.h"

namespace leat {
namespace {

// Reorders elements that vary fastest along dimension 0, so that they vary fastest along the last
// one.
Result<Tensor> to_c_order(const Tensor& fortran) {
  LEAT_ASSIGN_OR_RETURN(Tensor out, Tensor::create(fortran.dtype(), fortran.shape()));
  const Shape& shape = fortran.shape();
  const size_t size = dtype_size(fortran.dtype());
  const auto* from = static_cast<const std::byte*>(fortran.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  // `index` counts through the output in C's order, the last dimension fastest. In the file the
  // offset of that element is index[0] + shape[0] * (index[1] + shape[1] * ...), in elements.
  std::array<int64_t, kMaxRank> index{};
  for (int64_t i = 0, n = shape.elements(); i < n; ++i, to += size) {
    int64_t element = 0;
    for (int d = shape.rank() - 1; d >= 0; --d) element = element * shape[d] + index[d];
    std::memcpy(to, from + static_cast<size_t>(element) * size, size);
    for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
  return out;
}

uint16_t swapped(uint16_t x) { return __builtin_bswap16(x); }
uint32_t swapped(uint32_t x) { return __builtin_bswap32(x); }
uint64_t swapped(uint64_t x) { return __builtin_bswap64(x); }

// Reverses each element of sizeof(T) bytes where it stands. The elements need no alignment.
template <typename T>
void swap_all(std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    const T value = swapped(load_little<T>(bytes.data() + at));
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

}  // namespace

std::optional<int64_t> bytes_of(DType dtype, const Shape& shape) {
  return checked_mul(shape.elements(), static_cast<int64_t>(dtype_size(dtype)));
}

Status check_size(const ArrayHeader& header, uint64_t file_bytes, std::string_view subject) {
  const auto expected = bytes_of(header.dtype, header.shape);
  // The header was read from the file, so the file has at least `offset` bytes.
  const uint64_t received = file_bytes - header.offset;
  if (expected && static_cast<uint64_t>(*expected) == received) return {};
  return invalid_argument(cat("'", subject, "': expected ", expected ? cat(*expected) : "over 2^63",
                              " bytes for ", header.dtype, header.shape, " from byte ",
                              header.offset, " to the end, received ", received));
}

// The message names the byte of the file, so that a user can find the damage.
Status check_booleans(DType dtype, std::span<const std::byte> bytes, std::string_view subject,
                      uint64_t offset) {
  if (dtype != DType::boolean) return {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > std::byte{1}) {
      return invalid_argument(cat(subject, ": expected booleans of 0 or 1, received ",
                                  static_cast<int>(bytes[i]), " at byte ", offset + i));
    }
  }
  return {};
}

Status check_booleans(const Tensor& tensor, std::string_view subject, uint64_t offset) {
  return check_booleans(tensor.dtype(), bytes_of(tensor), subject, offset);
}

Result<Tensor> tensor_from_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                 std::string_view subject, uint64_t offset) {
  auto tensor = Tensor::create(dtype, shape);
  if (!tensor.ok()) return tensor.status().while_doing(cat("reading ", subject));
  // An empty tensor may have no memory, and memcpy() may not get a null pointer.
  if (!bytes.empty()) std::memcpy(tensor->raw(), bytes.data(), bytes.size());
  LEAT_RETURN_IF_ERROR(check_booleans(*tensor, subject, offset));
  return tensor;
}

void swap_bytes(std::span<std::byte> elements, DType dtype) {
  switch (dtype_size(dtype)) {
    case 2:
      return swap_all<uint16_t>(elements);
    case 4:
      return swap_all<uint32_t>(elements);
    case 8:
      return swap_all<uint64_t>(elements);
    default:
      return;
  }
}

Result<Tensor> in_c_order(const ArrayHeader& header, Tensor elements) {
  // With less than two dimensions both orders are the same.
  if (!header.fortran_order || header.shape.rank() < 2) return elements;
  return to_c_order(elements);
}

}  // namespace leat
