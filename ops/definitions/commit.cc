// leat.Commit (see ops/state/commits.h).
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// A row of Commits has one double for each value, so every value must be a single element.
Status infer_commit(InferContext& ctx) {
  if (ctx.inputs() > Commits::kMostValues) {
    return ctx.error(
        cat("expected at most ", Commits::kMostValues, " values, received ", ctx.inputs()));
  }
  for (int i = 0; i < ctx.inputs(); ++i) {
    const auto shape = ctx.shape(i).concrete();
    if (!shape || shape->elements() != 1)
      return ctx.error(
          cat("input ", i, ": expected one element, received ", ctx.text(ctx.shape(i))));
  }
  return {};
}

}  // namespace

void register_commit_ops(Catalogue& catalogue) {
  // Records the values that a step fetched. All of the step's writes to variables run after it.
  catalogue.add(Op("leat.Commit")
                    .variadic_input("fetched", "T", true)
                    .type("T", DTypeSet::of(DType::f32, DType::f64))
                    .stateful()
                    .infer(infer_commit));
}

}  // namespace leat
