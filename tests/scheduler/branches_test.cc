// Plans whose steps leave out branches: values, gradients, which kernels run, and conditions that
// come from other devices.
#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

Graph loaded(const std::string& text) {
  INFO(text);
  return must(expand_layers(
      must(parse_graph("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n" + text,
                       scheduler_catalogue(), "g"))));
}

CompileRequest request_of(const Graph& graph, int devices) {
  CompileRequest request;
  request.borders.feeds = graph.inputs();
  request.borders.fetches = graph.outputs();
  request.devices = cpus(devices);
  return request;
}

size_t count_of(const Plan& plan, std::string_view op) {
  size_t count = 0;
  for (const Partition& partition : plan.partitions) {
    for (const PlanInstruction& i : partition.instructions)
      count += i.op && i.op->full_name() == op;
  }
  return count;
}

// A step for each list of feeds.
struct Branched {
  Branched(const std::string& text, int devices)
      : graph(loaded(text)), runner(must(compile(graph, request_of(graph, devices))), 2) {}
  std::vector<Tensor> step(const std::vector<Tensor>& feeds) {
    for (uint32_t i = 0; i < feeds.size(); ++i) must(runner.feed(i, feeds[i]));
    must(runner.step_to(++steps));
    std::vector<Tensor> fetched;
    for (uint32_t i = 0; i < graph.outputs().size(); ++i)
      fetched.push_back(runner.fetched(i, steps - 1));
    return fetched;
  }
  Graph graph;
  PlanRunner runner;
  uint64_t steps = 0;
};

Tensor row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
bool near(const Tensor& a, const std::vector<float>& b) {
  bool same = a.elements() == static_cast<int64_t>(b.size());
  for (int64_t i = 0; same && i < a.elements(); ++i)
    same = std::abs(a.at(i) - b[static_cast<size_t>(i)]) < 1e-5;
  return same;
}

// An index out of range is an error of the step in which the kernel runs.
constexpr const char* kPick = R"(g (float[3] x, int64 i, bool c) => (y, dx) {
  y = If (c) <then_branch = a () => (p) { e = Gather (x, i)  p = Sqrt (e) },
              else_branch = b () => (q) { m = Mul (x, x)  q = ReduceSum <keepdims = 0> (m) }>
  d_x = leat.Gradients (y, x)
  dx = Identity (d_x)
})";

}  // namespace

TEST_CASE("a step runs the kernels of the branch that it takes alone") {
  Branched plan(kPick, 1);
  CHECK(count_of(plan.runner.plan(), "when.Gather") == 1);
  CHECK(count_of(plan.runner.plan(), "Gather") == 0);
  CHECK(count_of(plan.runner.plan(), "leat.Enter") == 0);
  const Tensor x = row({4, 9, -1}), yes = Tensor::scalar(true), no = Tensor::scalar(false);
  const auto taken = plan.step({x, Tensor::scalar<int64_t>(1), yes});
  CHECK(taken[0].at(0) == 3);
  CHECK(near(taken[1], {0, 1.0f / 6, 0}));
  // The index is out of range, and is not read.
  const auto other = plan.step({x, Tensor::scalar<int64_t>(77), no});
  CHECK(other[0].at(0) == 98);
  CHECK(near(other[1], {8, 18, -2}));
  // The square root of -1 is NaN in its own branch only.
  CHECK(std::isnan(plan.step({x, Tensor::scalar<int64_t>(2), yes})[0].at(0)));
  CHECK(near(plan.step({x, Tensor::scalar<int64_t>(2), no})[1], {8, 18, -2}));
  must(plan.runner.feed(1, Tensor::scalar<int64_t>(77)));
  must(plan.runner.feed(2, yes));
  CHECK(!plan.runner.step_to(5).ok());
}

TEST_CASE("a value that both branches need is computed in every step") {
  const Graph graph = loaded(R"(g (float[3] x, bool c) => (y) {
    y = If (c) <then_branch = a () => (p) { e = Exp (x)  p = Neg (e) },
                else_branch = b () => (q) { e = Exp (x)  q = Abs (e) }>
  })");
  const Plan plan = must(compile(graph, request_of(graph, 1)));
  CHECK(count_of(plan, "Exp") == 1);
  CHECK(count_of(plan, "when.Exp") == 0);
  CHECK(count_of(plan, "when.Neg") == 1);
  CHECK(count_of(plan, "when.Abs") == 1);
}

TEST_CASE("nested branches run under both conditions") {
  Branched plan(R"(g (float[2] x, int64 i, bool c) => (y, dx) {
    zero = Constant <value = float {0}> ()
    y = If (c) <
      then_branch = a () => (p) {
        e = Gather (x, i)
        d = Less (e, zero)
        p = If (d) <then_branch = aa () => (r) { j = Add (i, i)  f = Gather (x, j)  r = Exp (f) },
                    else_branch = ab () => (s) { s = Sqrt (e) }>
      },
      else_branch = b () => (q) { q = ReduceSum <keepdims = 0> (x) }>
    d_x = leat.Gradients (y, x)
    dx = Identity (d_x)
  })",
                1);
  CHECK(count_of(plan.runner.plan(), "when.Sqrt") == 1);
  const auto at = [](int64_t i) { return Tensor::scalar<int64_t>(i); };
  const Tensor yes = Tensor::scalar(true), no = Tensor::scalar(false);
  CHECK(plan.step({row({4, 9}), at(1), yes})[0].at(0) == 3);
  CHECK(near(plan.step({row({4, 9}), at(1), yes})[1], {0, 1.0f / 6}));
  CHECK(near(plan.step({row({-4, 9}), at(0), yes})[1], {std::exp(-4.0f), 0}));
  CHECK(near(plan.step({row({-4, 9}), at(55), no})[1], {1, 1}));
}

TEST_CASE("a branch waits for a condition of another device") {
  const std::string text = R"(g (float[3] x, float[3] z, int64 i) => (y, dx) {
    limit = Constant <value = float {1}> ()
    s = ReduceSum <keepdims = 0, device = "task:1"> (z)
    c = Greater <device = "task:1"> (s, limit)
    y = If (c) <device = "task:0",
      then_branch = a () => (p) {
        e = Gather (x, i)
        p = Sqrt <device = "task:2"> (e)
      },
      else_branch = b () => (q) { q = ReduceSum <keepdims = 0> (x) }>
    d_x = leat.Gradients (y, x)
    dx = Identity (d_x)
  })";
  Branched plan(text, 3);
  CHECK(count_of(plan.runner.plan(), "when.Sqrt") == 1);
  for (int i = 0; i < 20; ++i) {
    const bool taken = i % 3 == 0;
    const auto values = plan.step({row({16, 4, 1}), row({taken ? 2.0f : 0.5f, 0, 0}),
                                   Tensor::scalar<int64_t>(taken ? 1 : 99)});
    CHECK(values[0].at(0) == (taken ? 2 : 21));
    CHECK(near(values[1], taken ? std::vector<float>{0, 0.25f, 0} : std::vector<float>{1, 1, 1}));
  }
}

TEST_CASE("running statistics move in the steps that take their branch") {
  Graph graph = loaded(R"(g (float[4,2] x, bool c) => (y) {
    mean_variable = leat.Variable <name = "mean", shape = [2], trainable = 0> ()
    variance_variable = leat.Variable <name = "variance", shape = [2], trainable = 0> ()
    mean = leat.Read (mean_variable)
    variance = leat.Read (variance_variable)
    scale = Constant <value = float[2] {1, 1}> ()
    bias = Constant <value = float[2] {0, 0}> ()
    y = If (c) <
      then_branch = a () => (p) {
        p = BatchNormalization <momentum = 0.5> (x, scale, bias, mean, variance)
      },
      else_branch = b () => (q) { q = Neg (x) }>
  })");
  graph = must(set_training(graph, true));
  CompileRequest request = request_of(graph, 1);
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (!graph.node(id).op->writes.empty()) request.borders.targets.push_back(id);
  }
  REQUIRE(request.borders.targets.size() == 2);
  PlanRunner runner(must(compile(graph, request)), 2);
  const auto mean = [&] {
    return static_cast<float*>(runner.resources().find_variable("mean")->data())[1];
  };
  must(runner.feed(0, Tensor::of<float>({4, 2}, {1, 8, 1, 8, 1, 8, 1, 8})));
  must(runner.feed(1, Tensor::scalar(true)));
  must(runner.step_to(1));
  CHECK(mean() == 4);
  must(runner.feed(1, Tensor::scalar(false)));
  must(runner.step_to(3));
  CHECK(mean() == 4);
  must(runner.feed(1, Tensor::scalar(true)));
  must(runner.step_to(4));
  CHECK(mean() == 6);
}

TEST_CASE("a loop that a step ends early runs its iterations until then") {
  Branched plan(R"(g (float[4] x, int64 n) => (v, k, dx) {
    most = Constant <value = int64 {5}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    yes = Constant <value = bool {1}> ()
    v, k = Loop (most, yes, x, zero) <
      body = b (int64 i, bool go, float[4] u, int64 l) => (more, w, m) {
        e = Gather (x, i)
        w = Mul (u, e)
        m = Add (l, one)
        more = Less (m, n)
      }>
    d_x = leat.Gradients (v, x)
    dx = Identity (d_x)
  })",
                1);
  // The fifth iteration would read behind the end of x.
  CHECK(count_of(plan.runner.plan(), "when.Gather") == 4);
  const Tensor x = row({1, 2, 3, 4});
  const auto two = plan.step({x, Tensor::scalar<int64_t>(2)});
  CHECK(near(two[0], {2, 4, 6, 8}));
  CHECK(two[1].int_at(0) == 2);
  CHECK(near(two[2], {2 + 20, 2 + 10, 2, 2}));
  CHECK(near(plan.step({x, Tensor::scalar<int64_t>(4)})[0], {24, 48, 72, 96}));
  CHECK(near(plan.step({x, Tensor::scalar<int64_t>(0)})[0], {1, 2, 3, 4}));
}

TEST_CASE("a loop with a bound goes on while its step says so, in a branch, too") {
  constexpr const char* kText = R"(g (float[2] x, int64 n, bool c) => (y, all, dx) {
    y, all = If (c) <
      then_branch = a () => (v, s) {
        v, s = Loop (n, , x) <bound = 3, body = b (int64 i, bool go, float[2] u) => (go, w, w) {
          w = Mul (u, u)
        }>
      },
      else_branch = d () => (q, z) {
        q = Neg (x)
        z = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> ()
      }>
    total = ReduceSum <keepdims = 0> (y)
    dx = leat.Gradients (total, x)
  })";
  for (const int devices : {1, 2}) {
    Branched plan(kText, devices);
    const Tensor x = row({2, 3}), yes = Tensor::scalar(true), no = Tensor::scalar(false);
    const auto twice = plan.step({x, Tensor::scalar<int64_t>(2), yes});
    CHECK(near(twice[0], {16, 81}));
    CHECK(near(twice[1], {4, 9, 16, 81, 0, 0}));
    CHECK(near(twice[2], {32, 108}));
    const auto never = plan.step({x, Tensor::scalar<int64_t>(0), yes});
    CHECK(near(never[0], {2, 3}));
    CHECK(near(never[2], {1, 1}));
    // A step of the other branch may have any number.
    const auto other = plan.step({x, Tensor::scalar<int64_t>(77), no});
    CHECK(near(other[0], {-2, -3}));
    CHECK(near(other[1], {1, 2, 3, 4, 5, 6}));
    CHECK(near(other[2], {-1, -1}));
    must(plan.runner.feed(1, Tensor::scalar<int64_t>(4)));
    must(plan.runner.feed(2, yes));
    CHECK(!plan.runner.step_to(plan.steps + 1).ok());
  }
}

}  // namespace leat
