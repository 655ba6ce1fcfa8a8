// If, Loop and Scan when a graph is loaded: what they become, their values and gradients, and what
// is refused. tests/scheduler/branches_test.cc runs them as plans.
#include "ops/layers/control_flow.h"

#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Graph parsed(const std::string& text) {
  INFO(text);
  return must(parse_graph("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n" + text,
                          test_catalogue(), "g"));
}
Graph flat(const std::string& text) { return must(expand_layers(parsed(text))); }

std::string not_expanded(const std::string& text) {
  const auto graph = expand_layers(parsed(text));
  REQUIRE(!graph.ok());
  return graph.status().message();
}

std::vector<Tensor> values_of(const Graph& graph, const std::vector<Tensor>& feeds) {
  std::map<ValueId, Tensor> fed;
  for (size_t i = 0; i < feeds.size(); ++i) fed[graph.inputs()[i]] = feeds[i];
  return must(interpret(graph, fed, graph.outputs()));
}

size_t count_ops(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (NodeId id = 0; id < graph.nodes(); ++id) count += graph.node(id).op->full_name() == op;
  return count;
}

// The gradients of the sum of output 0 by some inputs, against central differences.
void check_graph_gradients(const Graph& graph, std::vector<Tensor> feeds,
                           const std::vector<size_t>& by) {
  Graph with = graph;
  Inference inference(with);
  must(inference.run());
  std::vector<ValueId> xs;
  for (const size_t i : by) xs.push_back(with.inputs()[i]);
  const auto grads = must(add_gradients(inference, with.outputs()[0], xs));
  std::map<ValueId, Tensor> fed;
  for (size_t i = 0; i < feeds.size(); ++i) fed[with.inputs()[i]] = feeds[i].clone();
  const auto sum = [&] {
    const Tensor y = must(interpret(with, fed, {with.outputs()[0]}))[0];
    double total = 0;
    for (int64_t i = 0; i < y.elements(); ++i) total += y.at(i);
    return total;
  };
  for (size_t k = 0; k < xs.size(); ++k) {
    INFO("input " << by[k]);
    REQUIRE(grads[k] != kNone);
    const Tensor computed = must(interpret(with, fed, {grads[k]}))[0];
    Tensor& x = fed[xs[k]];
    Tensor numeric(DType::f64, x.shape());
    for (int64_t i = 0; i < x.elements(); ++i) {
      const double at = x.at(i);
      x.set(i, at + 1e-5);
      const double above = sum();
      x.set(i, at - 1e-5);
      numeric.set(i, (above - sum()) / 2e-5);
      x.set(i, at);
    }
    check_close(computed, numeric, 1e-6, 1e-6);
  }
}

constexpr const char* kRootOrSquare = R"(g (double[3] x, bool c) => (y) {
  y = If (c) <then_branch = a () => (p) { p = Sqrt (x) },
              else_branch = b () => (q) { q = Mul (x, x) }>
})";

}  // namespace

TEST_CASE("an If whose condition is known becomes the nodes of its branch") {
  const Graph graph = flat(R"(g (float[2] x) => (y) {
    three = Constant <value = int64 {3}> ()
    four = Constant <value = int64 {4}> ()
    c = Less (three, four)
    y = If (c) <then_branch = a () => (p) { p = Neg (x) },
                else_branch = b () => (q) { q = Exp (x) }>
  })");
  CHECK(count_ops(graph, "Neg") == 1);
  CHECK(count_ops(graph, "Exp") == 0);
  CHECK(count_ops(graph, "leat.Merge") == 0);
  CHECK(graph.value_name(graph.outputs()[0]) == "y");
}

TEST_CASE("an If that a step decides takes the value of one branch") {
  const Graph graph = flat(kRootOrSquare);
  const Tensor x = Tensor::of<double>({3}, {4, 9, 16});
  check_close(values_of(graph, {x, Tensor::scalar<bool>(true)})[0],
              Tensor::of<double>({3}, {2, 3, 4}));
  check_close(values_of(graph, {x, Tensor::scalar<bool>(false)})[0],
              Tensor::of<double>({3}, {16, 81, 256}));
}

TEST_CASE("no NaN of the other branch reaches the gradient of an If") {
  const Graph graph = flat(kRootOrSquare);
  const Tensor negative = Tensor::of<double>({3}, {-1, -2, 0});
  check_graph_gradients(graph, {negative, Tensor::scalar<bool>(false)}, {0});
  const Tensor positive = Tensor::of<double>({3}, {0.5, 2, 3});
  check_graph_gradients(graph, {positive, Tensor::scalar<bool>(true)}, {0});
}

TEST_CASE("branches may share values, give captures as they are, and nest") {
  const std::string text = R"(g (double[2] x, double[2] w, bool c, bool d) => (y, z) {
    t = Mul (x, w)
    y, z = If (c) <
      then_branch = a () => (p, w) {
        p = If (d) <then_branch = aa () => (r) { r = Log (t) },
                    else_branch = ab () => (s) { s = Mul (t, w) }>
      },
      else_branch = b () => (q, t) { q = Sub (x, t) }>
  })";
  const Graph graph = flat(text);
  const Tensor w = Tensor::of<double>({2}, {-2, 3}), x = Tensor::of<double>({2}, {1, -5});
  for (const bool c : {false, true}) {
    for (const bool d : {false, true}) {
      if (c && d) continue;  // the logarithm of a negative number
      INFO(c << d);
      check_graph_gradients(graph, {x, w, Tensor::scalar(c), Tensor::scalar(d)}, {0, 1});
    }
  }
  const Tensor positive = Tensor::of<double>({2}, {1, 5}), two = Tensor::of<double>({2}, {2, 2});
  check_graph_gradients(graph, {positive, two, Tensor::scalar(true), Tensor::scalar(true)}, {0, 1});
  const auto both = values_of(graph, {x, w, Tensor::scalar(false), Tensor::scalar(true)});
  check_close(both[0], Tensor::of<double>({2}, {3, 10}));
  check_close(both[1], Tensor::of<double>({2}, {-2, -15}));
}

TEST_CASE("a Loop of a known length is its body as often") {
  const Graph graph = flat(R"(g (double[2] x) => (y, all) {
    m = Constant <value = int64 {3}> ()
    y, all = Loop (m, , x) <body = b (int64 i, bool go, double[2] v) => (go2, w, u) {
      go2 = Identity (go)
      f = CastLike (i, v)
      t = Add (v, f)
      w = Mul (t, x)
      u = Identity (t)
    }>
  })");
  const Tensor x = Tensor::of<double>({2}, {2, -1});
  const auto values = values_of(graph, {x});
  check_close(values[0], Tensor::of<double>({2}, {24, 0}));
  check_close(values[1], Tensor::of<double>({3, 2}, {2, -1, 5, 2, 12, 0}));
  check_graph_gradients(graph, {x}, {0});
}

TEST_CASE("a Loop without iterations gives its states, and scan outputs of no rows") {
  const Graph graph = flat(R"(g (float[2] x) => (y, all) {
    m = Constant <value = int64 {0}> ()
    y, all = Loop (m, , x) <body = b (int64 i, bool go, float[2] v) => (go, w, u) {
      w = Neg (v)
      sizes = Constant <value = int64[2] {2, 1}> ()
      u = Reshape (v, sizes)
    }>
  })");
  const Tensor x = Tensor::of<float>({2}, {1, 2});
  const auto values = values_of(graph, {x});
  check_identical(values[0], x);
  check_identical(values[1], Tensor(DType::f32, Shape{0, 2, 1}));
}

TEST_CASE("a Loop whose condition is known ends by it") {
  const Graph graph = flat(R"(g (float[2] x) => (y, n) {
    yes = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    five = Constant <value = int64 {5}> ()
    two = Constant <value = int64 {2}> ()
    y, n = Loop (, yes, x, zero) <body = b (int64 i, bool go, float[2] v, int64 k) => (more, w, l) {
      l = Add (k, two)
      more = Less (l, five)
      w = Add (v, x)
    }>
  })");
  const auto values = values_of(graph, {Tensor::of<float>({2}, {1, 2})});
  check_close(values[0], Tensor::of<float>({2}, {4, 8}));
  check_identical(values[1], Tensor::scalar<int64_t>(6));
}

TEST_CASE("a Loop with scan outputs need not know the condition of its last iteration") {
  for (const int64_t count : {0, 1}) {
    const Graph graph =
        flat(cat("g (float[1] x) => (y, all) {\n  m = Constant <value = int64 {", count, R"(}> ()
      y, all = Loop (m, , x) <body = b (int64 i, bool go, float[1] v) => (more, w, v) {
        w = Neg (v)
        more = Less (v, w)
      }>
    })"));
    const auto values = values_of(graph, {Tensor::of<float>({1}, {3})});
    check_identical(values[0], Tensor::of<float>({1}, {count == 0 ? 3.0f : -3.0f}));
    CHECK(values[1].shape() == Shape({count, 1}));
  }
}

constexpr const char* kHalves = R"(g (double[2] x, double[2] w) => (y, n) {
  most = Constant <value = int64 {6}> ()
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  limit = Constant <value = double {1}> ()
  s = ReduceSum <keepdims = 0> (x)
  begin = Greater (s, limit)
  y, n = Loop (most, begin, x, zero) <
    body = b (int64 i, bool go, double[2] v, int64 k) => (more, u, l) {
      u = Mul (v, w)
      l = Add (k, one)
      t = ReduceSum <keepdims = 0> (u)
      more = Greater (t, limit)
    }>
})";

TEST_CASE("a Loop that a step ends early keeps the values of its last iteration") {
  const Graph graph = flat(kHalves);
  const Tensor half = Tensor::of<double>({2}, {0.5, 0.5});
  const auto run = [&](double a, double b) {
    return values_of(graph, {Tensor::of<double>({2}, {a, b}), half});
  };
  check_close(run(8, 4)[0], Tensor::of<double>({2}, {0.5, 0.25}));
  check_identical(run(8, 4)[1], Tensor::scalar<int64_t>(4));
  check_identical(run(0.25, 0.25)[1], Tensor::scalar<int64_t>(0));
  check_identical(run(1000, 1000)[1], Tensor::scalar<int64_t>(6));
  for (const double a : {0.1, 3.3, 8.1, 1000.0}) {
    INFO(a);
    check_graph_gradients(graph, {Tensor::of<double>({2}, {a, a / 3}), half}, {0, 1});
  }
}

// The number of iterations is an input, and there is a condition, too.
constexpr const char* kCounted = R"(g (double[2] x, double[2] w, int64 n, bool c) => (y, all, k) {
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  limit = Constant <value = double {1000}> ()
  y, k, all = Loop (n, c, x, zero) <bound = 4,
    body = b (int64 i, bool go, double[2] v, int64 k) => (more, u, l, square) {
      u = Mul (v, w)
      l = Add (k, one)
      square = Mul (u, u)
      t = ReduceSum <keepdims = 0> (u)
      more = Less (t, limit)
    }>
})";

TEST_CASE("a Loop with a bound runs as often as a step says") {
  const Graph graph = flat(kCounted);
  const Tensor x = Tensor::of<double>({2}, {3, -5}), w = Tensor::of<double>({2}, {2, 0.5});
  const auto run = [&](int64_t n, bool c, const Tensor& factors) {
    return values_of(graph, {x, factors, Tensor::scalar(n), Tensor::scalar(c)});
  };
  for (const int64_t n : {-1, 0, 1, 2, 4}) {
    for (const bool c : {true, false}) {
      INFO(n << " iterations, " << c);
      const auto values = run(n, c, w);
      const int64_t times = c ? std::max<int64_t>(n, 0) : 0;
      Tensor y = x.clone(), all(DType::f64, {4, 2});
      for (int64_t i = 0; i < times; ++i) {
        for (int64_t e = 0; e < 2; ++e) {
          y.set(e, y.at(e) * w.at(e));
          all.set(2 * i + e, y.at(e) * y.at(e));
        }
      }
      check_close(values[0], y);
      check_close(values[1], all);  // zeros behind the last iteration
      check_identical(values[2], Tensor::scalar(times));
      check_graph_gradients(graph, {x, w, Tensor::scalar(n), Tensor::scalar(c)}, {0, 1});
    }
  }
  // The condition ends it in the second iteration.
  check_identical(run(4, true, Tensor::of<double>({2}, {100, 1}))[2], Tensor::scalar<int64_t>(2));
}

TEST_CASE("the gradient of a bounded Loop's scan outputs is that of the iterations that ran") {
  const std::string text = kCounted;
  const Graph graph = flat(std::string(text).replace(text.find("(y, all, k)"), 11, "(all, y, k)"));
  const Tensor x = Tensor::of<double>({2}, {3, -5}), w = Tensor::of<double>({2}, {2, 0.5});
  for (const int64_t n : {0, 1, 3})
    check_graph_gradients(graph, {x, w, Tensor::scalar(n), Tensor::scalar(true)}, {0, 1});
}

TEST_CASE("a step that needs more iterations than the bound fails") {
  const Graph counted = flat(kCounted);
  const auto of = [](const Graph& graph, const std::vector<Tensor>& feeds) {
    std::map<ValueId, Tensor> fed;
    for (size_t i = 0; i < feeds.size(); ++i) fed[graph.inputs()[i]] = feeds[i];
    const auto result = interpret(graph, fed, {graph.outputs()[0]});
    REQUIRE(!result.ok());
    return result.status().message();
  };
  const Tensor x = Tensor::of<double>({2}, {3, -5}), w = Tensor::of<double>({2}, {2, 0.5});
  CHECK(of(counted, {x, w, Tensor::scalar<int64_t>(5), Tensor::scalar(true)})
            .find("'y': expected a Loop of at most 4 iterations (its attribute bound), this step "
                  "needs more") != std::string::npos);
  // Without an M: as often as the condition holds.
  const Graph open = flat(R"(g (float[1] x, float[1] limit) => (y) {
    first = Less (x, limit)
    y = Loop (, first, x) <bound = 3, body = b (int64 i, bool go, float[1] v) => (more, w) {
      w = Add (v, v)
      more = Less (w, limit)
    }>
  })");
  const Tensor one = Tensor::of<float>({1}, {1});
  check_identical(values_of(open, {one, Tensor::of<float>({1}, {7})})[0],
                  Tensor::of<float>({1}, {8}));
  check_identical(values_of(open, {one, Tensor::of<float>({1}, {0})})[0], one);
  CHECK(of(open, {one, Tensor::of<float>({1}, {9})}).find("at most 3 iterations") !=
        std::string::npos);
}

// The interpreter computes both branches, as accelerators do.
TEST_CASE("a bounded Loop in a branch that a step does not take does not fail it") {
  const Graph graph = flat(R"(g (float[2] x, int64 n, bool outer, bool inner) => (y) {
    y = If (outer) <
      then_branch = a () => (p) { p = Neg (x) },
      else_branch = b () => (q) {
        q = If (inner) <
          then_branch = d () => (v) {
            v = Loop (n, , x) <bound = 2, body = l (int64 i, bool go, float[2] u) => (go, w) {
              w = Add (u, u)
            }>
          },
          else_branch = e () => (r) { r = Abs (x) }>
      }>
  })");
  const auto step = [&](int64_t n, bool outer, bool inner) {
    std::map<ValueId, Tensor> fed;
    const std::vector<Tensor> feeds = {Tensor::of<float>({2}, {1, -3}), Tensor::scalar(n),
                                       Tensor::scalar(outer), Tensor::scalar(inner)};
    for (size_t i = 0; i < feeds.size(); ++i) fed[graph.inputs()[i]] = feeds[i];
    return interpret(graph, fed, {graph.outputs()[0]});
  };
  const Tensor negated = Tensor::of<float>({2}, {-1, 3});
  for (const bool inner : {false, true}) check_identical(must(step(9, true, inner))[0], negated);
  check_identical(must(step(9, false, false))[0], Tensor::of<float>({2}, {1, 3}));
  check_identical(must(step(2, false, true))[0], Tensor::of<float>({2}, {4, -12}));
  const auto more = step(3, false, true);
  REQUIRE(!more.ok());
  CHECK(more.status().message().find("at most 2 iterations") != std::string::npos);
}

TEST_CASE("a bounded Loop in iterations that a step does not run does not fail it") {
  // The first iteration runs the inner Loop once, the second one would run it thrice.
  const Graph graph = flat(R"(g (float[1] x, int64 n) => (y) {
    two = Constant <value = int64 {2}> ()
    one = Constant <value = int64 {1}> ()
    y, m = Loop (n, , x, one) <bound = 2,
      body = a (int64 i, bool go, float[1] v, int64 k) => (go, w, l) {
      w = Loop (k, , v) <bound = 2, body = b (int64 j, bool on, float[1] u) => (on, t) {
        t = Add (u, u)
      }>
      l = Add (k, two)
    }>
  })");
  const auto step = [&](int64_t n) {
    return interpret(
        graph,
        {{graph.inputs()[0], Tensor::of<float>({1}, {1})}, {graph.inputs()[1], Tensor::scalar(n)}},
        {graph.outputs()[0]});
  };
  check_identical(must(step(1))[0], Tensor::of<float>({1}, {2}));
  CHECK(!step(2).ok());
}

TEST_CASE("the bound of a Loop is checked when a graph is loaded") {
  const auto loop = [](const std::string& m, const std::string& bound) {
    return cat("g (float[2] x) => (y) {\n  y = Loop (", m, ", x) <bound = ", bound,
               ", body = b (int64 i, bool go, float[2] v) => (go, w) { w = Neg (v) }>\n}");
  };
  CHECK(not_expanded(loop(", ", "0")) == "Loop 'y': bound: expected at least 1, received 0");
  CHECK(not_expanded(loop(", ", "7")) ==
        "Loop 'y': bound: expected a Loop that may end within 7 iterations, this one goes on");
}

// The function of items of each op, on one shard: the collectives pass on what they get.
TEST_CASE("a map over items becomes its body for each item of a shard") {
  const auto map = [](const std::string& op, const std::string& attrs) {
    return cat("g (float[8,3] x, int64[8] k, float[3] w) => (y) {\n  y = leat.", op, " <", attrs,
               "body = f (float[3] e, int64 i) => (z) { s = Mul (e, w)  c = Cast <to = 1> (i)  ",
               "z = Add (s, c) }> (x, k)\n}");
  };
  const Graph sum = flat(map("MapReduce", "replicas = 4, "));
  CHECK(count_ops(sum, "Cast") == 2);  // of eight items, a shard has two
  CHECK(count_ops(sum, "leat.ReplicaId") == 1);
  CHECK(count_ops(sum, "leat.AllReduce") == 1);
  CHECK(sum.type_text(sum.value(sum.outputs()[0]).type) == "float[3]");
  const Graph all = flat(map("MapGather", "replicas = 2, "));
  CHECK(count_ops(all, "Cast") == 4);
  CHECK(count_ops(all, "leat.AllGather") == 1);
  CHECK(all.type_text(all.value(all.outputs()[0]).type) == "float[8,3]");

  CHECK(not_expanded(map("MapReduce", "replicas = 3, ")) ==
        "leat.MapReduce 'y': expected a number of items that 3 replicas divide, received 8");
  CHECK(not_expanded(map("MapGather", "replicas = 0, ")) ==
        "leat.MapGather 'y': replicas: expected at least 1, received 0");
  CHECK(not_expanded(map("MapReduce", "op = \"median\", ")) ==
        "leat.MapReduce 'y': op: expected sum, mean, max or min, received 'median'");
  CHECK(not_expanded("g (float[N,3] x) => (y) {\n  y = leat.MapGather <body = f (float[3] e) => "
                     "(z) { z = Neg (e) }> (x)\n}")
            .find("along the first axis; 'x' is float[N,3]") != std::string::npos);
  CHECK(not_expanded(
            "g (float[999999999999] x) => (y) {\n  y = leat.MapGather <body = f (float e) => "
            "(z) { z = Neg (e) }> (x)\n}")
            .find("items for each replica, received 999999999999") != std::string::npos);
  CHECK(not_expanded("g (float[2] x, float[3] v) => (y) {\n  y = leat.MapGather <body = f (float "
                     "a, float b) => (z) { z = Add (a, b) }> (x, v)\n}") ==
        "leat.MapGather 'y': expected as many items in each input, received 2 and 3");
  CHECK(not_expanded("g (int64[2] x) => (y) {\n  y = leat.MapReduce <op = \"mean\", body = f "
                     "(int64 a) => (z) { z = Neg (a) }> (x)\n}") ==
        "leat.MapReduce 'y': expected floats for the mean, received int64");
}

TEST_CASE("a Scan is a recurrence, with gradients to all that it reads") {
  const Graph graph = flat(R"(g (double[4,2] x, double[2] h, double[2,2] w) => (ys, last) {
    last, ys = Scan (h, x) <num_scan_inputs = 1,
      body = b (double[2] s, double[2] e) => (t, o) {
      p = MatMul (s, w)
      q = Add (p, e)
      t = Tanh (q)
      o = Mul (t, e)
    }>
  })");
  const Tensor x = random_tensor(DType::f64, {4, 2}, 3), h = random_tensor(DType::f64, {2}, 4),
               w = random_tensor(DType::f64, {2, 2}, 5);
  double s0 = h.at(0), s1 = h.at(1);
  Tensor expected(DType::f64, {4, 2});
  for (int64_t t = 0; t < 4; ++t) {
    const double p0 = s0 * w.at(0) + s1 * w.at(2) + x.at(2 * t);
    const double p1 = s0 * w.at(1) + s1 * w.at(3) + x.at(2 * t + 1);
    s0 = std::tanh(p0);
    s1 = std::tanh(p1);
    expected.set(2 * t, s0 * x.at(2 * t));
    expected.set(2 * t + 1, s1 * x.at(2 * t + 1));
  }
  const auto values = values_of(graph, {x, h, w});
  check_close(values[0], expected);
  check_close(values[1], Tensor::of<double>({2}, {s0, s1}));
  check_graph_gradients(graph, {x, h, w}, {0, 1, 2});
}

TEST_CASE("a Scan may go backwards, and along other axes") {
  const Graph graph = flat(R"(g (float[2,3] x) => (y) {
    zero = Constant <value = float[2] {0, 0}> ()
    last, y = Scan (zero, x) <num_scan_inputs = 1, scan_input_axes = [-1],
      scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],
      body = b (float[2] s, float[2] e) => (t, o) { t = Add (s, e)  o = Identity (t) }>
  })");
  check_close(values_of(graph, {Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})})[0],
              Tensor::of<float>({2, 3}, {6, 5, 3, 15, 11, 6}));
}

TEST_CASE("random nodes draw other numbers in each iteration") {
  const Graph graph = flat(R"(g () => (all) {
    m = Constant <value = int64 {2}> ()
    all = Loop (m) <body = b (int64 i, bool go) => (go, r) {
      r = RandomUniform <shape = [4]> ()
    }>
  })");
  const Tensor all = values_of(graph, {})[0];
  REQUIRE(all.shape() == Shape{2, 4});
  CHECK(all.at(0) != all.at(4));
}

TEST_CASE("the weights of a layer do not depend on the length of a loop before it") {
  const auto source = [](int trips) {
    const Graph graph =
        flat(cat("g (float[2,3] x) => (z) {\n  m = Constant <value = int64 {", trips,
                 "}> ()\n  y = Loop (m, , x) <body = b (int64 i, bool go, "
                 "float[2,3] v) => (go, w) { w = Neg (v) }>\n"
                 "  z = leat.Dense <units = 4> (y)\n}"));
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      if (graph.node(id).op->random) return graph.node(id).source;
    }
    return kNone;
  };
  CHECK(source(2) != kNone);
  CHECK(source(2) == source(9));
}

TEST_CASE("a batch may be a symbol where control flow does not depend on it") {
  const Graph graph = flat(R"(g (float[N,3,2] x) => (y) {
    t = Transpose <perm = [1, 0, 2]> (x)
    first = Constant <value = float[2] {0, 0}> ()
    one = Constant <value = int64[1] {1}> ()
    zeros = ReduceSum <keepdims = 0> (x, one)
    y, all = Scan (zeros, t) <num_scan_inputs = 1,
      body = b (float[N,2] s, float[N,2] e) => (u, v) { u = Add (s, e)  v = Neg (u) }>
  })");
  CHECK(graph.type_text(graph.value(graph.outputs()[0]).type) == "float[N,2]");
}

TEST_CASE("control flow that no plan can have is refused by name") {
  const auto loop = [](const std::string& operands, const std::string& body) {
    return not_expanded(cat("g (float[2] x, int64 n, bool c, float[N,2] r) => (y) {\n",
                            "  y = Loop (", operands, ") <body = b (int64 i, bool go, float[2] v) ",
                            "=> (more, w) { ", body, " }>\n}"));
  };
  const std::string body = "w = Neg (v)  more = Identity (go)";
  CHECK(loop("n, , x", body) ==
        "Loop 'y': expected a trip count that is known when the graph is loaded, 'n' is computed "
        "in the step; give M as a constant bound and end the loop earlier by its condition, or set "
        "the attribute bound (leat.bound in the metadata of an ONNX file)");
  CHECK(loop(", c, x", body) ==
        "Loop 'y': expected a Loop with a bound, it ends by a condition that is computed in the "
        "step; give M as a constant, or set the attribute bound (leat.bound in the metadata of an "
        "ONNX file)");
  CHECK(loop(", , x", body) ==
        "'y': expected at most 200000 nodes in all iterations and branches of a graph, received "
        "more; use fewer iterations, or a smaller body");
  CHECK(not_expanded("g (float[N,2] x) => (y) {\n  s = Constant <value = float[2] {0, 0}> ()\n"
                     "  l, y = Scan (s, x) <num_scan_inputs = 1, "
                     "body = b (float[2] s, float[2] e) => (t, o) { t = Add (s, e)  o = Neg (e) }>"
                     "\n}") ==
        "Scan 'l': expected at least one iteration, and a number of them that is known when the "
        "graph is loaded; axis 0 of 'x' has N");
  CHECK(not_expanded("g (float[2] x, bool c) => (y) {\n  y = If (c) <then_branch = a () => (p) "
                     "{ p = leat.Dense <units = 2> (x) }, else_branch = b () => (x) {}>\n}")
            .find("'y/then': expected no layers in a region, received leat.Dense 'p'") !=
        std::string::npos);
  CHECK(not_expanded("g (float[2] x, bool c) => (y) {\n  y = If (c) <then_branch = a () => (p) "
                     "{ p = ReduceSum (x) }, else_branch = b () => (x) {}>\n}")
            .find("expected values of one shape from both branches, received [1] and [2]") !=
        std::string::npos);
}

TEST_CASE("scan outputs of a Loop that a step ends early are refused") {
  CHECK(not_expanded(R"(g (float[2] x, bool c) => (y, all) {
    m = Constant <value = int64 {3}> ()
    y, all = Loop (m, c, x) <body = b (int64 i, bool go, float[2] v) => (go, w, v) { w = Neg (v) }>
  })") ==
        "Loop 'y': expected a Loop with scan outputs to make a number of iterations that is known "
        "when the graph is loaded, its condition is computed in the step; with the attribute bound "
        "they have as many entries, zeros behind the last iteration");
}

TEST_CASE("a Merge takes one value, and a Mask passes its value or zeros") {
  const Tensor a = random_tensor(DType::f64, {3, 2}, 1), b = random_tensor(DType::f64, {3, 2}, 2);
  const Tensor yes = Tensor::scalar(true), no = Tensor::scalar(false);
  check_identical(run1("leat.Merge", {yes, a, b}), a);
  check_identical(run1("leat.Merge", {no, a, b}), b);
  check_identical(run1("leat.Mask", {a, yes}), a);
  check_identical(run1("leat.Mask", {a, yes}, {{"branch", int64_t{0}}}),
                  Tensor(a.dtype(), a.shape()));
  check_identical(run1("when.Neg", {yes, a}), run1("Neg", {a}));
}

}  // namespace leat::testing
