// The kernels of the classification losses. Only the family's files include this.
//
// Scores are [rows, classes, ...] and labels [rows, ...] in i32 or i64; weights are [classes]. A
// position is a row and an index into the axes behind the classes, and has one label.
// loss(position) = -weight(label) * log p(label), and the attribute `reduction` (none, sum, mean)
// is that of ONNX: the mean divides by the sum of the weights. A position whose label is the
// attribute ignore_index has loss and weight 0; if all are ignored, the mean is NaN. Any other
// label outside of [0, classes) fails the step with invalid_argument, which names the row in the
// whole batch.
//
// Sums over positions have the tree of tree_sum.h, in one tile, so the rows of a tile cannot change
// a bit.
#pragma once

#include <memory>

#include "ops/graph/kernel.h"

namespace leat {

// (scores, labels, weights or absent) -> (loss, log_prob or absent). With `given_log_prob`, the
// scores are log probabilities already (NegativeLogLikelihoodLoss), and there is one output.
Result<std::unique_ptr<Kernel>> make_cross_entropy_kernel(const KernelSetup& setup,
                                                          bool given_log_prob);
// (dloss, log_prob, labels, weights or absent) -> the gradient of the scores: factor * (p - [class
// is the label]), or with `given_log_prob` -factor at the label and 0 elsewhere. Ignored positions
// get exact zeros, even if their log probabilities are NaN.
Result<std::unique_ptr<Kernel>> make_cross_entropy_grad_kernel(const KernelSetup& setup,
                                                               bool given_log_prob);
// leat.CrossEntropy, (scores, labels, weights or absent) -> (loss, stats), or with `gradient`
// leat.CrossEntropyGrad, (dloss, scores, stats, labels, weights or absent) -> dscores.
Result<std::unique_ptr<Kernel>> make_cross_entropy_stats_kernel(const KernelSetup& setup,
                                                                bool gradient);

// leat.CtcLoss, (log_probs, labels, input_lengths or absent, label_lengths or absent) -> loss, or
// with `gradient` leat.CtcLossGrad, (dloss, and the same) -> dlog_probs. A length beyond its axis,
// a label that is no class and a label that is the blank fail the step with invalid_argument.
Result<std::unique_ptr<Kernel>> make_ctc_kernel(const KernelSetup& setup, bool gradient);

}  // namespace leat
