#include "devices/base/dtype.h"

#include <bit>
#include <cstring>

#include "devices/base/narrow.h"

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
    {DType::invalid, 0, "invalid", "", 0},
    {DType::f32, 4, "float", "F32", 1},
    {DType::f64, 8, "double", "F64", 11},
    {DType::f16, 2, "float16", "F16", 10},
    {DType::bf16, 2, "bfloat16", "BF16", 16},
    {DType::i8, 1, "int8", "I8", 3},
    {DType::i16, 2, "int16", "I16", 5},
    {DType::i32, 4, "int32", "I32", 6},
    {DType::i64, 8, "int64", "I64", 7},
    {DType::u8, 1, "uint8", "U8", 2},
    {DType::u16, 2, "uint16", "U16", 4},
    {DType::u32, 4, "uint32", "U32", 12},
    {DType::u64, 8, "uint64", "U64", 13},
    {DType::boolean, 1, "bool", "BOOL", 9},
    {DType::f8e4m3fn, 1, "float8e4m3fn", "F8_E4M3", 17},
    {DType::f8e4m3fnuz, 1, "float8e4m3fnuz", "F8_E4M3FNUZ", 18},
    {DType::f8e5m2, 1, "float8e5m2", "F8_E5M2", 19},
    {DType::f8e5m2fnuz, 1, "float8e5m2fnuz", "F8_E5M2FNUZ", 20},
    {DType::f8e8m0, 1, "float8e8m0", "F8_E8M0", 24},
    {DType::f6e2m3, 1, "float6e2m3", "", 27},
    {DType::f6e3m2, 1, "float6e3m2", "", 28},
    {DType::f4e2m1, 1, "float4e2m1", "", 23},
    {DType::i4, 1, "int4", "", 22},
    {DType::u4, 1, "uint4", "", 21},
    {DType::i2, 1, "int2", "", 26},
    {DType::u2, 1, "uint2", "", 25},
};

// The row of a type; that of `invalid` for a number out of range.
const Row& row(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return kRows[index < kDTypeCount ? index : 0];
}

}  // namespace

size_t dtype_size(DType dtype) { return row(dtype).size; }
int dtype_bits(DType dtype) {
  return is_narrow(dtype) ? narrow_format(dtype).bits : 8 * static_cast<int>(dtype_size(dtype));
}
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

}  // namespace leat
