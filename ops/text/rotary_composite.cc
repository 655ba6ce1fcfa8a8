// ONNX's RotaryEmbedding: pairs of columns of each head, turned by an angle of their position.
//
// Source: ONNX's operator reference, RotaryEmbedding-23.
#include <limits>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

// Columns [from, to) of [N,T,H,D], every `step`.
DraftName columns(CompositeMaker& m, const DraftName& x, int64_t from, int64_t to, int64_t step) {
  return m.op("Slice", {x, m.ints({from}), m.ints({to}), m.ints({3}), m.ints({step})});
}

// The cosines or sines of each position, as [N,T,1,D/2].
DraftName angles(CompositeMaker& m, int cache) {
  const DraftName all = m.in(cache);
  const DraftName of_positions = m.has(3) ? m.op("Gather", {all, m.in(3)}) : all;
  return m.op("Unsqueeze", {of_positions, m.ints({2})});
}

DraftName transposed(CompositeMaker& m, const DraftName& x, const std::vector<int64_t>& perm) {
  return m.op("Transpose", {x}, {{"perm", Attr(perm)}});
}

}  // namespace

void make_rotary_embedding(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const int64_t heads = m.integer("num_heads", 0), turned = m.integer("rotary_embedding_dim", 0);
  const bool interleaved = m.integer("interleaved", 0) != 0;
  const bool flat = heads > 0;  // [N,T,H*D], else [N,H,T,D]
  const Attr axis(int64_t{3});
  // The transposition of three axes changes nothing, and refuses a value of another rank.
  const DraftName all =
      flat ? m.op("Reshape", {transposed(m, x, {0, 1, 2}), m.ints({0, 0, heads, -1})})
           : transposed(m, x, {0, 2, 1, 3});
  const DraftName part = turned > 0 ? columns(m, all, 0, turned, 1) : all;
  DraftName a, b;
  if (interleaved) {
    a = columns(m, part, 0, kLast, 2);
    b = columns(m, part, 1, kLast, 2);
  } else {
    const auto halves =
        m.ops("Split", {part}, {{"axis", axis}, {"num_outputs", Attr(int64_t{2})}}, 2);
    a = halves[0], b = halves[1];
  }
  const DraftName cos = angles(m, 1), sin = angles(m, 2);
  const DraftName real = m.op("Sub", {m.op("Mul", {cos, a}), m.op("Mul", {sin, b})});
  const DraftName imaginary = m.op("Add", {m.op("Mul", {sin, a}), m.op("Mul", {cos, b})});
  DraftName y;
  if (interleaved) {
    const DraftName last = m.ints({4});
    const DraftName pairs =
        m.op("Concat", {m.op("Unsqueeze", {real, last}), m.op("Unsqueeze", {imaginary, last})},
             {{"axis", Attr(int64_t{4})}});
    y = m.op("Reshape", {pairs, m.ints({0, 0, 0, -1})});
  } else {
    y = m.op("Concat", {real, imaginary}, {{"axis", axis}});
  }
  if (turned > 0) y = m.op("Concat", {y, columns(m, all, turned, kLast, 1)}, {{"axis", axis}});
  if (flat)
    m.reshaped(y, m.op("Shape", {x}));
  else
    transposed(m, y, {0, 2, 1, 3});
}

}  // namespace leat
