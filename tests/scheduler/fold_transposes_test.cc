// Products that transpose their operands themselves: which Transposes stay, and the bits of values
// and gradients.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

struct Outcome {
  std::vector<Tensor> fetched;
  size_t transposes = 0;
};

// Runs a step of a graph, fed with numbers that depend on the input's index.
Outcome run(const std::string& text) {
  const Graph graph = must(expand_layers(
      must(parse_graph("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n" + text,
                       scheduler_catalogue(), "g"))));
  CompileRequest request;
  request.borders.feeds = graph.inputs();
  request.borders.fetches = graph.outputs();
  request.devices = cpus(1);
  Plan plan = must(compile(graph, request));
  Outcome out;
  for (const PlanInstruction& i : plan.partitions[0].instructions)
    out.transposes += i.op && i.op->full_name() == "Transpose";
  PlanRunner runner(std::move(plan), 2);
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    Tensor value(DType::f32, *graph.value(graph.inputs()[i]).type.shape.concrete());
    for (int64_t j = 0; j < value.elements(); ++j)
      value.set(j, static_cast<double>((j * (7 + i) + 3) % 23 - 11) / 8);
    must(runner.feed(i, value));
  }
  must(runner.step_to(1));
  for (uint32_t i = 0; i < graph.outputs().size(); ++i) out.fetched.push_back(runner.fetched(i, 0));
  return out;
}

// Fetches a product and its gradients. `types` has those of x and w; `body` computes y of them,
// with a value t that is transposed. Also as a graph in which t is fetched, so that it stays.
void check_folded(const std::string& types, const std::string& body) {
  INFO(types << " " << body);
  const std::string rest = body +
                           "  s = Mul (y, y)  l = ReduceSum <keepdims = 0> (s)"
                           "  gx, gw = leat.Gradients (l, x, w)"
                           "  dx = Neg (gx)  dw = Neg (gw) }";
  const Outcome folded = run("g (" + types + ") => (y, dx, dw) {" + rest);
  const Outcome kept = run("g (" + types + ") => (y, dx, dw, t) {" + rest);
  CHECK(folded.transposes == 0);
  CHECK(kept.transposes > 0);
  for (size_t i = 0; i < 3; ++i) CHECK(folded.fetched[i].identical(kept.fetched[i]));
}

}  // namespace

TEST_CASE("products transpose operands themselves, with the same bits") {
  const std::string linear = "float[3, 20, 24] x, float[40, 24] w";
  check_folded(linear, "t = Transpose <perm = [1, 0]> (w)  y = MatMul (x, t)");
  check_folded(linear,
               "t = Transpose <perm = [1, 0]> (w)  c = Cast <to = 1> (t)  y = MatMul (x, c)");
  check_folded("float[2, 20, 24] x, float[2, 40, 24] w",
               "t = Transpose <perm = [0, 2, 1]> (w)  y = MatMul (x, t)");
  check_folded("float[20, 24] x, float[40, 24] w",
               "t = Transpose <perm = [1, 0]> (w)  y = Gemm (x, t)");
  check_folded("float[24, 20] x, float[24, 40] w",
               "t = Transpose <perm = [1, 0]> (x)  y = MatMul (t, w)");
  check_folded("float[20, 24] x, float[24, 40] w",
               "t = Transpose <perm = [1, 0]> (w)  y = leat.MatMul <transB = 1> (x, t)");
}

TEST_CASE("a Transpose stays if others need it, or if it is none of matrices") {
  const auto transposes = [](const std::string& types, const std::string& body) {
    INFO(body);
    return run("g (" + types + ") => (y) {" + body + " }").transposes;
  };
  const std::string square = "float[20, 20] x, float[20, 20] w";
  CHECK(transposes(square,
                   "t = Transpose <perm = [1, 0]> (w)  m = MatMul (x, t)"
                   "  y = Add (m, t)") == 1);
  // A product of a value and itself, which a Cast gives it.
  const std::string twice =
      "t = Transpose <perm = [1, 0]> (w)  c = Cast <to = 1> (t)  y = MatMul (c, c)";
  CHECK(transposes(square, twice) == 1);
  const auto product = [&](const std::string& body) {
    return run("g (" + square + ") => (y) {" + body + " }").fetched[0];
  };
  CHECK(product(twice).identical(product("m = MatMul (w, w)  y = Transpose <perm = [1, 0]> (m)")));
  CHECK(product("t = Transpose <perm = [1, 0]> (w)  y = MatMul (t, t)")
            .identical(product("m = MatMul (w, w)  y = Transpose <perm = [1, 0]> (m)")));
  CHECK(transposes(square, "t = Transpose <perm = [0, 1]> (w)  y = MatMul (x, t)") <= 1);
  CHECK(transposes("float[2, 3, 20] x, float[20, 3, 2] w",
                   "t = Transpose <perm = [2, 1, 0]> (w)  a = Transpose <perm = [0, 1, 2]> (x)"
                   "  u = Transpose <perm = [0, 2, 1]> (t)  y = MatMul (a, u)") >= 1);
  // One B for a batch of matrices A makes one tall product, unless A is transposed.
  CHECK(transposes("float[2, 24, 20] x, float[24, 40] w",
                   "t = Transpose <perm = [0, 2, 1]> (x)  y = MatMul (t, w)") == 1);
}

}  // namespace leat
