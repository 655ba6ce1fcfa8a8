// CPU kernels of ops/definitions/normalization.cc.
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/normalization_kernels.h"

namespace leat {
namespace {

// Operands of 16 bits beside others of 32 are for accelerators: y of a layer norm, and dy.
template <bool gradient>
bool has_one_dtype(const OpTypes& types) {
  return types.inputs[0].dtype == (gradient ? types.inputs[1] : types.outputs[0]).dtype;
}
template <Result<std::unique_ptr<Kernel>> (*make)(const KernelSetup&), bool gradient>
Result<std::unique_ptr<Kernel>> of_one_dtype(const KernelSetup& setup) {
  if (has_one_dtype<gradient>(setup.types)) return make(setup);
  return unimplemented(
      cat(setup.subject, ": expected operands of one dtype on a CPU, received 16 bits beside 32"));
}

}  // namespace

void add_normalization_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("BatchNormalization", "cpu", make_batch_norm_kernel);
  catalogue.add_kernel("leat.BatchNormalizationGrad", "cpu", make_batch_norm_grad_kernel);
  catalogue.add_kernel("LayerNormalization", "cpu", of_one_dtype<make_layer_norm_kernel, false>,
                       has_one_dtype<false>);
  catalogue.add_kernel("leat.LayerNormalizationGrad", "cpu",
                       of_one_dtype<make_layer_norm_grad_kernel, true>, has_one_dtype<true>);
}

}  // namespace leat
