#include "ops/onnx/tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/graph/limits.h"
#include "ops/onnx/narrow_tensors.h"

namespace leat {
namespace {

using onnx_wire::TensorProto;

// The name comes from the file, so it is cut to the length that names may have.
Status error(const TensorProto& proto, std::string_view message) {
  return invalid_argument(
      cat("tensor '", proto.name().substr(0, limits::kNameLength), "': ", message));
}

// Memory from a file may hold any byte in place of a bool.
void make_bools(Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  auto* bytes = static_cast<uint8_t*>(tensor.raw());
  for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = bytes[i] != 0;
}

// Converts the elements of a typed field; T is the type of the tensor's elements.
template <typename T, typename Field>
Result<Tensor> from_field(const TensorProto& proto, DType dtype, const Shape& shape,
                          const Field& field) {
  if (field.size() != shape.elements()) {
    return error(proto, cat("expected ", shape.elements(), " elements, received ", field.size()));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape));
  T* out = static_cast<T*>(tensor.raw());
  for (const auto element : field) {
    // A field may be wider than the elements: a value that does not fit is an error and is not cut.
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!std::in_range<T>(element)) {
        return error(proto, cat("expected elements of type ", dtype, ", received ", element));
      }
    }
    *out++ = static_cast<T>(element);
  }
  return tensor;
}

// Narrow types: the entries are codes of 6 or 8 bits, or bytes with several codes of 4 or 2.
Result<Tensor> from_codes(const TensorProto& proto, DType dtype, const Shape& shape) {
  const auto& field = proto.int32_data();
  const bool packs = dtype_bits(dtype) <= 4;
  const uint64_t expected =
      packs ? stored_bytes(dtype, shape.elements()) : static_cast<uint64_t>(shape.elements());
  if (static_cast<uint64_t>(field.size()) != expected) {
    return error(proto, cat("expected ", expected, packs ? " bytes of elements" : " elements",
                            ", received ", field.size()));
  }
  std::vector<std::byte> bytes;
  for (const int32_t entry : field) {
    const int most = packs ? 0xff : (1 << dtype_bits(dtype)) - 1;
    if (entry < 0 || entry > most)
      return error(proto, cat("expected elements of type ", dtype, ", received ", entry));
    bytes.push_back(static_cast<std::byte>(entry));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape));
  if (packs)
    unpack(bytes, tensor);
  else if (!bytes.empty())
    std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

// The field of each type is that of ONNX's TensorProto. Small types are in int32_data, unsigned
// ones of 32 bits in uint64_data.
Result<Tensor> from_fields(const TensorProto& p, DType dtype, const Shape& shape) {
  switch (dtype) {
    case DType::f32:
      return from_field<float>(p, dtype, shape, p.float_data());
    case DType::f64:
      return from_field<double>(p, dtype, shape, p.double_data());
    case DType::f16:
    case DType::bf16:  // the field has their bits
      return from_field<uint16_t>(p, dtype, shape, p.int32_data());
    case DType::i8:
      return from_field<int8_t>(p, dtype, shape, p.int32_data());
    case DType::i16:
      return from_field<int16_t>(p, dtype, shape, p.int32_data());
    case DType::i32:
      return from_field<int32_t>(p, dtype, shape, p.int32_data());
    case DType::u8:
      return from_field<uint8_t>(p, dtype, shape, p.int32_data());
    case DType::u16:
      return from_field<uint16_t>(p, dtype, shape, p.int32_data());
    case DType::i64:
      return from_field<int64_t>(p, dtype, shape, p.int64_data());
    case DType::u32:
      return from_field<uint32_t>(p, dtype, shape, p.uint64_data());
    case DType::u64:
      return from_field<uint64_t>(p, dtype, shape, p.uint64_data());
    case DType::boolean:
      return from_field<bool>(p, dtype, shape, p.int32_data());
    default:
      break;
  }
  if (is_narrow(dtype)) return from_codes(p, dtype, shape);
  return error(p, "expected an element type");
}

// ONNX's raw data is little-endian and in row-major order: the bytes are copied as they are, but
// for elements of fewer than 8 bits.
Result<Tensor> from_raw(const TensorProto& proto, DType dtype, const Shape& shape) {
  const uint64_t bytes = stored_bytes(dtype, shape.elements());
  if (proto.raw_data().size() != bytes) {
    return error(proto, cat("expected ", bytes, " bytes, received ", proto.raw_data().size()));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape));
  if (bytes > 0) {
    const std::span<const char> raw(proto.raw_data().data(), bytes);
    if (is_narrow(dtype))
      unpack(std::as_bytes(raw), tensor);
    else
      std::memcpy(tensor.raw(), raw.data(), bytes);
  }
  make_bools(tensor);
  return tensor;
}

// The place of data in another file. Without a length, it is as long as the tensor.
struct External {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

Result<External> parse_external(const TensorProto& proto) {
  External external;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    uint64_t number = 0;
    const char* end = entry.value().data() + entry.value().size();
    const auto [parsed, failure] = std::from_chars(entry.value().data(), end, number);
    if (failure != std::errc() || parsed != end) {
      return error(proto, cat("external data: expected a number as ", entry.key(), ", received '",
                              entry.value(), "'"));
    }
    if (entry.key() == "offset") external.offset = number;
    if (entry.key() == "length") external.length = number;
  }
  return external;
}

// The path of external data, if it is inside the model's directory, both as text and after every
// symbolic link is followed.
Result<std::string> path_inside(const TensorProto& proto, const std::string& location,
                                const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path relative(location);
  const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      climbs) {
    return error(proto, cat("external data: expected a path inside of the model's directory, "
                            "received '",
                            location, "'"));
  }
  std::error_code failure;
  const fs::path root = fs::canonical(directory, failure);
  const fs::path path = failure ? fs::path() : fs::weakly_canonical(root / relative, failure);
  const bool inside =
      !failure &&
      std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
  if (!inside) {
    return error(proto, cat("external data: expected a file inside of the model's directory, '",
                            location, "' leads out of it"));
  }
  return path.string();
}

Result<Tensor> from_file(const TensorProto& proto, DType dtype, const Shape& shape,
                         const OnnxExternal& external) {
  if (external.files == nullptr) {
    return error(proto, "expected its data inside of the model, it lies in another file");
  }
  LEAT_ASSIGN_OR_RETURN(const External where, parse_external(proto));
  LEAT_ASSIGN_OR_RETURN(const std::string path,
                        path_inside(proto, where.location, external.directory));
  LEAT_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, external.files->open(path));
  const uint64_t bytes = stored_bytes(dtype, shape.elements());
  // Checked without a sum, which a huge offset could overflow.
  if (where.length.value_or(bytes) != bytes || where.offset > file->size() ||
      bytes > file->size() - where.offset) {
    return error(proto, cat("external data: expected ", bytes, " bytes at ", where.offset, " of ",
                            where.location, ", which has ", file->size()));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape));
  std::vector<std::byte> narrow(is_narrow(dtype) ? bytes : 0);
  const std::span<std::byte> to = is_narrow(dtype)
                                      ? std::span(narrow)
                                      : std::span(static_cast<std::byte*>(tensor.raw()), bytes);
  LEAT_RETURN_IF_ERROR(file->read(where.offset, to));
  if (is_narrow(dtype)) unpack(narrow, tensor);
  make_bools(tensor);
  return tensor;
}

}  // namespace

// The shape's check bounds the product; a shape beyond the limits gets its error from tensor_of().
uint64_t claimed_bytes(const TensorProto& proto) {
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  const auto shape = Shape::checked(dims);
  if (!shape || shape->elements() > limits::kElements) return 0;
  return static_cast<uint64_t>(shape->elements()) *
         dtype_size(dtype_from_onnx_code(proto.data_type()));
}

Result<Tensor> tensor_of(const TensorProto& proto, const OnnxExternal& external) {
  const DType dtype = dtype_from_onnx_code(proto.data_type());
  if (dtype == DType::invalid) {
    return error(
        proto, cat("expected a number's type, received TensorProto.DataType ", proto.data_type()));
  }
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  const auto shape = Shape::checked(dims);
  if (!shape || shape->elements() > limits::kElements) {
    return error(proto, cat("expected at most ", limits::kRank,
                            " sizes and 2^40 elements, "
                            "received [",
                            join(dims, ","), "]"));
  }
  if (proto.data_location() == 1) return from_file(proto, dtype, *shape, external);
  if (proto.has_raw_data()) return from_raw(proto, dtype, *shape);
  return from_fields(proto, dtype, *shape);
}

}  // namespace leat
