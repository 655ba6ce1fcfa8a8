// One Attention in place of a softmax between two products: in which forms of a graph, and the same
// numbers.
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"
#include "tests/scheduler/graph_values.h"

namespace leat {
namespace {

struct Fused {
  const Node* attention = nullptr;  // of `graph`
  size_t transposes = 0, softmaxes = 0;
  std::unique_ptr<Graph> graph;
};

// The fused graph, after a check that its outputs have the same values.
Fused fused(const std::string& text) {
  INFO(text);
  Graph graph = parsed(text);
  const std::vector<Tensor> expected = values_of(graph);
  Borders borders = borders_of(graph);
  Fused out;
  out.graph = std::make_unique<Graph>(must(fuse_attention(std::move(graph), borders)));
  Graph& made = *out.graph;
  made.set_outputs(borders.fetches);
  const std::vector<Tensor> received = values_of(made);
  for (size_t o = 0; o < expected.size(); ++o) {
    REQUIRE(received[o].shape() == expected[o].shape());
    for (int64_t i = 0; i < expected[o].elements(); ++i)
      CHECK(received[o].at(i) == Approx(expected[o].at(i)).margin(2e-6));
  }
  for (NodeId id = 0; id < made.nodes(); ++id) {
    const Node& node = made.node(id);
    if (is_op(node, "Attention")) out.attention = &node;
    out.transposes += is_op(node, "Transpose");
    out.softmaxes += is_op(node, "Softmax");
  }
  return out;
}

bool is_fused(const std::string& text) { return fused(text).attention != nullptr; }

}  // namespace

TEST_CASE("attention as PyTorch exports it becomes one op, causal and without a Transpose") {
  const Fused found = fused(R"(
g (float[2,3,5,4] q, float[2,3,5,4] k, float[2,3,5,6] v) => (y)
<int64[2] square = {5, 5}, int64[3] flat = {-1, 5, 4}, int64[4] whole = {2, 3, 4, 5},
 float one = {1.0}, float zero = {0.0}, float low = {-3.4e38}, float root = {0.7071}>
{
  ones = Expand (one, square)
  lower = Trilu <upper = 0> (ones)
  hidden = Equal (lower, zero)
  mask = Where (hidden, low, zero)
  kf = Reshape (k, flat)
  kt = Transpose <perm = [0, 2, 1]> (kf)
  kw = Reshape (kt, whole)
  qs = Mul (q, root)
  ks = Mul (kw, root)
  s = MatMul (qs, ks)
  m = Add (s, mask)
  p = Softmax <axis = -1> (m)
  y = MatMul (p, v)
})");
  REQUIRE(found.attention);
  CHECK(found.softmaxes == 0);
  CHECK(found.transposes == 0);
  CHECK(found.attention->inputs.size() == 3);
  CHECK(attr_int(found.attention->attrs, "is_causal") == 1);
  CHECK(attr_float(found.attention->attrs, "scale") == Approx(0.7071 * 0.7071));
}

TEST_CASE("attention with a quotient and a mask that is computed keeps the mask") {
  const Fused found = fused(R"(
g (float[2,5,3,4] q, float[2,5,3,4] k, float[2,3,5,6] v, float[2,1,1,5] m) => (y)
<float root = {2.0}>
{
  qt = Transpose <perm = [0, 2, 1, 3]> (q)
  kt = Transpose <perm = [0, 2, 3, 1]> (k)
  s = MatMul (qt, kt)
  d = Div (s, root)
  a = Add (d, m)
  p = Softmax (a)
  y = MatMul (p, v)
})");
  REQUIRE(found.attention);
  CHECK(found.transposes == 2);
  CHECK(found.attention->inputs.size() == 4);
  CHECK(attr_float(found.attention->attrs, "scale") == 0.5);
}

TEST_CASE("attention of matrices, and one whose K is transposed elsewhere") {
  CHECK(is_fused(R"(
g (float[2,5,4] q, float[2,7,4] k, float[2,7,3] v) => (y) {
  kt = Transpose <perm = [0, 2, 1]> (k)
  s = MatMul (q, kt)
  p = Softmax (s)
  y = MatMul (p, v)
})"));
  CHECK(is_fused(R"(
g (float[2,2,5,4] q, float[2,2,4,7] kt, float[2,2,7,3] v) => (y) {
  s = MatMul (q, kt)
  p = Softmax (s)
  y = MatMul (p, v)
})"));
  // In bfloat16, between conversions.
  CHECK(fused(R"(
g (float[2,2,5,4] q, float[2,2,4,7] kt, float[2,2,7,3] v) => (y) {
  qn = Cast <to = 16> (q)
  kn = Cast <to = 16> (kt)
  vn = Cast <to = 16> (v)
  s = MatMul (qn, kn)
  sw = Cast <to = 1> (s)
  p = Softmax (sw)
  pn = Cast <to = 16> (p)
  yn = MatMul (pn, vn)
  z = Mul (yn, yn)
  b = IsNaN (z)
  y = Cast <to = 1> (b)
})")
            .attention != nullptr);
}

TEST_CASE("scales that are applied in float32 to 16-bit operands are part of the attention") {
  const Fused found = fused(R"(
g (float[2,3,5,4] q, float[2,3,5,4] k, float[2,3,5,4] v) => (y)
<int64[3] flat = {-1, 5, 4}, int64[4] whole = {2, 3, 4, 5}, float root = {0.5}>
{
  qn = Cast <to = 16> (q)
  kn = Cast <to = 16> (k)
  vn = Cast <to = 16> (v)
  kf = Reshape (kn, flat)
  kt = Transpose <perm = [0, 2, 1]> (kf)
  kw = Reshape (kt, whole)
  qw = Cast <to = 1> (qn)
  qs = Mul (qw, root)
  qr = Cast <to = 16> (qs)
  kc = Cast <to = 1> (kw)
  ks = Mul (kc, root)
  kr = Cast <to = 16> (ks)
  s = MatMul (qr, kr)
  sw = Cast <to = 1> (s)
  p = Softmax (sw)
  pn = Cast <to = 16> (p)
  yn = MatMul (pn, vn)
  b = IsNaN (yn)
  y = Cast <to = 1> (b)
})");
  REQUIRE(found.attention);
  CHECK(found.transposes == 0);
  CHECK(attr_float(found.attention->attrs, "scale") == 0.25);
  CHECK(found.graph->value(found.attention->inputs[0]).type.dtype == DType::bf16);
}

TEST_CASE("a softmax between products stays where Attention would not be the same") {
  const auto graph = [](const std::string& outputs, const std::string& softmax,
                        const std::string& type = "float", int64_t columns = 4,
                        const std::string& middle = "") {
    return cat("g (", type, "[2,2,5,", columns, "] q, ", type, "[2,2,", columns, ",7] k, ", type,
               "[2,2,7,3] v, ", type, "[7,1] c) => (", outputs,
               ") { s = MatMul (q, k) p = ", softmax, middle, " y = MatMul (p, v) }");
  };
  CHECK(is_fused(graph("y", "Softmax (s)")));
  CHECK_FALSE(is_fused(graph("y, p", "Softmax (s)")));             // the weights are an output
  CHECK_FALSE(is_fused(graph("y, s", "Softmax (s)")));             // the scores are
  CHECK_FALSE(is_fused(graph("y", "Softmax <axis = 2> (s)")));     // over the queries
  CHECK_FALSE(is_fused(graph("y", "Softmax (s)", "double")));      // f64 is the CPU's
  CHECK_FALSE(is_fused(graph("y", "Softmax (s)", "float", 257)));  // no kernel
  CHECK_FALSE(is_fused(graph("y", "Relu (s)")));
  // K is shared by the batch.
  CHECK_FALSE(
      is_fused("g (float[7,7,7,4] q, float[7,4,7] k, float[7,7,7,3] v) => (y) { s = MatMul (q, k) "
               "p = Softmax (s) y = MatMul (p, v) }"));
}

TEST_CASE("a mask stays an addition where Attention has no such mask") {
  const auto masked = [](const std::string& mask, const std::string& more = "") {
    return "g (float[2,2,5,4] q, float[2,2,4,7] k, float[2,2,7,3] v, float" + mask +
           " m) => (y) { s = MatMul (q, k) a = Add (s, m) p = Softmax (a) y = MatMul (p, v) " +
           more + "}";
  };
  CHECK(is_fused(masked("[5,7]")));
  CHECK(is_fused(masked("[2,1,1,7]")));
  CHECK_FALSE(is_fused(masked("[2,2,5,1]")));  // broadcast over the keys
  CHECK_FALSE(is_fused(masked("[1]")));
}

TEST_CASE("a mask with a gradient, or one that steps change, is no part of an attention") {
  const auto fuses = [](const std::string& text) {
    Graph graph = parsed(text);
    Borders borders = borders_of(graph);
    const Graph made = must(fuse_attention(std::move(graph), borders));
    for (NodeId id = 0; id < made.nodes(); ++id) {
      if (is_op(made.node(id), "Attention")) return true;
    }
    return false;
  };
  const std::string head =
      "g (float[2,2,5,4] q, float[2,2,4,5] k, float[2,2,5,3] v, float[5,5] m) => ";
  const std::string body = " { s = MatMul (q, k) a = Add (s, m) p = Softmax (a) y = MatMul (p, v) ";
  const std::string loss = "l = ReduceSum <keepdims = 0> (y) ";
  CHECK(fuses(head + "(y)" + body + "}"));
  CHECK(fuses(head + "(gq)" + body + loss + "gq = leat.Gradients (l, q) }"));
  CHECK_FALSE(fuses(head + "(gm)" + body + loss + "gm = leat.Gradients (l, m) }"));
}

TEST_CASE("the integers between conversions stay before an attention") {
  const Fused found = fused(R"(
g (float[2,2,5,4] x, float[2,2,4,5] k, float[2,2,5,3] v) => (y) {
  w = Mul (x, x)
  i = Cast <to = 6> (w)
  q = Cast <to = 1> (i)
  s = MatMul (q, k)
  p = Softmax (s)
  y = MatMul (p, v)
})");
  REQUIRE(found.attention);
  const NodeId before = found.graph->value(found.attention->inputs[0]).producer;
  REQUIRE(before != kNone);
  CHECK(is_op(found.graph->node(before), "Cast"));
}

}  // namespace leat
