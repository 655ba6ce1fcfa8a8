// CPU kernels of ops/definitions/pool.cc.
#include "ops/definitions/pool.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/pool_kernel.h"
#include "ops/definitions/window.h"

namespace leat {
namespace {

// --- kernels -------------------------------------------------------------------------------------

// The window of a node whose x has shape `input` and whose y has shape `output`. A gradient passes
// the shapes of its output and its input, in this order.
Result<Window> window_for(const KernelSetup& setup, const Shape& input, const Shape& output) {
  auto window = pool_window(setup.attrs(), input.rank());
  if (!window.ok())
    return Status(window.status().code(), cat(setup.subject, ": ", window.status().message()));
  return concrete_window(*window, input, output);
}

Window global_window_for(const KernelSetup& setup) {
  const Shape& input = setup.input(0).shape;
  const auto spatial = input.dims().subspan(2);
  return concrete_window(global_window({spatial.begin(), spatial.end()}), input,
                         setup.output(0).shape);
}

// The factories convert f16 and bf16 to float: they pass themselves to compute_in_f32(), which
// calls them again. Indices and argmax are integers and stay as they are.
Result<std::unique_ptr<Kernel>> pool_in_f32(const KernelSetup& setup,
                                            const KernelFactory& factory) {
  const Shape &x = setup.input(0).shape, &y = setup.output(0).shape;
  const int64_t row = std::max(x.elements(1, x.rank()), y.elements(1, y.rank()));
  return compute_in_f32(setup, factory, {.tile_rows = default_tile_rows(x[0], row)});
}

Result<std::unique_ptr<Kernel>> max_pool_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, max_pool_cpu);
  LEAT_ASSIGN_OR_RETURN(const Window window,
                        window_for(setup, setup.input(0).shape, setup.output(0).shape));
  MaxPoolOutputs outputs;
  outputs.indices = setup.types.has_output(1) ? 1 : -1;
  outputs.argmax = setup.types.has_output(2) ? 2 : -1;
  // ONNX's storage_order 1 counts the positions of a plane column by column.
  outputs.column_major = attr_int(setup.attrs(), "storage_order") == 1;
  return make_max_pool_kernel(setup, window, outputs);
}

Result<std::unique_ptr<Kernel>> global_max_pool_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, global_max_pool_cpu);
  MaxPoolOutputs outputs;
  outputs.argmax = setup.types.has_output(1) ? 1 : -1;
  return make_max_pool_kernel(setup, global_window_for(setup), outputs);
}

Result<std::unique_ptr<Kernel>> max_pool_grad_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, max_pool_grad_cpu);
  LEAT_ASSIGN_OR_RETURN(const Window window,
                        window_for(setup, setup.output(0).shape, setup.input(0).shape));
  return make_max_pool_grad_kernel(setup, window);
}

bool count_pads(const KernelSetup& setup) {
  return attr_int(setup.attrs(), "count_include_pad") != 0;
}

Result<std::unique_ptr<Kernel>> average_pool_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, average_pool_cpu);
  LEAT_ASSIGN_OR_RETURN(const Window window,
                        window_for(setup, setup.input(0).shape, setup.output(0).shape));
  return make_average_pool_kernel(setup, window, count_pads(setup), false);
}

// A window over the whole input has no padding, so count_pads does not matter.
Result<std::unique_ptr<Kernel>> global_average_pool_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, global_average_pool_cpu);
  return make_average_pool_kernel(setup, global_window_for(setup), false, false);
}

Result<std::unique_ptr<Kernel>> average_pool_grad_cpu(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return pool_in_f32(setup, average_pool_grad_cpu);
  LEAT_ASSIGN_OR_RETURN(const Window window,
                        window_for(setup, setup.output(0).shape, setup.input(0).shape));
  return make_average_pool_kernel(setup, window, count_pads(setup), true);
}

}  // namespace

void add_pool_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("MaxPool", "cpu", max_pool_cpu);
  catalogue.add_kernel("GlobalMaxPool", "cpu", global_max_pool_cpu);
  catalogue.add_kernel("AveragePool", "cpu", average_pool_cpu);
  catalogue.add_kernel("GlobalAveragePool", "cpu", global_average_pool_cpu);
  catalogue.add_kernel("leat.MaxPoolGrad", "cpu", max_pool_grad_cpu);
  catalogue.add_kernel("leat.AveragePoolGrad", "cpu", average_pool_grad_cpu);
}

}  // namespace leat
