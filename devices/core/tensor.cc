#include "devices/core/tensor.h"

#include <cstdlib>
#include <new>

#include "devices/base/narrow.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A cache line, so that vector loads of the first elements do not cross one.
constexpr size_t kAlignment = 64;

// Null if there is no memory. At least one alignment's worth, so that an empty tensor has memory.
std::shared_ptr<void> allocate_zeroed(size_t bytes) {
  const size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, rounded);
  return std::shared_ptr<void>(memory, std::free);
}

// Conversions of one element. Half and BFloat16 go through float, and a bool is true for every
// value but 0.
template <typename T>
double as_double(T v) {
  return static_cast<double>(v);
}
template <>
double as_double(Half v) {
  return to_float(v);
}
template <>
double as_double(BFloat16 v) {
  return to_float(v);
}

template <typename To>
To from_double(double v) {
  return static_cast<To>(v);
}
template <>
Half from_double(double v) {
  return to_half(static_cast<float>(v));
}
template <>
BFloat16 from_double(double v) {
  return to_bfloat16(static_cast<float>(v));
}
template <>
bool from_double(double v) {
  return v != 0;
}

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  data_ = allocate_zeroed(bytes());
  if (!data_) throw std::bad_alloc();
}

// A size whose bytes overflow counts as no memory.
Result<Tensor> Tensor::create(DType dtype, const Shape& shape) {
  const auto bytes = checked_mul(shape.elements(), static_cast<int64_t>(dtype_size(dtype)));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  if (bytes) tensor.data_ = allocate_zeroed(static_cast<size_t>(*bytes));
  if (!tensor.data_) {
    return resource_exhausted(cat("tensor ", dtype, shape, ": no memory for ",
                                  human_bytes(bytes ? static_cast<uint64_t>(*bytes) : ~0ull)));
  }
  return tensor;
}

// The shared pointer points to `data` and counts the references of `owner`.
Tensor Tensor::wrap(DType dtype, const Shape& shape, void* data, std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.data_ = std::shared_ptr<void>(std::move(owner), data);
  return tensor;
}

Tensor Tensor::scalar_of(DType dtype, double value) {
  Tensor tensor(dtype, Shape());
  tensor.set(0, value);
  return tensor;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  Tensor out = *this;
  out.shape_ = shape;
  return out;
}

Tensor Tensor::clone() const {
  Tensor out(dtype_, shape_);
  if (bytes() > 0) std::memcpy(out.raw(), raw(), bytes());
  return out;
}

double Tensor::at(int64_t i) const {
  if (is_narrow(dtype_)) return narrow_value(narrow_format(dtype_), data<uint8_t>()[i]);
  return dispatch_dtype(dtype_, [&](auto tag) { return as_double(data<decltype(tag)>()[i]); });
}

// Integers do not go through double, which would lose bits of large ones.
int64_t Tensor::int_at(int64_t i) const {
  if (is_narrow(dtype_)) return static_cast<int64_t>(at(i));
  return dispatch_dtype(dtype_, [&](auto tag) -> int64_t {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(data<T>()[i]);
    else
      return static_cast<int64_t>(as_double(data<T>()[i]));
  });
}

void Tensor::set(int64_t i, double value) {
  if (is_narrow(dtype_)) {
    data<uint8_t>()[i] = narrow_code(narrow_format(dtype_), value);
    return;
  }
  dispatch_dtype(dtype_, [&](auto tag) {
    using T = decltype(tag);
    data<T>()[i] = from_double<T>(value);
  });
}

Tensor Tensor::cast(DType dtype) const {
  Tensor out(dtype, shape_);
  const int64_t n = elements();
  if (is_narrow(dtype)) {
    // The low bits of a large integer are not in its double.
    const bool wraps = is_int(dtype_) && !is_narrow_float(dtype);
    for (int64_t i = 0; i < n; ++i) out.set(i, wraps ? double(int_at(i) & 0xff) : at(i));
    return out;
  }
  if (is_narrow(dtype_)) {
    Tensor wide(is_narrow_float(dtype_) ? DType::f32 : DType::i32, shape_);
    for (int64_t i = 0; i < n; ++i) wide.set(i, at(i));
    return wide.cast(dtype);
  }
  dispatch_dtype(dtype_, [&](auto from_tag) {
    using From = decltype(from_tag);
    dispatch_dtype(dtype, [&](auto to_tag) {
      using To = decltype(to_tag);
      const From* in = data<From>();
      To* to = out.data<To>();
      for (int64_t i = 0; i < n; ++i) {
        // Likewise here.
        if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
          to[i] = static_cast<To>(in[i]);
        } else {
          to[i] = from_double<To>(as_double(in[i]));
        }
      }
    });
  });
  return out;
}

bool Tensor::identical(const Tensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         (bytes() == 0 || std::memcmp(raw(), other.raw(), bytes()) == 0);
}

// For messages and tests: large tensors are cut.
std::string Tensor::to_string(int64_t max_elements) const {
  if (!valid()) return "invalid tensor";
  std::ostringstream out;
  out << dtype_ << shape_ << " {";
  const int64_t n = elements();
  for (int64_t i = 0; i < n && i < max_elements; ++i) {
    if (i) out << ", ";
    if (is_float(dtype_) || is_narrow(dtype_))
      out << at(i);
    else
      out << int_at(i);
  }
  if (n > max_elements) out << ", ...";
  out << "}";
  return std::move(out).str();
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace leat
