// The factories of Attention and its gradient on CUDA.
#include <algorithm>

#include "devices/base/text.h"
#include "devices/cuda/plain_ways.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/attention_products.h"
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/definitions/attention.h"

namespace leat::cuda {
namespace {

HeadSteps plain(const HeadStrides& strides) { return {strides.batch, strides.head, strides.row}; }

AttentionCall call_of(const AttentionForm& form) {
  AttentionCall call;
  call.batch = form.batch;
  call.q_heads = form.q_heads;
  call.kv_heads = form.kv_heads;
  call.queries = form.queries;
  call.keys = form.keys;
  call.head = form.head;
  call.v_head = form.v_head;
  call.of_q = plain(form.q);
  call.of_k = plain(form.k);
  call.of_v = plain(form.v);
  call.of_y = plain(form.y);
  call.boolean_mask = form.mask.boolean;
  call.mask_batches = form.mask.batches;
  call.mask_heads = form.mask.heads;
  call.mask_rows = form.mask.rows;
  call.mask_width = form.mask.width;
  call.scale = form.scale;
  call.softcap = form.softcap;
  call.causal = form.causal;
  call.left = form.left;
  call.right = form.right;
  return call;
}

// Keys of earlier steps, the output of the scores and very wide heads are the CPU's.
bool supports_attention(const OpTypes& types) {
  for (const int input : {kPastKey, kPastValue}) {
    if (types.has_input(input)) return false;
  }
  for (const int output : {kPresentKey, kPresentValue, kScores}) {
    if (types.has_output(output)) return false;
  }
  const auto form = attention_form(types);
  return form.ok() && std::max(form->head, form->v_head) <= kMostHeadColumns;
}
bool supports_attention_grad(const OpTypes& types) {
  if (types.has_input(kGradPast) || types.has_output(kMaskGrad)) return false;
  const auto form = attention_grad_form(types);
  return form.ok() && std::max(form->head, form->v_head) <= kMostHeadColumns;
}

// Whether tensor cores compute it in tiles, where the operands' addresses allow it.
bool by_tiles(const KernelSetup& setup, const AttentionCall& call) {
  const auto& device = static_cast<const CudaDevice&>(*setup.device);
  return !goes_plain_way("tiles") &&
         attention_tiles_fit(call, setup.input(0).dtype, device.capability());
}

// By cuBLASLt, or null.
std::shared_ptr<AttentionProducts> products_of(const KernelSetup& setup, const AttentionCall& call,
                                               bool gradient) {
  const CublasLt* library = CublasLt::of(*setup.device);
  return library
             ? AttentionProducts::make(*library, call, {setup.input(0).dtype, gradient, setup.tf32})
             : nullptr;
}

void count_attention(const KernelSetup& setup, bool tiles, bool products) {
  count_way(setup, "Attention",
            tiles      ? "tiles"
            : products ? "products of cuBLASLt"
                       : KernelWays::kOwn);
}

Result<std::unique_ptr<Kernel>> make_attention(const KernelSetup& setup) {
  const auto form = attention_form(setup.types);
  if (!form.ok()) return invalid_argument(cat(setup.subject, ": ", form.status().message()));
  const bool masked = setup.types.has_input(kMask), bounded = setup.types.has_input(kLengths);
  const bool has_sums = setup.types.has_output(kLogSumExp);
  const AttentionCall call = call_of(*form);
  const bool tiles = by_tiles(setup, call);
  const auto products = tiles ? nullptr : products_of(setup, call, false);
  count_attention(setup, tiles, products != nullptr);
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(kQuery).dtype](const KernelContext& context, cudaStream_t stream) {
        AttentionCall now = call;
        now.q = context.inputs[kQuery];
        now.k = context.inputs[kKey];
        now.v = context.inputs[kValue];
        now.mask = masked ? context.inputs[kMask] : nullptr;
        now.lengths = bounded ? context.in<int64_t>(kLengths) : nullptr;
        now.y = context.outputs[kAttended];
        now.log_sums = has_sums ? context.outputs[kLogSumExp] : nullptr;
        if (tiles && attention_tiles_take(now)) return launch_attention_tiles(now, dtype, stream);
        return products && products->takes(now) ? products->enqueue(now, context.workspace, stream)
                                                : launch_attention(now, dtype, stream);
      },
      products ? products->workspace_bytes() : 0);
}

Result<std::unique_ptr<Kernel>> make_attention_grad(const KernelSetup& setup) {
  const auto form = attention_grad_form(setup.types);
  if (!form.ok()) return invalid_argument(cat(setup.subject, ": ", form.status().message()));
  const bool masked = setup.types.has_input(kGradMask);
  const bool bounded = setup.types.has_input(kGradLengths);
  const AttentionCall call = call_of(*form);
  const bool tiles = by_tiles(setup, call);
  const auto products = tiles ? nullptr : products_of(setup, call, true);
  count_attention(setup, tiles, products != nullptr);
  const size_t workspace = tiles      ? attention_tiles_workspace(call)
                           : products ? products->workspace_bytes()
                                      : 0;
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(kGradQuery).dtype](const KernelContext& context,
                                                 cudaStream_t stream) {
        AttentionCall now = call;
        now.q = context.inputs[kGradQuery];
        now.k = context.inputs[kGradKey];
        now.v = context.inputs[kGradValue];
        now.y = context.inputs[kGradAttended];
        now.log_sums = context.inputs[kGradLogSumExp];
        now.dy = context.inputs[kGradOfAttended];
        now.mask = masked ? context.inputs[kGradMask] : nullptr;
        now.lengths = bounded ? context.in<int64_t>(kGradLengths) : nullptr;
        now.dq = context.outputs[kQueryGrad];
        now.dk = context.outputs[kKeyGrad];
        now.dv = context.outputs[kValueGrad];
        if (tiles && attention_tiles_take(now))
          return launch_attention_tiles_grad(now, dtype, context.workspace, stream);
        return products && products->takes(now) ? products->enqueue(now, context.workspace, stream)
                                                : launch_attention_grad(now, dtype, stream);
      },
      workspace);
}

}  // namespace

void add_attention_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Attention", kKind, make_attention, supports_attention);
  catalogue.add_kernel("leat.AttentionGrad", kKind, make_attention_grad, supports_attention_grad);
}

}  // namespace leat::cuda
