// CPU kernels of ops/definitions/quantize.cc.
#include "ops/elements/quantize.h"

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/quantize.h"

namespace leat {
namespace {

template <typename X, typename Y>
void quantize_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                   const double*) {
  const X* a = static_cast<const X*>(x[0]);
  const Y* zero = static_cast<const Y*>(x[1]);
  Y* y = static_cast<Y*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] = elementwise::quantized<Y>(elementwise::load(a[i * steps[0]]), zero[i * steps[1]]);
}

// The parameters: the narrow type as a number of DType, and `saturate`.
template <typename X>
void quantize_narrow(void* out, const void* const* x, const int64_t* steps, int64_t n,
                     const double* p) {
  const NarrowFormat format = narrow_format(static_cast<DType>(p[0]));
  const NarrowRules rules{.saturate = p[1] != 0};
  const X* a = static_cast<const X*>(x[0]);
  const auto* zero = static_cast<const uint8_t*>(x[1]);
  auto* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] = elementwise::quantized_code(format, elementwise::load(a[i * steps[0]]),
                                       zero[i * steps[1]], rules);
}

template <typename X>
Loop quantize_to(DType to) {
  switch (to) {
    case DType::i8:
      return quantize_loop<X, int8_t>;
    case DType::u8:
      return quantize_loop<X, uint8_t>;
    case DType::i16:
      return quantize_loop<X, int16_t>;
    case DType::u16:
      return quantize_loop<X, uint16_t>;
    default:
      return quantize_narrow<X>;
  }
}

Result<std::unique_ptr<Kernel>> make_quantize(const KernelSetup& setup) {
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  const Loop loop = from == DType::f32   ? quantize_to<float>(to)
                    : from == DType::f64 ? quantize_to<double>(to)
                    : from == DType::f16 ? quantize_to<Half>(to)
                                         : quantize_to<BFloat16>(to);
  const auto saturate = static_cast<double>(attr_int(setup.attrs(), "saturate", 1));
  return make_elementwise(setup, loop, {static_cast<double>(to), saturate});
}

// An absent zero is 0.
template <typename X, typename Y>
void dequantize_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                     const double*) {
  const X* a = static_cast<const X*>(x[0]);
  const X* zero = static_cast<const X*>(x[1]);
  Y* y = static_cast<Y*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const X by = zero ? zero[i * steps[1]] : X{0};
    y[i] = elementwise::store<Y>(
        elementwise::dequantized<elementwise::Compute<Y>>(a[i * steps[0]], by));
  }
}

template <typename Y>
void dequantize_narrow(void* out, const void* const* x, const int64_t* steps, int64_t n,
                       const double* p) {
  const NarrowFormat format = narrow_format(static_cast<DType>(p[0]));
  const auto* a = static_cast<const uint8_t*>(x[0]);
  const auto* zero = static_cast<const uint8_t*>(x[1]);
  Y* y = static_cast<Y*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const float by = zero ? narrow_value(format, zero[i * steps[1]]) : 0.f;
    const float value = narrow_value(format, a[i * steps[0]]);
    y[i] = elementwise::store<Y>(elementwise::dequantized<elementwise::Compute<Y>>(value, by));
  }
}

template <typename Y>
Loop dequantize_from(DType from) {
  switch (from) {
    case DType::i8:
      return dequantize_loop<int8_t, Y>;
    case DType::u8:
      return dequantize_loop<uint8_t, Y>;
    case DType::i16:
      return dequantize_loop<int16_t, Y>;
    case DType::u16:
      return dequantize_loop<uint16_t, Y>;
    case DType::i32:
      return dequantize_loop<int32_t, Y>;
    default:
      return dequantize_narrow<Y>;
  }
}

Result<std::unique_ptr<Kernel>> make_dequantize(const KernelSetup& setup) {
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  const Loop loop = to == DType::f32   ? dequantize_from<float>(from)
                    : to == DType::f64 ? dequantize_from<double>(from)
                    : to == DType::f16 ? dequantize_from<Half>(from)
                                       : dequantize_from<BFloat16>(from);
  return make_elementwise(setup, loop, {static_cast<double>(from)});
}

}  // namespace

void add_quantize_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Quantize", "cpu", make_quantize);
  catalogue.add_kernel("leat.Dequantize", "cpu", make_dequantize);
}

}  // namespace leat
