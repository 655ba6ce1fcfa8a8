#include "daemon/wire/values.h"

#include <algorithm>

#include "daemon/wire/views.h"
#include "devices/base/text.h"

namespace leat {
namespace {

void write_names(const std::vector<std::string>& names, capnp::List<capnp::Text>::Builder out) {
  for (uint32_t i = 0; i < out.size(); ++i) out.set(i, names[i].c_str());
}

std::vector<std::string> read_names(capnp::List<capnp::Text>::Reader in) {
  std::vector<std::string> names;
  for (const auto name : in) names.push_back(to_string(name));
  return names;
}

}  // namespace

std::vector<PackedValue> pack_values(std::span<const Tensor> tensors) {
  std::vector<PackedValue> packed;
  size_t inline_bytes = 0;
  for (const Tensor& tensor : tensors) {
    PackedValue& value = packed.emplace_back();
    value.tensor = tensor;
    if (!tensor.valid()) continue;
    if (inline_bytes + tensor.bytes() <= kInlineBytes) {
      inline_bytes += tensor.bytes();
      continue;
    }
    const auto* bytes = static_cast<const std::byte*>(tensor.raw());
    value.blob = std::make_shared<const Blob>(bytes, bytes + tensor.bytes());
    value.info = describe(*value.blob);
  }
  return packed;
}

void write_type(const Tensor& tensor, wire::TensorType::Builder out) {
  if (!tensor.valid()) return;
  const std::string_view name = dtype_name(tensor.dtype());
  out.setDtype({name.data(), name.size()});
  const auto sizes = tensor.shape().dims();
  auto dims = out.initDims(static_cast<uint32_t>(sizes.size()));
  for (uint32_t i = 0; i < dims.size(); ++i) dims.set(i, sizes[i]);
}

Result<TensorType> read_type(wire::TensorType::Reader in) {
  TensorType type;
  const std::string name = to_string(in.getDtype());
  if (name.empty()) return type;
  std::vector<int64_t> sizes;
  for (const int64_t size : in.getDims()) sizes.push_back(size);
  const auto dtype = dtype_from_name(name);
  const auto shape = Shape::checked(sizes);
  if (!dtype || !shape) {
    return invalid_argument(
        cat("a tensor: expected a type and a shape, received ", name, "[", join(sizes, ","), "]"));
  }
  type.dtype = *dtype;
  type.shape = *shape;
  return type;
}

capnp::Data::Reader bytes_of(const Tensor& tensor) {
  if (!tensor.valid()) return {};
  return {static_cast<const kj::byte*>(tensor.raw()), tensor.bytes()};
}

std::span<const std::byte> bytes_of(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

Result<Tensor> make_tensor(const TensorType& type, std::span<const std::byte> bytes) {
  const std::string text = type.dtype == DType::invalid
                               ? "no tensor"
                               : cat(dtype_name(type.dtype), type.shape.to_string());
  // Below 2^62 elements of at most 8 bytes each: the size cannot overflow once the numbers are
  // equal.
  const size_t size = type.dtype == DType::invalid ? 1 : dtype_size(type.dtype);
  const auto elements =
      type.dtype == DType::invalid ? uint64_t{0} : static_cast<uint64_t>(type.shape.elements());
  if (bytes.size() / size != elements || bytes.size() % size != 0) {
    return invalid_argument(cat(text, ": received ", bytes.size(), " bytes"));
  }
  if (type.dtype == DType::invalid) return Tensor();
  const auto is_bool = [](std::byte byte) { return static_cast<unsigned>(byte) <= 1; };
  if (type.dtype == DType::boolean && !std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    return invalid_argument(cat(text, ": expected bytes of 0 or 1"));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(type.dtype, type.shape));
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

void write_signature(const Signature& signature, wire::Signature::Builder out) {
  write_names(signature.feeds, out.initFeeds(static_cast<uint32_t>(signature.feeds.size())));
  write_names(signature.fetches, out.initFetches(static_cast<uint32_t>(signature.fetches.size())));
  write_names(signature.targets, out.initTargets(static_cast<uint32_t>(signature.targets.size())));
  out.setIsolated(signature.isolated);
}

Signature read_signature(wire::Signature::Reader in) {
  return {read_names(in.getFeeds()), read_names(in.getFetches()), read_names(in.getTargets()),
          in.getIsolated()};
}

}  // namespace leat
