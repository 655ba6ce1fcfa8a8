// A tree of additions in one pass: each block of elements is read once from every leaf and written
// once, and the partial sums stay in the nearest cache. The result has the bits of the tree's Adds
// run one after the other, each with the rounding of an Add.
#include "ops/definitions/sum_tree.h"

#include <array>
#include <cstring>

#include "devices/base/stream_copy.h"
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

Status infer_sum_tree(InferContext& ctx) {
  const auto most = check_sum_order(attr_ints(ctx.attrs(), "order"), ctx.inputs());
  if (!most.ok()) return ctx.error(most.status().message());
  // The leaves do not broadcast, unlike the operands of Add: one loop walks all of them.
  for (int i = 1; i < ctx.inputs(); ++i) {
    if (ctx.shape(i) != ctx.shape(0))
      return ctx.error(cat("expected leaves of one shape, received ", ctx.text(ctx.shape(0)),
                           " and ", ctx.text(ctx.shape(i))));
  }
  ctx.set_tensor(0, ctx.dtype(0), ctx.shape(0));
  return {};
}

Status sum_tree_gradient(GradientContext& ctx) {
  for (int i = 0; i < static_cast<int>(ctx.node().inputs.size()); ++i)
    if (ctx.needs(i)) ctx.set_grad(i, ctx.grad(0));
  return {};
}

}  // namespace

void register_sum_tree_op(Catalogue& catalogue) {
  // The sum of values of one shape, added two at a time in the postfix order `order`: a number
  // stands for the next leaf, and kSumOfTwo adds the last two sums.
  catalogue.add(Op("leat.SumTree")
                    .variadic_input("leaves", "T")
                    .output("sum", "T")
                    .type("T", kNumbers)
                    .attr("order", std::vector<int64_t>())
                    .infer(infer_sum_tree)
                    .gradient(sum_tree_gradient)
                    .sharding(shard_linear));
}

}  // namespace leat
