// A model with control flow for the data of a SmallJob: a recurrence over the rows of an image, and
// a branch that depends on the images of a shard.
#pragma once

namespace leat {

inline constexpr const char* kBranchingGraph =
    R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
branching (float[N,1,8,8] image) => (float[N,4] logits) {
  rows = Constant <value = int64[3] {0, 8, 8}> ()
  one = Constant <value = int64[1] {1}> ()
  zero = Constant <value = float {0}> ()
  x = Reshape (image, rows)
  e = leat.Dense <units = 6, activation = "tanh"> (x)
  steps = Transpose <perm = [1, 0, 2]> (e)
  sums = ReduceSum <keepdims = 0> (e, one)
  first = Mul (sums, zero)
  w_variable = leat.Variable <name = "w", shape = [6, 6]> ()
  w_first = RandomNormal <shape = [6, 6], scale = 0.4> ()
  [init_w] = leat.Initialize (w_variable, w_first)
  w = leat.Read (w_variable)
  k_variable = leat.Variable <name = "k", shape = [6, 6]> ()
  k_first = RandomNormal <shape = [6, 6], scale = 0.4> ()
  [init_k] = leat.Initialize (k_variable, k_first)
  k = leat.Read (k_variable)
  h, all = Scan (first, steps) <num_scan_inputs = 1,
      body = cell (float[N,6] before, float[N,6] row) => (after, out) {
      product = MatMul (before, w)
      sum = Add (product, row)
      after = Tanh (sum)
      out = Identity (after)
    }>
  upper, lower = Split <axis = 2, num_outputs = 2> (image)
  mean_upper = ReduceMean <keepdims = 0> (upper)
  mean_lower = ReduceMean <keepdims = 0> (lower)
  brighter = Greater (mean_upper, mean_lower)
  y = If (brighter) <
    then_branch = a () => (p) { m = MatMul (h, k)  p = Tanh (m) },
    else_branch = b () => (q) { n = Mul (h, h)  q = Sub (n, h) }>
  joined = Concat <axis = 1> (h, y)
  logits = leat.Dense <units = 4> (joined)
}
)";

}  // namespace leat
