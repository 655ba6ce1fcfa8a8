// CPU kernels of ops/definitions/normalization.cc.
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/normalization_kernels.h"

namespace leat {

void add_normalization_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("BatchNormalization", "cpu", make_batch_norm_kernel);
  catalogue.add_kernel("leat.BatchNormalizationGrad", "cpu", make_batch_norm_grad_kernel);
  catalogue.add_kernel("LayerNormalization", "cpu", make_layer_norm_kernel);
  catalogue.add_kernel("leat.LayerNormalizationGrad", "cpu", make_layer_norm_grad_kernel);
}

}  // namespace leat
