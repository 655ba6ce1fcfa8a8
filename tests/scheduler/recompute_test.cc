// Values that a plan computes again where it would not fit into the memory of the device: the bits
// of all results, and the memory.
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

Graph graph_to_shrink(const std::string& text) {
  return must(expand_layers(
      must(parse_graph("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n" + text,
                       scheduler_catalogue(), "g"))));
}

CompileRequest request_within(const Graph& graph, uint64_t memory) {
  CompileRequest request;
  request.borders.feeds = graph.inputs();
  request.borders.fetches = graph.outputs();
  request.devices = cpus(1);
  request.devices[0].memory_bytes = memory;
  return request;
}

// All fetches of two steps.
std::vector<Tensor> fetch_two_steps(const Graph& graph, Plan plan) {
  PlanRunner runner(std::move(plan), 2);
  std::vector<Tensor> feeds;
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    Tensor value(DType::f32, *graph.value(graph.inputs()[i]).type.shape.concrete());
    for (int64_t j = 0; j < value.elements(); ++j)
      value.set(j, static_cast<double>((j * (7 + i) + 3) % 23 - 11) / 64);
    feeds.push_back(std::move(value));
  }
  std::vector<Tensor> fetched;
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint32_t i = 0; i < feeds.size(); ++i) must(runner.feed(i, feeds[i]));
    must(runner.step_to(step + 1));
    for (uint32_t i = 0; i < graph.outputs().size(); ++i)
      fetched.push_back(runner.fetched(i, step));
  }
  return fetched;
}

// Compiles the graph for less and less memory, down to `least` of what it needs, and compares all
// results.
void check_smaller(const std::string& text, double least) {
  const Graph graph = graph_to_shrink(text);
  const Plan whole = must(compile(graph, request_within(graph, 0)));
  const uint64_t needs = whole.partitions[0].memory_bytes();
  CHECK(computed_again(whole) == 0);
  // A plan that fits is what it was.
  CHECK(must(compile(graph, request_within(graph, needs))).text() == whole.text());
  const std::vector<Tensor> expected = fetch_two_steps(graph, whole);
  for (double part = 0.9; part > least - 0.01; part -= 0.1) {
    INFO(part << " of " << needs);
    const auto limit = static_cast<uint64_t>(part * static_cast<double>(needs));
    const Plan plan = must(compile(graph, request_within(graph, limit)));
    CHECK(plan.partitions[0].memory_bytes() <= limit);
    CHECK(computed_again(plan) > 0);
    // Equal requests give equal plans.
    CHECK(must(compile(graph, request_within(graph, limit))).text() == plan.text());
    const std::vector<Tensor> found = fetch_two_steps(graph, plan);
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO(i << ": " << found[i].at(0) << " " << expected[i].at(0));
      CHECK(found[i].identical(expected[i]));
    }
  }
}

// `layers` times `body`, in which {} is the number of the layer and {-} that of the one before.
std::string repeat_layers(int layers, const std::string& body) {
  std::string text;
  for (int i = 1; i <= layers; ++i) {
    std::string one = body;
    for (const auto& [from, to] : {std::pair{std::string("{}"), i}, {std::string("{-}"), i - 1}}) {
      for (size_t at; (at = one.find(from)) != one.npos;) one.replace(at, from.size(), cat(to));
    }
    text += one + "\n";
  }
  return text;
}

TEST_CASE("a deep chain of activations fits into less memory, with the same bits") {
  check_smaller("g (float[64, 128] h0, float[128, 128] w) => (loss, dw, dx) {" +
                    repeat_layers(12,
                                  "m{} = MatMul (h{-}, w)  t{} = Tanh (m{})  e{} = Exp (t{})"
                                  "  s{} = Sigmoid (e{})  h{} = Add (s{}, t{})") +
                    "q = Mul (h12, h12)  loss = ReduceSum <keepdims = 0> (q)"
                    "  dw, dx = leat.Gradients (loss, w, h0) }",
                0.6);
}

TEST_CASE("normalizations, views and splits are computed again, with the same bits") {
  check_smaller(
      "g (float[16, 32, 64] h0, float[64, 128] w, float[64] c) => (loss, dw, dc) {"
      "flat = Constant <value_ints = [-1, 64]> ()  deep = Constant <value_ints = [16, 32, 64]> ()" +
          repeat_layers(
              8,
              "n{} = LayerNormalization (h{-}, c)  r{} = Reshape (n{}, flat)"
              "  m{} = MatMul (r{}, w)  a{}, b{} = Split <axis = 1, num_outputs = 2> (m{})"
              "  g{} = Gelu (a{})  p{} = Mul (g{}, b{})"
              "  v{} = Reshape (p{}, deep)  h{} = Add (h{-}, v{})") +
          "q = Mul (h8, h8)  loss = ReduceSum <keepdims = 0> (q)"
          "  dw, dc = leat.Gradients (loss, w, c) }",
      0.6);
}

TEST_CASE("convolutions with normalization are computed again, with the same bits") {
  check_smaller(
      "g (float[8, 16, 12, 12] h0, float[16, 16, 3, 3] w, float[16] c) => (loss, dw, dc) {" +
          repeat_layers(8,
                        "k{} = Conv <pads = [1, 1, 1, 1]> (h{-}, w)"
                        "  i{} = InstanceNormalization (k{}, c, c)  r{} = Relu (i{})"
                        "  h{} = Add (h{-}, r{})") +
          "q = Mul (h8, h8)  loss = ReduceSum <keepdims = 0> (q)"
          "  dw, dc = leat.Gradients (loss, w, c) }",
      0.7);
}

TEST_CASE("the iterations of a loop are computed again, with the same bits") {
  check_smaller(
      "g (float[12, 32, 64] xs, float[32, 64] h0, float[64, 64] w) => (loss, dw, dh) {"
      "last, all = Scan <num_scan_inputs = 1, body = step (float[32, 64] h, float[32, 64] x)"
      " => (float[32, 64] next, float[32, 64] out) {"
      "  m = MatMul (h, w)  s = Add (m, x)  t = Tanh (s)  e = Exp (t)  g = Sigmoid (e)"
      "  u = Exp (g)  v = Tanh (u)  next = Add (v, t)  out = Identity (next) }> (h0, xs)"
      "  q = Mul (last, last)  loss = ReduceSum <keepdims = 0> (q)"
      "  dw, dh = leat.Gradients (loss, w, h0) }",
      0.7);
}

TEST_CASE("the states of a recurrent cell are computed again, with the same bits") {
  check_smaller(
      "g (float[10, 16, 64] h0, float[64, 256] r) => (loss, dr, dx) {"
      "wide = Constant <value_ints = [1, 1, 4]> ()" +
          repeat_layers(6,
                        "x{} = Tile (h{-}, wide)  t{} = Tanh (x{})"
                        "  h{} = leat.Recurrent <cell = \"lstm\"> (t{}, r)") +
          "q = Mul (h6, h6)  loss = ReduceSum <keepdims = 0> (q)"
          "  dr, dx = leat.Gradients (loss, r, h0) }",
      0.7);
}

TEST_CASE("copies come before the writes of a step") {
  const std::string text =
      "g (float[64, 128] h0) => (loss) {"
      "w = leat.Variable <name = \"w\", shape = [128, 128]> ()"
      "  some = Constant <value_float = 0.01> ()"
      "  size = Constant <value_ints = [128, 128]> ()"
      "  first = Expand (some, size)  [init] = leat.Initialize (w, first)"
      "  now = leat.Read (w)" +
      repeat_layers(10,
                    "m{} = MatMul (h{-}, now)  t{} = Tanh (m{})"
                    "  e{} = Exp (t{})  h{} = Sigmoid (e{})") +
      "q = Mul (h10, h10)  loss = ReduceSum <keepdims = 0> (q)"
      "  dw = leat.Gradients (loss, now)"
      "  rate = Constant <value_float = -0.001> ()  d = Mul (dw, rate)"
      "  [update] = leat.AssignAdd (w, d) }";
  const Graph graph = graph_to_shrink(text);
  auto request = request_within(graph, 0);
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).name == "update") request.borders.targets.push_back(id);
  }
  const auto steps = [&](Plan plan) {
    PlanRunner runner(std::move(plan), 2);
    Tensor x(DType::f32, {64, 128});
    for (int64_t j = 0; j < x.elements(); ++j) x.set(j, static_cast<double>(j % 17 - 8) / 16);
    must(runner.feed(0, x));
    Variable* w = runner.resources().find_variable("w");
    REQUIRE(w != nullptr);
    for (size_t i = 0; i < w->bytes() / 4; ++i)
      static_cast<float*>(w->data())[i] = static_cast<float>(i % 13) / 256;
    must(runner.step_to(1));
    must(runner.feed(0, x));
    must(runner.step_to(2));
    const auto* bytes = static_cast<const std::byte*>(w->data());
    return Bytes(bytes, bytes + w->bytes());
  };
  for (const bool recoverable : {false, true}) {
    request.recoverable = recoverable;
    request.devices[0].memory_bytes = 0;
    const Plan whole = must(compile(graph, request));
    request.devices[0].memory_bytes = whole.partitions[0].memory_bytes() * 8 / 10;
    const Plan plan = must(compile(graph, request));
    CHECK(computed_again(plan) > 0);
    CHECK(steps(plan) == steps(whole));
  }
}

TEST_CASE("a plan that cannot be made small enough is refused") {
  const Graph graph = graph_to_shrink(
      "g (float[64, 128] x, float[128, 128] w) => (y) { m = MatMul (x, w)  y = Tanh (m) }");
  const auto refused = compile(graph, request_within(graph, 1000));
  REQUIRE(!refused.ok());
  CHECK(refused.status().code() == Code::resource_exhausted);
}

}  // namespace
}  // namespace leat
