// The types of a tensor's elements: their sizes, their names in the file formats, and sets of them.
//
// Threads: everything here is a value or a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

#include "devices/base/float16.h"

namespace leat {

// The element types. Plans and checkpoints store the numbers, so a number never changes.
enum class DType : uint8_t {
  invalid = 0,
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,  // one byte, 0 or 1
  // Narrow types, for storage alone: one byte each in memory (devices/base/narrow.h).
  f8e4m3fn,  // 4 bits of exponent, 3 of mantissa
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,  // powers of two
  f6e2m3,
  f6e3m2,
  f4e2m1,
  i4,
  u4,
  i2,
  u2,
};
inline constexpr int kDTypeCount = 26;

// The bytes of one element in memory; 0 for invalid.
size_t dtype_size(DType dtype);
// The bits that tell elements apart: 8 times the size, but for narrow types.
int dtype_bits(DType dtype);
// The name that ONNX uses: float, double, float16, bfloat16, int8 ... uint64, bool, float8e4m3fn,
// ... uint2. "invalid" for invalid.
std::string_view dtype_name(DType dtype);
// The type of this name, or nothing if no type has it. "invalid" is not the name of a type.
std::optional<DType> dtype_from_name(std::string_view name);
// The name that safetensors uses: F32, F64, F16, BF16, I8 ... U64, BOOL, F8_E4M3 and others of 8
// bits. Empty for types that it lacks or packs.
std::string_view dtype_safetensors_name(DType dtype);
// The number in TensorProto.DataType of ONNX, both ways. An unknown number is `invalid`, and
// `invalid` is 0.
int dtype_onnx_code(DType dtype);
DType dtype_from_onnx_code(int64_t code);

inline bool is_float(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16;
}
inline bool is_signed_int(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64;
}
inline bool is_unsigned_int(DType t) {
  return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
}
inline bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
// The types of fewer than 16 bits that values are only stored in: neither is_float() nor is_int().
inline bool is_narrow(DType t) { return t >= DType::f8e4m3fn && t <= DType::u2; }
inline bool is_narrow_float(DType t) { return t >= DType::f8e4m3fn && t <= DType::f4e2m1; }

std::ostream& operator<<(std::ostream& out, DType dtype);

// A set of types, as the constraint of an op's input. A value of 32 bits.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  // The set of the given types: DTypeSet::of(DType::f32, DType::f64).
  template <typename... T>
  static constexpr DTypeSet of(T... types) {
    DTypeSet set;
    ((set.bits_ |= uint32_t{1} << static_cast<int>(types)), ...);
    return set;
  }
  constexpr bool has(DType t) const { return (bits_ >> static_cast<int>(t)) & 1; }
  constexpr DTypeSet operator|(DTypeSet o) const {
    DTypeSet set;
    set.bits_ = bits_ | o.bits_;
    return set;
  }
  constexpr bool operator==(const DTypeSet&) const = default;

 private:
  uint32_t bits_ = 0;
};

// The sets that op definitions use.
inline constexpr DTypeSet kFloats = DTypeSet::of(DType::f32, DType::f64, DType::f16, DType::bf16);
inline constexpr DTypeSet kSignedInts = DTypeSet::of(DType::i8, DType::i16, DType::i32, DType::i64);
inline constexpr DTypeSet kUnsignedInts =
    DTypeSet::of(DType::u8, DType::u16, DType::u32, DType::u64);
inline constexpr DTypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr DTypeSet kNumbers = kFloats | kInts;
inline constexpr DTypeSet kSigned = kFloats | kSignedInts;
inline constexpr DTypeSet kBool = DTypeSet::of(DType::boolean);
inline constexpr DTypeSet kNarrowTypes = DTypeSet::of(
    DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0,
    DType::f6e2m3, DType::f6e3m2, DType::f4e2m1, DType::i4, DType::u4, DType::i2, DType::u2);
// Of values that ops compute with, and of values that they move.
inline constexpr DTypeSet kAllTypes = kNumbers | kBool;
inline constexpr DTypeSet kStoredTypes = kAllTypes | kNarrowTypes;
inline constexpr DTypeSet kIndexTypes = DTypeSet::of(DType::i32, DType::i64);

// The floating-point types of 16 bits.
inline bool is_16bit_float(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace leat
