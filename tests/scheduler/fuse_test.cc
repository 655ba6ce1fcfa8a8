#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "ops/graph/validate.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

using Ints = std::vector<int64_t>;

// A network with one pool over a Relu, and the gradient of its input: sum(pool(relu(x)) * weight).
struct Pooled {
  Graph graph{scheduler_catalogue()};
  ValueId x = kNone, weight = kNone, dx = kNone;
  ValueId scattered = kNone;  // the output of MaxPoolGrad

  // With `conv`, a convolution comes before the Relu, so that operands are blocked.
  Pooled(const Attrs& window, const Shape& input, const Shape& output, bool conv, bool global) {
    GraphBuilder g(graph);
    x = g.input("x", DType::f32, input);
    weight = g.input("weight", DType::f32, output);
    ValueId before = x;
    if (conv) {
      Tensor w(DType::f32, Shape{16, 16, 1, 1});
      for (int64_t i = 0; i < w.elements(); ++i) w.set(i, i % 17 == 0 ? 1 : 0);
      before = g.op("Conv", {x, g.constant(w)});
    }
    const ValueId y = g.op("Relu", {before});
    const ValueId pool = g.op(global ? "GlobalMaxPool" : "MaxPool", {y}, window);
    const ValueId sum =
        g.op("ReduceSum", {g.op("Mul", {pool, weight})}, {{"keepdims", int64_t{0}}});
    must(g.status());
    Inference inference(graph);
    must(inference.run());
    dx = must(add_gradients(inference, sum, std::vector<ValueId>{before}))[0];
    for (NodeId n = 0; n < graph.nodes(); ++n) {
      if (graph.node(n).op->full_name() == "leat.MaxPoolGrad") scattered = graph.node(n).outputs[0];
    }
  }

  Plan plan(const std::vector<ValueId>& fetches) const {
    CompileRequest request;
    request.borders = {{x, weight}, fetches, {}};
    request.devices = cpus(1);
    return must(compile(graph, request));
  }
};

// Counts the elements that ReluGrad processes.
int64_t masked_elements(const Plan& plan) {
  for (const PlanInstruction& i : plan.partitions[0].instructions) {
    if (i.op && i.op->full_name() == "leat.ReluGrad")
      return plan.partitions[0].values[i.outputs[0]].type.shape.elements();
  }
  return 0;
}

// Numbers with many equal ones and with zeros of both signs; with `special` also NaNs and
// infinities.
Tensor awkward(const Shape& shape, uint32_t seed, bool special) {
  Tensor t(DType::f32, shape);
  const float inf = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525 + 1013904223;
    const uint32_t r = seed >> 16 & 255;
    float v = static_cast<float>(static_cast<int>(r % 13) - 6) * 0.25f;
    if (v == 0 && r % 2 == 1) v = -0.0f;
    if (special && r == 254) v = std::nanf("");
    if (special && r == 255) v = r % 2 ? inf : -inf;
    static_cast<float*>(t.raw())[i] = v;
  }
  return t;
}

Tensor gradient(Plan plan, const Tensor& x, const Tensor& weight) {
  PlanRunner runner(std::move(plan), 2);
  must(runner.feed(0, x));
  must(runner.feed(1, weight));
  must(runner.step_to(1));
  return runner.fetched(0, 0);
}

}  // namespace

TEST_CASE("a Relu is masked before the gradient of the max-pool over it, with the same bits") {
  struct Case {
    Attrs window;
    Shape input, output;
    bool global = false;
  };
  const Case cases[] = {
      {{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, {4, 16, 9, 8}, {4, 16, 4, 4}},
      {{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
       {4, 16, 9, 8},
       {4, 16, 5, 4}},
      {{{"kernel_shape", Ints{2, 2}},
        {"auto_pad", std::string("SAME_LOWER")},
        {"strides", Ints{1, 2}}},
       {4, 16, 6, 7},
       {4, 16, 6, 4}},
      {{}, {4, 16, 5, 5}, {4, 16, 1, 1}, true}};
  for (const Case& c : cases) {
    for (bool conv : {false, true}) {
      INFO(c.output.to_string() << ", " << conv);
      const Pooled net(c.window, c.input, c.output, conv, c.global);
      const Plan moved = net.plan({net.dx}), kept = net.plan({net.dx, net.scattered});
      CHECK(masked_elements(moved) == c.output.elements());
      CHECK(masked_elements(kept) == c.input.elements());
      for (uint32_t seed = 1; seed < 4; ++seed) {
        // A NaN would spread through the sums of a convolution.
        const Tensor x = awkward(c.input, seed, !conv), weight = awkward(c.output, seed + 9, true);
        CHECK(gradient(moved, x, weight).identical(gradient(kept, x, weight)));
      }
    }
  }
}

TEST_CASE("a Relu stays behind a max-pool's gradient that does not belong to its own pool") {
  const Shape input{2, 3, 8, 8}, output{2, 3, 4, 4};
  const Attrs window{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  Pooled net(window, input, output, false, false);
  const auto mask = [&](auto change) {
    Pooled other = net;
    Node& relu_grad = other.graph.node(other.graph.value(other.dx).producer);
    change(other, relu_grad, other.graph.node(other.graph.value(other.scattered).producer));
    return masked_elements(other.plan({other.dx}));
  };
  CHECK(mask([](Pooled&, Node&, Node&) {}) == output.elements());
  CHECK(mask([](Pooled& p, Node& relu, Node&) { relu.inputs[1] = p.x; }) == input.elements());
  CHECK(mask([](Pooled&, Node&, Node& pool) {
          pool.attrs["dilations"] = Ints{2, 2};
          pool.attrs["pads"] = Ints{0, 0, 1, 1};
        }) == input.elements());
}

namespace {

// Runs conv or gemm and its Relu, fused or not. A value that is fetched must not be fused away.
struct Activated {
  Graph graph{scheduler_catalogue()};
  std::vector<ValueId> feeds;
  ValueId before = kNone, after = kNone;

  Activated(const std::string& op, const std::vector<Shape>& shapes, const Attrs& attrs) {
    GraphBuilder g(graph);
    for (const Shape& shape : shapes)
      feeds.push_back(g.input(cat("in", feeds.size()), DType::f32, shape));
    before = g.op(op, feeds, attrs);
    after = g.op("Relu", {before});
    must(g.status());
  }
  Tensor run(const std::vector<Tensor>& values, bool fused) const {
    CompileRequest request;
    request.borders.feeds = feeds;
    request.borders.fetches = {after};
    if (!fused) request.borders.fetches.push_back(before);
    request.devices = cpus(1);
    Plan plan = must(compile(graph, request));
    int64_t relus = 0;
    for (const PlanInstruction& i : plan.partitions[0].instructions)
      relus += i.op && i.op->full_name() == "Relu" ? 1 : 0;
    CHECK(relus == (fused ? 0 : 1));
    PlanRunner runner(std::move(plan), 1);
    for (uint32_t i = 0; i < values.size(); ++i) must(runner.feed(i, values[i]));
    must(runner.step_to(1));
    return runner.fetched(0, 0);
  }
};

}  // namespace

TEST_CASE("a Relu that moved into the op before it keeps NaN") {
  struct Case {
    std::string op;
    std::vector<Shape> shapes;  // the data, the weights, the bias
    Attrs attrs;
  };
  using Ints = std::vector<int64_t>;
  const Attrs pads = {{"pads", Ints{1, 1, 1, 1}}};
  const Case cases[] = {
      {"Gemm", {{33, 40}, {40, 24}, {24}}, {}},
      {"MatMul", {{33, 40}, {40, 24}}, {}},
      {"Conv", {{2, 16, 9, 8}, {32, 16, 3, 3}, {32}}, pads},
      {"Conv", {{2, 64, 14, 14}, {64, 64, 3, 3}, {64}}, pads},
      {"Conv", {{2, 3, 9, 8}, {16, 3, 3, 3}, {16}}, {}},
      {"Conv", {{2, 1, 9, 8}, {32, 1, 3, 3}, {32}}, {}},
      {"Conv", {{2, 16, 9, 8}, {16, 16, 1, 1}, {16}}, {}},
      {"Conv", {{2, 16, 9, 8}, {32, 16, 3, 3}, {32}}, {{"strides", Ints{2, 2}}}},
      {"Conv", {{2, 16, 9, 8}, {16, 1, 3, 3}, {16}}, {{"group", int64_t{16}}}},
      {"Conv", {{2, 5, 9, 8}, {7, 5, 3, 3}, {7}}, pads},
      {"Conv", {{2, 16, 9}, {16, 16, 3}, {16}}, {}},
  };
  for (const Case& c : cases) {
    const Activated net(c.op, c.shapes, c.attrs);
    for (size_t special = 0; special < c.shapes.size(); ++special) {
      INFO(c.op << " " << c.shapes[0].to_string() << " x " << c.shapes[1].to_string()
                << ", NaN in operand " << special);
      std::vector<Tensor> values;
      for (size_t i = 0; i < c.shapes.size(); ++i) {
        values.push_back(awkward(c.shapes[i], static_cast<uint32_t>(i + 1), false));
        if (i == special) values[i].set(1, std::nan(""));
      }
      const Tensor fused = net.run(values, true), apart = net.run(values, false);
      int64_t nans = 0, different = 0;
      for (int64_t i = 0; i < fused.elements(); ++i) {
        const bool nan = std::isnan(apart.at(i));
        nans += nan;
        different += nan != std::isnan(fused.at(i));
      }
      CHECK(nans > 0);
      CHECK(different == 0);
    }
  }
}

}  // namespace leat
