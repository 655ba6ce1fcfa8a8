// leat.EditDistance, by which metrics compare sequences. It has no gradient.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

Status infer_edit_distance(InferContext& ctx) {
  const SymbolicShape &made = ctx.shape(0), &wanted = ctx.shape(1);
  if (made.rank() != 2)
    return ctx.error(cat("predictions: expected [N,T], received ", ctx.text(made)));
  if (wanted.rank() != 2 || known_to_differ(made[0], wanted[0])) {
    return ctx.error(cat("labels: expected [N,S] with the N of predictions ", ctx.text(made),
                         ", received ", ctx.text(wanted)));
  }
  ctx.set_tensor(0, DType::f64, {made[0], Dim::of(3)});
  return {};
}

Tiling edit_distance_rows(const OpTypes& types) { return {types.outputs[0].shape[0], 3u, 1u}; }

std::vector<ShardingRule> shard_edit_distance(const std::vector<OperandType>&,
                                              const std::vector<OperandType>&, const Attrs&) {
  return {{{Spread::on(0), Spread::on(0)}, {Spread::on(0)}}};
}

}  // namespace

void register_edit_distance_ops(Catalogue& catalogue) {
  // Of each row three numbers: the least number of elements to insert, remove or replace that turn
  // the predictions into the labels, the number of the labels, and 1 if both are equal, else 0.
  // Negative numbers are left out of either list. With `blank`, equal predictions that follow each
  // other are one, and then the blanks are left out. With `separator`, lists of words are compared:
  // a word is a list without separators, as long as possible and not empty.
  catalogue.add(Op("leat.EditDistance")
                    .input("predictions", "int64")
                    .input("labels", "int64")
                    .output("distances", "double")
                    .attr("blank", int64_t{-1})
                    .attr("separator", int64_t{-1})
                    .infer(infer_edit_distance)
                    .sharding(shard_edit_distance)
                    .tiling(edit_distance_rows));
}

}  // namespace leat
