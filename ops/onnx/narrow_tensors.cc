#include "ops/onnx/narrow_tensors.h"

#include <algorithm>

#include "devices/base/narrow.h"

namespace leat {

uint64_t stored_bytes(DType dtype, int64_t elements) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(dtype_bits(dtype)) + 7) / 8;
}

void unpack(std::span<const std::byte> stored, Tensor& tensor) {
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype()));
  const auto byte_at = [&](uint64_t i) {
    return i < stored.size() ? std::to_integer<unsigned>(stored[i]) : 0u;
  };
  uint64_t at = 0;  // in bits
  for (uint8_t& code : tensor.span<uint8_t>()) {
    const unsigned two = byte_at(at / 8) | byte_at(at / 8 + 1) << 8;
    code = static_cast<uint8_t>(two >> at % 8 & ((1u << bits) - 1));
    at += bits;
  }
}

Tensor packed(const Tensor& tensor) {
  if (!is_narrow(tensor.dtype())) return tensor;
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype()));
  Tensor out(DType::u8, {static_cast<int64_t>(stored_bytes(tensor.dtype(), tensor.elements()))});
  auto* bytes = out.data<uint8_t>();
  uint64_t at = 0;
  for (const uint8_t code : tensor.span<uint8_t>()) {
    const unsigned two = (code & ((1u << bits) - 1)) << at % 8;
    bytes[at / 8] |= static_cast<uint8_t>(two);
    if (two > 0xff) bytes[at / 8 + 1] |= static_cast<uint8_t>(two >> 8);
    at += bits;
  }
  return out;
}

// The first one that has the type at all.
static int64_t first_opset(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 19;
    case DType::i4:
    case DType::u4:
      return 21;
    case DType::f4e2m1:
      return 23;
    case DType::f8e8m0:
      return 24;
    case DType::i2:
    case DType::u2:
      return 25;
    case DType::f6e2m3:
    case DType::f6e3m2:
      return 28;
    default:
      return 1;
  }
}

int64_t opset_with(std::string_view op, DType dtype) {
  struct Since {
    std::string_view op;
    int64_t opset;
  };
  constexpr Since kOps[] = {
      {"Constant", 1}, {"Identity", 1},         {"Reshape", 1},  {"Shape", 1},
      {"Size", 1},     {"Transpose", 21},       {"Squeeze", 21}, {"Unsqueeze", 21},
      {"Flatten", 21}, {"ConstantOfShape", 20}, {"BitCast", 26}};
  const int64_t first = first_opset(dtype);
  if (first == 1 || op == "Cast") return first;
  if (dtype == DType::f6e2m3 || dtype == DType::f6e3m2) return 0;
  for (const Since& each : kOps) {
    if (each.op == op) return std::max(first, each.opset);
  }
  return 0;
}

}  // namespace leat
