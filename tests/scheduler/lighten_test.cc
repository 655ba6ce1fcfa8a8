// Rewrites of plans for accelerators: biases of products, gradients of slices, and
// the loss; each with the numbers that it had.
#include "scheduler/compile/passes.h"
#include "tests/scheduler/graph_values.h"

namespace leat {
namespace {

using PartPass = Result<Graph> (*)(Graph, Borders&, std::vector<uint32_t>&, const std::string&);

// The names of the ops that the pass leaves, ascending, after a check that the outputs differ by
// `margin` at most.
std::string left_by(PartPass pass, const std::string& text, double margin = 0) {
  INFO(text);
  Graph graph = parsed(text);
  const std::vector<Tensor> expected = values_of(graph);
  Borders borders = borders_of(graph);
  std::vector<uint32_t> depth(graph.nodes(), 3);
  Graph made = must(pass(std::move(graph), borders, depth, "cpu"));
  CHECK(depth == std::vector<uint32_t>(made.nodes(), 3));
  made.set_outputs(borders.fetches);
  const std::vector<ValueType> types = [&] {
    std::vector<ValueType> all;
    for (ValueId v = 0; v < made.values(); ++v) all.push_back(made.value(v).type);
    return all;
  }();
  must(validate(made));
  for (ValueId v = 0; v < made.values(); ++v) CHECK(made.value(v).type == types[v]);
  const std::vector<Tensor> received = values_of(made);
  for (size_t o = 0; o < expected.size(); ++o) {
    REQUIRE(received[o].shape() == expected[o].shape());
    REQUIRE(received[o].dtype() == expected[o].dtype());
    for (int64_t i = 0; i < expected[o].elements(); ++i)
      CHECK(received[o].at(i) == Approx(expected[o].at(i)).margin(margin));
  }
  std::vector<std::string> ops;
  for (NodeId id = 0; id < made.nodes(); ++id) {
    if (made.node(id).op->name != "Constant") ops.push_back(made.node(id).op->full_name());
  }
  std::sort(ops.begin(), ops.end());
  return join(ops, " ");
}

}  // namespace

TEST_CASE("a row that is added to a product becomes its bias") {
  CHECK(left_by(lighten, R"(g (float[2,3,4] x, float[4,5] w, float[5] b) => (float[2,3,5] y) {
    p = MatMul(x, w)
    y = Add(p, b)
  })",
                1e-6) == "leat.MatMul");
  CHECK(left_by(lighten, R"(g (float[3,4] x, float[5,4] w, float[5] b) => (float[3,5] y) {
    p = leat.MatMul<transB = 1>(x, w)
    c = Relu(b)
    y = Add(c, p)
  })",
                1e-6) == "Relu leat.MatMul");
}

TEST_CASE("an Add that is no bias of one product stays") {
  // The product is an output itself.
  CHECK(left_by(lighten,
                R"(g (float[3,4] x, float[4,5] w, float[5] b) => (float[3,5] y, float[3,5] p) {
    p = MatMul(x, w)
    y = Add(p, b)
  })") == "Add MatMul");
  // It is read twice, or what is added is no row, or makes more rows.
  CHECK(left_by(lighten, R"(g (float[5,4] x, float[4,5] w) => (float[5,5] y) {
    p = MatMul(x, w)
    y = Add(p, p)
  })") == "Add MatMul");
  CHECK(left_by(lighten, R"(g (float[5,4] x, float[4,5] w, float[5,1] b) => (float[5,5] y) {
    p = MatMul(x, w)
    y = Add(p, b)
  })") == "Add MatMul");
  CHECK(left_by(lighten, R"(g (float[2,5,4] x, float[2,4,5] w, float[5] b) => (float[2,5,5] y) {
    p = MatMul(x, w)
    y = Add(p, b)
  })") == "Add MatMul");
  // It has a bias already, or another factor than 1.
  CHECK(left_by(lighten, R"(g (float[3,4] x, float[4,5] w, float[5] b) => (float[3,5] y) {
    p = leat.MatMul(x, w, b)
    y = Add(p, b)
  })") == "Add leat.MatMul");
  CHECK(left_by(lighten, R"(g (float[3,4] x, float[4,5] w, float[5] b) => (float[3,5] y) {
    p = leat.MatMul<alpha = 2.0>(x, w)
    y = Add(p, b)
  })") == "Add leat.MatMul");
}

TEST_CASE("gradients of slices that have each element once are joined") {
  const char* const three = R"(g (float[1,4] a, float[2,4] b, float[1,4] c) => (float[4,4] y) {
    shape = Constant<value = int64[2] {4, 4}>()
    zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>()
    three = Constant<value = int64[1] {-1}>()
    all = Constant<value = int64[1] {1000}>()
    ga = leat.SliceGrad(a, shape, zero, one, zero)
    gb = leat.SliceGrad(b, shape, one, three, zero)
    gc = leat.SliceGrad(c, shape, three, all)
    left = Add(gc, ga)
    y = Add(left, gb)
  })";
  CHECK(left_by(lighten, three) == "Concat");
  // A gap, the same place twice, two axes, another summand, a step.
  const auto two = [](const std::string& body, const char* columns = "2") {
    return cat("g (float[4,", columns, "] a, float[4,", columns, "] b) => (float[4,5] y) {\n",
               R"(shape = Constant<value = int64[2] {4, 5}>()
    zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>()
    two = Constant<value = int64[1] {2}>()
    four = Constant<value = int64[1] {4}>()
    five = Constant<value = int64[1] {5}>()
)",
               body, "}");
  };
  CHECK(left_by(lighten, two(R"(ga = leat.SliceGrad(a, shape, zero, two, one)
    gb = leat.SliceGrad(b, shape, two, four, one)
    y = Add(ga, gb))")) == "Add leat.SliceGrad leat.SliceGrad");
  CHECK(left_by(lighten, two(R"(ga = leat.SliceGrad(a, shape, zero, two, one)
    gb = leat.SliceGrad(b, shape, zero, two, one)
    y = Add(ga, gb))")) == "Add leat.SliceGrad leat.SliceGrad");
  CHECK(left_by(lighten, two(R"(ga = leat.SliceGrad(a, shape, zero, five, one, two)
    gb = leat.SliceGrad(b, shape, zero, five, one, two)
    y = Add(ga, gb))",
                             "3")) == "Add leat.SliceGrad leat.SliceGrad");
}

TEST_CASE("gradients of slices that are broadcast, or that a node waits for, stay") {
  const std::string constants = R"(
    narrow = Constant<value = int64[2] {1, 4}>()
    wide = Constant<value = int64[2] {3, 4}>()
    zero = Constant<value = int64[1] {0}>()
    one = Constant<value = int64[1] {1}>()
    two = Constant<value = int64[1] {2}>()
    four = Constant<value = int64[1] {4}>()
)";
  CHECK(left_by(lighten, "g (float[1,2] a, float[3,2] b) => (float[3,4] y) {" + constants + R"(
    ga = leat.SliceGrad(a, narrow, zero, two, one)
    gb = leat.SliceGrad(b, wide, two, four, one)
    y = Add(ga, gb)
  })") == "Add leat.SliceGrad leat.SliceGrad");
  Graph graph = parsed("g (float[3,2] a, float[3,2] b) => (float[3,4] y) {" + constants + R"(
    ga = leat.SliceGrad(a, wide, zero, two, one)
    gb = leat.SliceGrad(b, wide, two, four, one)
    y = Add(ga, gb)
  })");
  Borders borders = borders_of(graph);
  borders.targets = {graph.value(*graph.find_value("ga")).producer};
  std::vector<uint32_t> depth(graph.nodes(), 0);
  const Graph made = must(lighten(std::move(graph), borders, depth, "cpu"));
  CHECK(made.node(borders.targets[0]).op->name == "SliceGrad");
}

TEST_CASE("a long row of Adds is looked at once") {
  Graph graph(scheduler_catalogue());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{2});
  ValueId sum = x;
  for (int i = 0; i < 20000; ++i) sum = g.op("Add", {sum, x});
  must(g.status());
  Borders borders{{x}, {sum}, {}};
  std::vector<uint32_t> depth(graph.nodes(), 0);
  CHECK(must(lighten(std::move(graph), borders, depth, "cpu")).nodes() == 20000);
}

TEST_CASE("convolutions lose what changes nothing") {
  CHECK(left_by(lighten, R"(g (float[1,2,4,4] x, float[2,2,3,3] w) => (float[1,2,2,2] y) {
    b = Constant<value = float[2] {0.0, 0.0}>()
    y = Conv(x, w, b)
  })") == "Conv");
  const char* const gradient = R"(g (float[1,2,4,4] x, float[1,2,2,2] dy) => (float[2,2,3,3] dw) {
    dw, db = leat.ConvGradWeights<kernel_shape = [3, 3]>(x, dy)
  })";
  CHECK(left_by(lighten, gradient) == "leat.ConvGradWeights");
  // Only the graph shows that the output is gone.
  Graph graph = parsed(gradient);
  Borders borders = borders_of(graph);
  std::vector<uint32_t> depth(graph.nodes(), 0);
  const Graph made = must(lighten(std::move(graph), borders, depth, "cpu"));
  CHECK(made.node(0).outputs.size() == 1);
}

TEST_CASE("a loss keeps two numbers of each position in place of log probabilities") {
  const char* const plain =
      R"(g (float[6,4] x, int64[6] labels, float d) => (float loss, float[6,4] dx) {
    loss, logs = SoftmaxCrossEntropyLoss<ignore_index = 2>(x, labels)
    dx = leat.SoftmaxCrossEntropyLossGrad<ignore_index = 2>(d, logs, labels)
  })";
  CHECK(left_by(fuse_loss, plain, 1e-7) == "leat.CrossEntropy leat.CrossEntropyGrad");
  // Scores of 16 bits are read as they are.
  const char* const narrow =
      R"(g (bfloat16[2,3,4] x, int64[6] labels, float[4] w, float d) => (float loss, bfloat16[2,3,4] dx) {
    rows = Constant<value = int64[2] {6, 4}>()
    wide = Cast<to = 1>(x)
    scores = Reshape(wide, rows)
    loss, logs = SoftmaxCrossEntropyLoss<reduction = "sum">(scores, labels, w)
    g0 = leat.SoftmaxCrossEntropyLossGrad<reduction = "sum">(d, logs, labels, w)
    all = Constant<value = int64[3] {2, 3, 4}>()
    g1 = Reshape(g0, all)
    dx = Cast<to = 16>(g1)
  })";
  CHECK(left_by(fuse_loss, narrow, 1e-3) ==
        "Reshape Reshape leat.CrossEntropy leat.CrossEntropyGrad");
}

TEST_CASE("a loss whose log probabilities are read stays") {
  CHECK(left_by(fuse_loss, R"(g (float[6,4] x, int64[6] labels) => (float loss, float[6,4] logs) {
    loss, logs = SoftmaxCrossEntropyLoss(x, labels)
  })") == "SoftmaxCrossEntropyLoss");
  CHECK(left_by(fuse_loss, R"(g (float[6,4] x, int64[6] labels) => (float loss, float[6,4] y) {
    loss, logs = SoftmaxCrossEntropyLoss(x, labels)
    y = Exp(logs)
  })") == "Exp SoftmaxCrossEntropyLoss");
  // The conversion of the scores stays if another node reads them, or if the gradient is read as
  // it is.
  CHECK(left_by(fuse_loss,
                R"(g (bfloat16[6,4] x, int64[6] labels, float d) => (float loss, float[6,4] dx) {
    wide = Cast<to = 1>(x)
    loss, logs = SoftmaxCrossEntropyLoss(wide, labels)
    dx = leat.SoftmaxCrossEntropyLossGrad(d, logs, labels)
  })",
                1e-7) == "Cast leat.CrossEntropy leat.CrossEntropyGrad");
}

TEST_CASE("a layer norm writes 16 bits, and its gradient and an optimizer read them") {
  // A kind of devices whose kernels say that they take such types.
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    for (const char* op :
         {"LayerNormalization", "leat.LayerNormalizationGrad", "leat.ApplyMomentum"})
      all.add_kernel(op, "narrow", all.find(op)->kernels.at("cpu"),
                     [](const OpTypes&) { return true; });
    return all;
  }();
  const auto graph_after = [](const std::string& text, const char* kind = "narrow") {
    Graph graph = parsed(text, catalogue);
    Borders borders = borders_of(graph);
    std::vector<uint32_t> depth(graph.nodes(), 0);
    Graph made = must(lighten(std::move(graph), borders, depth, kind));
    must(validate(made));
    return made;
  };
  const Graph norm = graph_after(R"(g (float[2,8] x, float[8] s) => (bfloat16[2,8] y) {
    wide = LayerNormalization(x, s)
    y = Cast<to = 16>(wide)
  })");
  REQUIRE(norm.nodes() == 1);
  CHECK(norm.value(norm.node(0).outputs[0]).type.dtype == DType::bf16);
  const Graph gradient = graph_after(
      R"(g (float16[2,8] dy, float[2,8] x, float[8] s, float[2,1] m, float[2,1] i) => (float[2,8] dx) {
    wide = Cast<to = 1>(dy)
    dx, ds, db = leat.LayerNormalizationGrad(wide, x, s, m, i)
  })");
  REQUIRE(gradient.nodes() == 1);
  CHECK(gradient.value(gradient.node(0).inputs[0]).type.dtype == DType::f16);
  const Graph apply = graph_after(R"(g (bfloat16[8] g, float lr) => (float[8] now) {
    w = leat.Variable<name = "w", shape = [8]>()
    u = leat.Variable<name = "u", shape = [8]>()
    wide = Cast<to = 1>(g)
    done = leat.ApplyMomentum<momentum = 0.5>(w, u, wide, lr)
    now = leat.Read(w)
  })");
  size_t casts = 0;
  for (NodeId id = 0; id < apply.nodes(); ++id) casts += apply.node(id).op->name == "Cast";
  CHECK(casts == 0);
  // Kernels that do not say so get operands of one dtype.
  CHECK(graph_after(R"(g (float[2,8] x, float[8] s) => (bfloat16[2,8] y) {
    wide = LayerNormalization(x, s)
    y = Cast<to = 16>(wide)
  })",
                    "cpu")
            .nodes() == 2);
  // A value in float that others need stays.
  const Graph both = graph_after(
      R"(g (float[2,8] x, float[8] s) => (bfloat16[2,8] y, float[2,8] wide) {
    wide = LayerNormalization(x, s)
    y = Cast<to = 16>(wide)
  })");
  CHECK(both.nodes() == 2);
}

}  // namespace leat
