// CPU kernels of ops/definitions/variable.cc.
#include "ops/definitions/variable.h"

#include <cstring>
#include <type_traits>

#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/element_kernel.h"
#include "ops/cpu/guarded_kernel.h"
#include "ops/cpu/vectorize.h"
#include "ops/graph/limits.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// Copies the bytes of one tile. The value may be the variable itself, read without a copy.
void copy_tile(void* to, const void* from, size_t element, ElementRange range) {
  const size_t offset = static_cast<size_t>(range.begin) * element;
  const size_t bytes = static_cast<size_t>(range.end - range.begin) * element;
  if (bytes == 0) return;
  std::memmove(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset,
               bytes);
}

// leat.Read and leat.Snapshot: copy the variable, tile by tile, to the output.
Result<std::unique_ptr<Kernel>> make_read(const KernelSetup& setup) {
  const int64_t n = setup.output(0).shape.elements();
  const size_t element = dtype_size(setup.output(0).dtype);
  return make_element_kernel(n, [element](KernelContext& context, ElementRange range) {
    copy_tile(context.outputs[0], context.inputs[0], element, range);
    return Progress::done;
  });
}

// leat.Assign and leat.Initialize: copy input 1 into the variable. The kernel is made with concrete
// shapes, so it checks here the sizes that inference knew only as symbols.
Result<std::unique_ptr<Kernel>> make_assign(const KernelSetup& setup) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 1));
  const int64_t n = setup.input(1).shape.elements();
  const size_t element = dtype_size(setup.input(1).dtype);
  std::unique_ptr<Kernel> kernel =
      make_element_kernel(n, [element](KernelContext& context, ElementRange range) {
        copy_tile(context.inputs[0], context.inputs[1], element, range);
        return Progress::done;
      });
  return guarded(setup, kWriteGuard, std::move(kernel));
}

// The loops of f32 and f64 are plain functions, because a template cannot have clones.
LEAT_VECTOR_CLONES void add_floats(float* to, const float* from, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

LEAT_VECTOR_CLONES void add_doubles(double* to, const double* from, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// to += from. f16 and bf16 are added as floats, and the sum is rounded once per element.
template <typename T>
void add_elements(T* to, const T* from, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    add_floats(to, from, n);
  } else if constexpr (std::is_same_v<T, double>) {
    add_doubles(to, from, n);
  } else if constexpr (std::is_same_v<T, Half>) {
    for (int64_t i = 0; i < n; ++i) to[i] = to_half(to_float(to[i]) + to_float(from[i]));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    for (int64_t i = 0; i < n; ++i) to[i] = to_bfloat16(to_float(to[i]) + to_float(from[i]));
  } else if constexpr (!std::is_same_v<T, bool>) {
    // The signature of leat.AssignAdd has no bool, but dispatch_dtype() makes an instance for it.
    using U = std::make_unsigned_t<T>;  // integers wrap
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<T>(static_cast<U>(static_cast<U>(to[i]) + static_cast<U>(from[i])));
    }
  }
}

// leat.AssignAdd: adds input 1 to the variable. A tile reads and writes its own elements only.
Result<std::unique_ptr<Kernel>> make_assign_add(const KernelSetup& setup) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 1));
  const int64_t n = setup.input(1).shape.elements();
  const auto make = [n](auto zero) -> Result<std::unique_ptr<Kernel>> {
    using T = decltype(zero);
    return make_element_kernel(n, [](KernelContext& context, ElementRange range) {
      add_elements(static_cast<T*>(context.inputs[0]) + range.begin, context.in<T>(1) + range.begin,
                   range.end - range.begin);
      return Progress::done;
    });
  };
  return guarded(setup, kWriteGuard, dispatch_dtype(setup.input(1).dtype, make));
}

}  // namespace

Status check_fits(const KernelSetup& setup, int operand) {
  const OperandType &variable = setup.input(0), &value = setup.input(operand);
  if (value.dtype == variable.dtype && value.shape == variable.shape) return {};
  return invalid_argument(cat(setup.subject, ": input ", operand, ": expected ", variable.dtype,
                              variable.shape, " as the variable is, received ", value.dtype,
                              value.shape));
}

void add_variable_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Read", "cpu", make_read);
  catalogue.add_kernel("leat.Snapshot", "cpu", make_read);
  catalogue.add_kernel("leat.Initialize", "cpu", make_assign);
  catalogue.add_kernel("leat.Assign", "cpu", make_assign);
  catalogue.add_kernel("leat.AssignAdd", "cpu", make_assign_add);
}

}  // namespace leat
