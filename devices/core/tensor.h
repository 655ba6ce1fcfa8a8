// A tensor in host memory. Tensors cross the borders of the runtime: constants, feeds, fetches,
// checkpoints. Inside a step there are only the plan's values, which are addresses.
//
//   const Tensor a = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
//   const Tensor row = a.reshaped({4});           // the same bytes
//   const Tensor b = a.cast(DType::f64);          // bytes of its own
//   for (const float x : a.span<float>()) sum += x;
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"
#include "devices/base/status.h"

namespace leat {

// DTypeOf<T>::value is the element type whose elements have the C++ type T. Half and BFloat16 stand
// for the 16-bit floats, bool for boolean.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

// Calls f(T{}) with the C++ type T of `dtype`, and returns its result. Code that treats all types
// alike is written once, as a generic lambda. Narrow types are bytes here: their codes are moved,
// and no code is taken for a number.
// REQUIRES: dtype != invalid.
template <typename F>
decltype(auto) dispatch_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::boolean:
      return f(bool{});
    default:
      return f(uint8_t{});
  }
}

// A row-major, contiguous array, 64-byte aligned if the tensor made it itself. Copies share the
// bytes, so that a shared tensor must not be written; clone() makes a private copy.
// Threads: a value; the owner orders the accesses to the bytes.
class Tensor {
 public:
  // Invalid: dtype() == DType::invalid, and no other member but valid() may be used.
  Tensor() = default;
  // Zeroed. Throws std::bad_alloc if there is no memory. REQUIRES: the shape comes from
  // Shape::checked() or from sizes that are trusted.
  Tensor(DType dtype, const Shape& shape);
  // The same for sizes that may be too large: resource_exhausted if there is no memory.
  static Result<Tensor> create(DType dtype, const Shape& shape);
  // A tensor over memory at `data`, which `owner` keeps alive: a mapped file, an arena, or a part
  // of another tensor. Nothing is copied or checked. REQUIRES: `data` is aligned for the type and
  // has bytes for all elements.
  static Tensor wrap(DType dtype, const Shape& shape, void* data, std::shared_ptr<void> owner);

  // Tensor::of<float>({2,2}, {1,2,3,4}). REQUIRES: as many values as elements.
  template <typename T>
  static Tensor of(const Shape& shape, const std::vector<T>& values) {
    Tensor t(DTypeOf<T>::value, shape);
    for (size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = values[i];
    return t;
  }
  template <typename T>
  static Tensor scalar(T value) {
    Tensor t(DTypeOf<T>::value, Shape());
    t.data<T>()[0] = value;
    return t;
  }
  // A scalar of type `dtype` with `value` converted to it.
  static Tensor scalar_of(DType dtype, double value);

  bool valid() const { return dtype_ != DType::invalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  // elements() times the size of one element.
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_size(dtype_); }

  // The first byte; elements follow each other without gaps.
  void* raw() const { return data_.get(); }
  // REQUIRES: T is the C++ type of dtype().
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_.get());
  }
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(elements())};
  }

  // The same bytes under another shape. REQUIRES: as many elements.
  Tensor reshaped(const Shape& shape) const;
  // A copy with bytes of its own.
  Tensor clone() const;
  // Element i in row-major order, converted to double or to int64. For tests and small constants:
  // each call looks the type up. int_at() keeps all bits of a 64-bit integer, at() only 53.
  // REQUIRES: 0 <= i < elements(); for int_at(), a float is in the range of int64.
  double at(int64_t i) const;
  int64_t int_at(int64_t i) const;
  // Sets element i from a double. REQUIRES: no other tensor shares the bytes.
  void set(int64_t i, double value);
  // A new tensor with every element converted as C++ converts it; to bool, any value but 0 is true.
  // To narrow types as Cast of ONNX does it, with saturation.
  Tensor cast(DType dtype) const;
  // True if type, shape and all bytes are the same. Zeros of different signs differ, and a NaN
  // equals a NaN with the same bits.
  bool identical(const Tensor& other) const;
  // "float[2,2] {1, 2, 3, 4}". Elements past the first `max_elements` are "...".
  std::string to_string(int64_t max_elements = 16) const;

 private:
  DType dtype_ = DType::invalid;
  Shape shape_;
  std::shared_ptr<void> data_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace leat
