#include "devices/base/dtype.h"

#include <bit>
#include <cstring>

namespace leat {
namespace {

struct Row {
  DType dtype;
  size_t size;
  std::string_view name;
  std::string_view safetensors;
  int onnx;
};

// One row for each type, in the order of the enum: size, ONNX's name, safetensors' name, ONNX's
// number. Every function below looks here.
constexpr Row kRows[kDTypeCount] = {
    {DType::invalid, 0, "invalid", "", 0},    {DType::f32, 4, "float", "F32", 1},
    {DType::f64, 8, "double", "F64", 11},     {DType::f16, 2, "float16", "F16", 10},
    {DType::bf16, 2, "bfloat16", "BF16", 16}, {DType::i8, 1, "int8", "I8", 3},
    {DType::i16, 2, "int16", "I16", 5},       {DType::i32, 4, "int32", "I32", 6},
    {DType::i64, 8, "int64", "I64", 7},       {DType::u8, 1, "uint8", "U8", 2},
    {DType::u16, 2, "uint16", "U16", 4},      {DType::u32, 4, "uint32", "U32", 12},
    {DType::u64, 8, "uint64", "U64", 13},     {DType::boolean, 1, "bool", "BOOL", 9},
};

// The row of a type; that of `invalid` for a number out of range.
const Row& row(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return kRows[index < kDTypeCount ? index : 0];
}

}  // namespace

size_t dtype_size(DType dtype) { return row(dtype).size; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::string_view dtype_safetensors_name(DType dtype) { return row(dtype).safetensors; }
int dtype_onnx_code(DType dtype) { return row(dtype).onnx; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.dtype != DType::invalid && r.name == name) return r.dtype;
  }
  return std::nullopt;
}

DType dtype_from_onnx_code(int64_t code) {
  for (const Row& r : kRows) {
    if (r.onnx == code) return r.dtype;
  }
  return DType::invalid;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << dtype_name(dtype); }

float to_float(BFloat16 b) { return std::bit_cast<float>(uint32_t{b.bits} << 16); }

// A bfloat16 is the upper half of a float. Adding 0x7fff plus its lowest bit rounds to nearest
// even. A NaN gets a bit that is not cut off, so that it stays a NaN.
BFloat16 to_bfloat16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

// A subnormal half is normal as a float: its mantissa is shifted until its leading bit is there.
// 112 is the difference of the two exponents' biases.
float to_float(Half h) {
  const uint32_t sign = uint32_t{h.bits & 0x8000u} << 16;
  uint32_t exponent = (h.bits >> 10) & 0x1f;
  uint32_t mantissa = h.bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while (!(mantissa & 0x400)) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x3ff;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// 0x477ff000 is the smallest float that rounds to infinity, 0x38800000 the smallest normal half.
Half to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};
  // A subnormal or zero: the sum with 0.5f, whose unit in the last place is 2^-24, rounds it.
  if (magnitude < 0x38800000) {
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000))};
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13))};
}

}  // namespace leat
