#include "ops/formats/elements.h"

#include "devices/base/text.h"

namespace leat {

std::optional<int64_t> bytes_of(DType dtype, const Shape& shape) {
  return checked_mul(shape.elements(), static_cast<int64_t>(dtype_size(dtype)));
}

Status check_size(const ArrayHeader& header, uint64_t file_bytes, std::string_view subject) {
  const auto expected = bytes_of(header.dtype, header.shape);
  const uint64_t received = file_bytes - header.offset;
  if (expected && static_cast<uint64_t>(*expected) == received) return {};
  return invalid_argument(cat("'", subject, "': expected ", expected ? cat(*expected) : "over 2^63",
                              " bytes for ", header.dtype, header.shape, " from byte ",
                              header.offset, " to the end, received ", received));
}

Status check_booleans(const Tensor& tensor, std::string_view subject, uint64_t offset) {
  if (tensor.dtype() != DType::boolean) return {};
  const std::span<const std::byte> bytes = bytes_of(tensor);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > std::byte{1}) {
      return invalid_argument(cat(subject, ": expected booleans of 0 or 1, received ",
                                  static_cast<int>(bytes[i]), " at byte ", offset + i));
    }
  }
  return {};
}

Result<Tensor> tensor_from_bytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                 std::string_view subject, uint64_t offset) {
  auto tensor = Tensor::create(dtype, shape);
  if (!tensor.ok()) return tensor.status().while_doing(cat("reading ", subject));
  if (!bytes.empty()) std::memcpy(tensor->raw(), bytes.data(), bytes.size());
  LEAT_RETURN_IF_ERROR(check_booleans(*tensor, subject, offset));
  return tensor;
}

}  // namespace leat
