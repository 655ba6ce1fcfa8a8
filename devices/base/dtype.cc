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

}  // namespace leat
