// The factories of Softmax, LogSoftmax, the losses and their gradients on CUDA.
#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/softmax.h"
#include "ops/definitions/softmax.h"

namespace leat::cuda {
namespace {

KernelFactory softmax_of(SoftmaxKind kind) {
  return [kind](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    const Shape& shape = setup.input(0).shape;
    const int axis = softmax_axis(setup.attrs(), shape.rank());
    SoftmaxCall call;
    call.kind = kind;
    call.size = shape[axis];
    call.inner = shape.elements(axis + 1, shape.rank());
    call.lines = shape.elements(0, axis) * call.inner;
    const bool two = kind == SoftmaxKind::softmax_grad || kind == SoftmaxKind::log_softmax_grad;
    return make_cuda_kernel(setup, [call, two, dtype = setup.input(0).dtype](
                                       const KernelContext& context, cudaStream_t stream) {
      SoftmaxCall now = call;
      now.a = context.inputs[0];
      now.b = two ? context.inputs[1] : nullptr;
      now.y = context.outputs[0];
      return launch_softmax(now, dtype, stream);
    });
  };
}

// The call that the loss and its gradient have in common. `labels` is the index of the labels.
LossCall loss_call(const KernelSetup& setup, const Shape& scores, int labels, bool given) {
  LossCall call;
  call.classes = scores[1];
  call.inner = scores.elements(2, scores.rank());
  call.positions = scores[0] * call.inner;
  call.wide_labels = setup.input(labels).dtype == DType::i64;
  const Attrs& attrs = setup.attrs();
  if (attrs.find("ignore_index") != attrs.end()) {
    call.has_ignored = true;
    call.ignored = attr_int(attrs, "ignore_index");
  }
  call.given_log_prob = given;
  const std::string mean = attr_string(attrs, "reduction", "mean");
  call.mean = mean == "none" ? LossMean::none : mean == "sum" ? LossMean::sum : LossMean::mean;
  return call;
}

// The message names the row in the whole batch, not in this shard.
Result<std::shared_ptr<LentComplaint>> labels_complaint(const KernelSetup& setup,
                                                        const LossCall& call) {
  const int64_t first_row = setup.node ? setup.node->first_row : 0;
  return LentComplaint::make(setup, [subject = setup.subject, first_row, inner = call.inner,
                                     classes = call.classes](const Complaint& found) {
    const auto position = static_cast<int64_t>(found.place - 1);
    return invalid_argument(cat(subject, ": label of row ", first_row + position / inner,
                                inner > 1 ? cat(", position ", position % inner) : std::string(),
                                ": expected in [0, ", classes - 1, "], received ", found.received));
  });
}

// The forms of a classification loss: from scores, with the log probabilities as an output; from
// log probabilities (NegativeLogLikelihoodLoss); from scores, with stats (leat.CrossEntropy).
enum class LossForm : uint8_t { scores, log_prob, stats };

// (scores, labels, weights) to (loss, log probabilities or stats).
Result<std::unique_ptr<Kernel>> make_loss(const KernelSetup& setup, LossForm form) {
  LossCall call = loss_call(setup, setup.input(0).shape, 1, form == LossForm::log_prob);
  LEAT_ASSIGN_OR_RETURN(auto complaint, labels_complaint(setup, call));
  call.complaint = complaint->get();
  call.shared_bytes = static_cast<const CudaDevice*>(setup.device)->shared_bytes();
  const bool weighted = setup.types.has_input(2), keeps = setup.types.has_output(1);
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        (void)complaint;  // it lives as long as the kernel
        LossCall now = call;
        now.scores = context.inputs[0];
        now.labels = context.inputs[1];
        now.weights = weighted ? context.inputs[2] : nullptr;
        now.loss = context.outputs[0];
        now.workspace = context.workspace;
        if (form == LossForm::stats) {
          now.stats = context.outputs[1];
          return launch_stats(now, dtype, stream);
        }
        now.log_prob = keeps ? context.outputs[1] : nullptr;
        return launch_cross_entropy(now, dtype, stream);
      },
      loss_workspace(call.positions));
}

// (dloss, scores or log probabilities, with stats these, labels, weights) to the gradient of the
// scores.
Result<std::unique_ptr<Kernel>> make_loss_grad(const KernelSetup& setup, LossForm form) {
  const bool by_stats = form == LossForm::stats;
  const int labels = by_stats ? 3 : 2;
  LossCall call = loss_call(setup, setup.input(1).shape, labels, form == LossForm::log_prob);
  LEAT_ASSIGN_OR_RETURN(auto complaint, labels_complaint(setup, call));
  call.complaint = complaint->get();
  const bool weighted = setup.types.has_input(labels + 1);
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(1).dtype](const KernelContext& context, cudaStream_t stream) {
        (void)complaint;  // it lives as long as the kernel
        LossCall now = call;
        now.dloss = context.inputs[0];
        now.scores = context.inputs[1];
        now.stats = by_stats ? context.inputs[2] : nullptr;
        now.labels = context.inputs[labels];
        now.weights = weighted ? context.inputs[labels + 1] : nullptr;
        now.dx = context.outputs[0];
        now.workspace = context.workspace;
        return by_stats ? launch_stats_grad(now, dtype, stream)
                        : launch_cross_entropy_grad(now, dtype, stream);
      },
      sizeof(double));
}

}  // namespace

void add_softmax_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Softmax", kKind, softmax_of(SoftmaxKind::softmax));
  catalogue.add_kernel("LogSoftmax", kKind, softmax_of(SoftmaxKind::log_softmax));
  catalogue.add_kernel("leat.SoftmaxGrad", kKind, softmax_of(SoftmaxKind::softmax_grad));
  catalogue.add_kernel("leat.LogSoftmaxGrad", kKind, softmax_of(SoftmaxKind::log_softmax_grad));
  const auto add = [&](const char* op, auto make, LossForm form) {
    catalogue.add_kernel(op, kKind, [=](const KernelSetup& setup) { return make(setup, form); });
  };
  add("SoftmaxCrossEntropyLoss", make_loss, LossForm::scores);
  add("NegativeLogLikelihoodLoss", make_loss, LossForm::log_prob);
  add("leat.CrossEntropy", make_loss, LossForm::stats);
  add("leat.SoftmaxCrossEntropyLossGrad", make_loss_grad, LossForm::scores);
  add("leat.NegativeLogLikelihoodLossGrad", make_loss_grad, LossForm::log_prob);
  add("leat.CrossEntropyGrad", make_loss_grad, LossForm::stats);
}

}  // namespace leat::cuda
