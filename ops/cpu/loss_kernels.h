// The kernels of the classification losses. Only the family's files include this.
#pragma once

#include <memory>

#include "ops/graph/kernel.h"

namespace leat {

// (scores, labels, weights or absent) -> (loss, log_prob or absent). With `given_log_prob`, the
// scores are log probabilities already, and there is one output.
Result<std::unique_ptr<Kernel>> make_cross_entropy_kernel(const KernelSetup& setup,
                                                          bool given_log_prob);
// (dloss, log_prob, labels, weights or absent) -> the gradient of the scores.
Result<std::unique_ptr<Kernel>> make_cross_entropy_grad_kernel(const KernelSetup& setup,
                                                               bool given_log_prob);

}  // namespace leat
