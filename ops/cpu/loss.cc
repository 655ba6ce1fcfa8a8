// CPU kernels of ops/definitions/loss.cc.
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/loss_kernels.h"

namespace leat {

// The two losses share their kernels: NegativeLogLikelihoodLoss gets log probabilities, which
// SoftmaxCrossEntropyLoss computes first.
void add_loss_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("SoftmaxCrossEntropyLoss", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_kernel(setup, false);
  });
  catalogue.add_kernel("NegativeLogLikelihoodLoss", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_kernel(setup, true);
  });
  catalogue.add_kernel("leat.SoftmaxCrossEntropyLossGrad", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_grad_kernel(setup, false);
  });
  catalogue.add_kernel("leat.NegativeLogLikelihoodLossGrad", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_grad_kernel(setup, true);
  });
  catalogue.add_kernel("leat.CrossEntropy", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_stats_kernel(setup, false);
  });
  catalogue.add_kernel("leat.CrossEntropyGrad", "cpu", [](const KernelSetup& setup) {
    return make_cross_entropy_stats_kernel(setup, true);
  });
  catalogue.add_kernel("leat.CtcLoss", "cpu",
                       [](const KernelSetup& setup) { return make_ctc_kernel(setup, false); });
  catalogue.add_kernel("leat.CtcLossGrad", "cpu",
                       [](const KernelSetup& setup) { return make_ctc_kernel(setup, true); });
}

}  // namespace leat
