// Gradients of ops at drawn shapes and attributes, against central differences in f64.
//
//   LEAT_DRAWN_GRADIENTS: calls of each op (6)
#include <algorithm>
#include <cmath>
#include <set>

#include "devices/base/text.h"
#include "ops/definitions/branches.h"
#include "ops/graph/gradients.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/text/composites.h"
#include "ops/text/parse.h"
#include "tests/environment_number.h"
#include "tests/scheduler/drawn_ops.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

// A call, and the sum z of its float outputs' elements times drawn weights.
class WeightedCall {
 public:
  explicit WeightedCall(const DrawnOp& op) : op_(op) {
    for (const DrawnInput& input : op.inputs) {
      if (input.value.valid() && !input.constant) feeds_.push_back(input.value.clone());
    }
    const Graph plain = parsed(graph_text(op));
    const auto outputs = must(interpret(plain, fed(plain), plain.outputs()));
    Draw draw(17);
    std::vector<std::string> weights, sums;
    std::string nodes;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o].dtype() != DType::f64) continue;
      Tensor weight(DType::f64, outputs[o].shape());
      for (int64_t i = 0; i < weight.elements(); ++i) weight.set(i, draw.real(-1, 1));
      feeds_.push_back(weight);
      const Shape& shape = weight.shape();
      weights.push_back(shape.rank() == 0 ? cat("double w", o)
                                          : cat("double[", join(shape, ","), "] w", o));
      sums.push_back(cat("s", o));
      nodes += cat("  p", o, " = Mul (y", o, ", w", o, ")\n  s", o,
                   " = ReduceSum <keepdims = 0> (p", o, ")\n");
    }
    nodes += cat("  z = Sum (", join(sums, ", "), ")\n");
    text_ = graph_text(op, join(weights, ", "), nodes, "z");
    forward_ = std::make_unique<Graph>(parsed(text_));
  }

  double loss() const {
    return must(interpret(*forward_, fed(*forward_), forward_->outputs()))[0].at(0);
  }
  // The place of operand `input` among the feeds.
  size_t feed_of(size_t input) const {
    size_t place = 0;
    for (size_t i = 0; i < input; ++i)
      place += op_.inputs[i].value.valid() && !op_.inputs[i].constant;
    return place;
  }
  Tensor& feed(size_t place) { return feeds_[place]; }
  std::vector<Tensor> gradients() const {
    Graph graph = must(parse_graph(text_, scheduler_catalogue(), "g"));
    Inference inference(graph);
    must(inference.run());
    std::vector<ValueId> xs;
    for (const size_t input : op_.gradient) xs.push_back(graph.inputs()[feed_of(input)]);
    const auto made = must(add_gradients(inference, graph.outputs()[0], xs));
    for (const ValueId gradient : made) REQUIRE(gradient != kNone);
    return must(interpret(graph, fed(graph), made));
  }

 private:
  static Graph parsed(const std::string& text) {
    Graph graph = must(parse_graph(text, scheduler_catalogue(), "g"));
    must(validate(graph));
    return graph;
  }
  std::map<ValueId, Tensor> fed(const Graph& graph) const {
    std::map<ValueId, Tensor> feeds;
    for (size_t i = 0; i < graph.inputs().size(); ++i) feeds[graph.inputs()[i]] = feeds_[i];
    return feeds;
  }

  const DrawnOp& op_;
  std::vector<Tensor> feeds_;
  std::string text_;
  std::unique_ptr<Graph> forward_;
};

// At most 16 elements of each operand.
void check_gradients_of(const DrawnOp& op) {
  WeightedCall call(op);
  const std::vector<Tensor> gradients = call.gradients();
  for (size_t k = 0; k < gradients.size(); ++k) {
    Tensor& x = call.feed(call.feed_of(op.gradient[k]));
    INFO("gradient of operand " << op.gradient[k]);
    REQUIRE(gradients[k].shape() == x.shape());
    REQUIRE(gradients[k].dtype() == DType::f64);
    const int64_t stride = 1 + x.elements() / 17;
    for (int64_t i = 0; i < x.elements(); i += stride) {
      constexpr double kStep = 4e-6;
      const double at = x.at(i);
      x.set(i, at + kStep);
      const double above = call.loss();
      x.set(i, at - kStep);
      const double numeric = (above - call.loss()) / (2 * kStep), computed = gradients[k].at(i);
      x.set(i, at);
      if (std::abs(computed - numeric) <= 2e-6 * std::max(1.0, std::abs(numeric))) continue;
      FAIL_CHECK("element " << i << ": differences give " << numeric << ", computed " << computed);
      return;
    }
  }
}

}  // namespace

TEST_CASE("gradients at drawn shapes agree with finite differences") {
  const uint64_t count = environment_number("LEAT_DRAWN_GRADIENTS", 6);
  const auto& families = drawn_families();
  for (size_t f = 0; f < families.size(); ++f) {
    if (!families[f].trains) continue;
    DYNAMIC_SECTION(f << " " << families[f].op) {
      for (uint64_t i = 0; i < count; ++i) {
        const DrawnOp op = draw_op(families[f], f * 1'000'000 + i, true);
        INFO("call " << i << ": " << text_of(op));
        REQUIRE(!op.gradient.empty());
        check_gradients_of(op);
      }
    }
  }
}

TEST_CASE("each of ONNX's ops with a gradient is drawn or checked elsewhere") {
  std::set<std::string> drawn{
      // drawn_calls_test.cc
      "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"};
  for (const DrawnFamily& family : drawn_families()) {
    if (family.trains) drawn.insert(family.op);
  }
  // By hand: in tests/ops/conformance_region_cases.cc, and dropout_test.cc, since it draws numbers.
  for (const char* op : {"RoiAlign", "MaxRoiPool", "Dropout"}) drawn.insert(op);
  for (const OpDef* op : scheduler_catalogue().all()) {
    if (!op->domain.empty() || !op->gradient) continue;
    INFO(op->name << " has a gradient, and tests/scheduler/drawn_*.cc draws no call of it");
    CHECK(drawn.count(op->name) == 1);
  }
}

}  // namespace leat
