// The elements of small integer tensors that are computed from sizes: Shape of a value with a
// symbolic batch, parts of it, and sums and products of them. With them, a Reshape or an Expand to
// a computed shape gives sizes that are known to be equal to others of the graph.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "ops/graph/types.h"
#include "ops/graph/validate.h"

namespace leat {

// Arithmetic on sizes. A result that is no constant and no multiple of one symbol, such as N + 1,
// is a symbol of its own; the same operands give the same symbol each time.
// Threads: one.
class SizeArithmetic {
 public:
  // `fresh_symbol` makes a symbol that no other size has.
  explicit SizeArithmetic(std::function<SymbolId()> fresh_symbol)
      : fresh_symbol_(std::move(fresh_symbol)) {}

  // The value of Add, Sub, Mul, Div, Mod, Min or Max (ONNX's, for integers). Nothing for another
  // op, a division by 0, or an overflow.
  std::optional<Dim> apply(const std::string& op, Dim a, Dim b);
  // Whether two values are equal; nothing if that depends on symbols. A size is never negative, but
  // a difference may be.
  std::optional<bool> equal(Dim a, Dim b) const;

 private:
  std::function<SymbolId()> fresh_symbol_;
  std::map<std::tuple<std::string, int64_t, SymbolId, int64_t, SymbolId>, SymbolId> made_;
  std::map<SymbolId, bool> may_be_negative_;
};

// Sets outcome.sizes of an op that moves elements or computes with integers, where
// outcome.constants and outcome.sizes do not tell the value yet. Sizes that have no symbol become
// outcome.constants. REQUIRES: infer_op() made the outcome of this call.
void propagate_sizes(const OpCall& call, SizeArithmetic& arithmetic, OpOutcome& outcome);

}  // namespace leat
