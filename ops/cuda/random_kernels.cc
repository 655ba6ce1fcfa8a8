// The factories of the random ops and of Dropout on CUDA.
#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/random.h"
#include "ops/definitions/random.h"

namespace leat::cuda {
namespace {

constexpr size_t kKeyBytes = 4 * sizeof(uint32_t);  // the workspace of a kernel that draws

// The origin of a node's numbers. Its own seed replaces the job's.
KeyCall key_call(const KernelSetup& setup, uint64_t (*own_seed)(const Attrs&)) {
  KeyCall call;
  if (!setup.node) return call;
  call.source = setup.node->source;
  call.has_seed = has_attr(setup.node->attrs, "seed");
  if (call.has_seed) call.seed = own_seed(setup.node->attrs);
  return call;
}

// Enqueues the computation of the step's key, and returns its address in `key`.
cudaError_t make_key(KeyCall call, const KernelContext& context, cudaStream_t stream,
                     const uint32_t*& key) {
  call.step = &context.step->for_device->step;
  call.job_seed = &context.step->for_device->seed;
  call.key = reinterpret_cast<uint32_t*>(context.workspace);
  key = call.key;
  return launch_key(call, stream);
}

// A shard computes rows of the global tensor, from Node::first_row on.
int64_t first_element(const KernelSetup& setup, const Shape& shape) {
  const int64_t row = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
  return setup.node ? setup.node->first_row * row : 0;
}

KernelFactory random_of(RandomDraw draw) {
  return [draw](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    RandomCall call;
    call.elements = setup.output(0).shape.elements();
    call.first_element = first_element(setup, setup.output(0).shape);
    call.normal = draw == RandomDraw::normal;
    call.first = attr_float(setup.attrs(), call.normal ? "mean" : "low");
    call.second = attr_float(setup.attrs(), call.normal ? "scale" : "high", 1);
    const bool bernoulli = draw == RandomDraw::bernoulli;
    if (bernoulli) call.probability_dtype = setup.input(0).dtype;
    const KeyCall key =
        key_call(setup, [](const Attrs& attrs) { return seed_of(attr_float(attrs, "seed")); });
    return make_cuda_kernel(
        setup,
        [=, dtype = setup.output(0).dtype](const KernelContext& context, cudaStream_t stream) {
          RandomCall now = call;
          if (const auto error = make_key(key, context, stream, now.key)) return error;
          now.y = context.outputs[0];
          now.probabilities = bernoulli ? context.inputs[0] : nullptr;
          return launch_random(now, dtype, stream);
        },
        kKeyBytes);
  };
}

// `ratio` is the index of the ratio; the training mode follows it.
DropoutCall dropout_call(const KernelSetup& setup, int ratio) {
  DropoutCall call;
  call.elements = setup.input(0).shape.elements();
  call.first_element = first_element(setup, setup.input(0).shape);
  if (setup.types.has_input(ratio)) call.ratio_dtype = setup.input(ratio).dtype;
  return call;
}
void bind_switches(const KernelContext& context, const DropoutCall& call, int ratio,
                   bool has_training, DropoutCall& now) {
  now.ratio = call.ratio_dtype == DType::invalid ? nullptr : context.inputs[ratio];
  now.training = has_training ? context.in<bool>(ratio + 1) : nullptr;
}

Result<std::unique_ptr<Kernel>> make_dropout(const KernelSetup& setup) {
  DropoutCall call = dropout_call(setup, 1);
  LEAT_ASSIGN_OR_RETURN(
      auto complaint, LentComplaint::make(setup, [subject = setup.subject](const Complaint&) {
        return invalid_argument(
            cat(subject, ": ratio: expected in [0, 1], received one outside of it"));
      }));
  call.complaint = complaint->get();
  const KeyCall key = key_call(
      setup, [](const Attrs& attrs) { return static_cast<uint64_t>(attr_int(attrs, "seed")); });
  const bool has_mask = setup.types.has_output(1), has_training = setup.types.has_input(2);
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        (void)complaint;  // it lives as long as the kernel
        DropoutCall now = call;
        if (const auto error = make_key(key, context, stream, now.key)) return error;
        bind_switches(context, call, 1, has_training, now);
        now.x = context.inputs[0];
        now.y = context.outputs[0];
        now.mask = has_mask ? context.out<bool>(1) : nullptr;
        return launch_dropout(now, dtype, stream);
      },
      kKeyBytes);
}

// (dy, mask, ratio, training)
Result<std::unique_ptr<Kernel>> make_dropout_grad(const KernelSetup& setup) {
  const DropoutCall call = dropout_call(setup, 2);
  const bool has_training = setup.types.has_input(3);
  return make_cuda_kernel(
      setup, [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        DropoutCall now = call;
        bind_switches(context, call, 2, has_training, now);
        now.x = context.inputs[0];
        now.mask = static_cast<bool*>(context.inputs[1]);
        now.y = context.outputs[0];
        return launch_dropout_grad(now, dtype, stream);
      });
}

}  // namespace

void add_random_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("RandomNormal", kKind, random_of(RandomDraw::normal));
  catalogue.add_kernel("RandomUniform", kKind, random_of(RandomDraw::uniform));
  catalogue.add_kernel("RandomNormalLike", kKind, random_of(RandomDraw::normal));
  catalogue.add_kernel("RandomUniformLike", kKind, random_of(RandomDraw::uniform));
  catalogue.add_kernel("Bernoulli", kKind, random_of(RandomDraw::bernoulli));
  catalogue.add_kernel("Dropout", kKind, make_dropout);
  catalogue.add_kernel("leat.DropoutGrad", kKind, make_dropout_grad);
}

}  // namespace leat::cuda
