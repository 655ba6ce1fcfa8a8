// Every call that inference accepts can be trained. Calls of random shapes and their gradients are
// compiled and registered, and small ones also run and are compared with plain loops.
//
//   LEAT_DRAWN_CALLS=100000 scheduler_tests 'calls of drawn shapes*'
//   LEAT_DRAWN_FIRST: the seed of the first call (1)
#include "tests/scheduler/drawn_calls.h"

#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "scheduler/runtime/kernel_notes.h"
#include "tests/environment_number.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

constexpr double kMostProducts = 3e5;  // of a call that is run

// A call in a graph, and the gradients of sum(call(inputs) * dy).
struct TrainedCall {
  Graph graph{scheduler_catalogue()};
  Status inferred;  // if it is an error, nothing else is set
  Shape output;
  std::vector<ValueId> feeds, fetches;  // inputs and dy; y and the gradients

  explicit TrainedCall(const DrawnCall& call) {
    GraphBuilder g(graph);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      feeds.push_back(g.input(cat("in", i), call.dtype, call.inputs[i]));
    }
    ValueId y = g.op(call.op, feeds, call.attrs);
    if (call.relu) y = g.op("Relu", {y});
    inferred = g.status();
    if (!inferred.ok()) return;
    output = *graph.value(y).type.shape.concrete();
    const std::vector<ValueId> xs = feeds;
    feeds.push_back(g.input("dy", call.dtype, output));
    const ValueId loss = g.op("Mul", {y, feeds.back()});
    must(g.status());
    Inference inference(graph);
    must(inference.run());
    fetches = must(add_gradients(inference, loss, xs));
    fetches.insert(fetches.begin(), y);
  }

  Plan plan() const {
    CompileRequest request;
    request.borders = {feeds, fetches, {}};
    request.devices = cpus(1);
    return must(compile(graph, request));
  }
};

// Random numbers in [-1, 1), of which no two neighbours are equal.
Tensor drawn_tensor(const Shape& shape, uint64_t seed) {
  Tensor tensor(DType::f64, shape);
  std::mt19937_64 bits(seed);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<double>()[i] =
        static_cast<double>(static_cast<int64_t>(bits() % (1 << 22)) - (1 << 21)) / (1 << 21);
  }
  return tensor;
}

Tensor converted(const Tensor& from, DType dtype) {
  Tensor to(dtype, from.shape());
  for (int64_t i = 0; i < from.elements(); ++i) to.set(i, from.at(i));
  return to;
}

// Rounding changes a sum by the magnitude of its terms, and Winograd's algorithm by its
// neighbours'.
void check_sums(const Tensor& actual, const Sums& expected, const char* of) {
  const bool wide = actual.dtype() == DType::f64;
  double largest = 0;
  for (const double magnitude : expected.magnitude)
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  const bool narrow = actual.dtype() == DType::bf16;
  const double tolerance = (wide ? 1e-13 : narrow ? 0x1p-6 : 1e-5) * std::max(1.0, largest);
  REQUIRE(actual.elements() == static_cast<int64_t>(expected.sum.size()));
  for (int64_t i = 0; i < actual.elements(); ++i) {
    const double value = actual.at(i), sum = expected.sum[static_cast<size_t>(i)];
    if (value == sum || std::abs(value - sum) <= tolerance) continue;
    FAIL(of << ", element " << i << ": expected " << sum << ", received " << value);
  }
}

void check_run(const DrawnCall& call, const TrainedCall& trained, Program& program,
               cpu::CpuDevice& device, uint64_t seed) {
  std::vector<Tensor> inputs;
  const auto drawn = [&](const Shape& shape, uint64_t of) {
    Tensor tensor = drawn_tensor(shape, of);
    return call.dtype == DType::bf16 ? converted(converted(tensor, DType::bf16), DType::f64)
                                     : tensor;
  };
  for (const Shape& shape : call.inputs) inputs.push_back(drawn(shape, 10 * seed + inputs.size()));
  const Tensor dy = drawn(trained.output, 10 * seed + 9);
  Run run(program, device.pool(), {});
  for (uint32_t i = 0; i < trained.feeds.size(); ++i) {
    must(run.set_feed(i, converted(i < inputs.size() ? inputs[i] : dy, call.dtype)));
  }
  run.extend(1);
  Awaited awaited;
  REQUIRE(run.advance(awaited));
  must(run.status());
  Expected expected = compute_plainly(call, inputs, dy);
  if (call.relu) {  // near 0 rounding decides on the gradients, so they are not compared
    for (double& y : expected.y.sum) y = std::max(y, 0.0);
    return check_sums(run.fetched(0, 0), expected.y, "y");
  }
  check_sums(run.fetched(0, 0), expected.y, "y");
  static const char* const kNames[] = {"dx", "dw", "db"};
  for (uint32_t i = 0; i < inputs.size(); ++i)
    check_sums(run.fetched(i + 1, 0), expected.gradients[i], kNames[i]);
}

}  // namespace

TEST_CASE("calls of drawn shapes are registered and train") {
  const uint64_t first = environment_number("LEAT_DRAWN_FIRST", 1),
                 count = environment_number("LEAT_DRAWN_CALLS", 400);
  cpu::CpuDevice device(0, 1);
  uint64_t accepted = 0, ran = 0, slow = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const DrawnCall call = draw_call(seed);
    INFO("LEAT_DRAWN_FIRST=" << seed << ": " << text_of(call));
    const TrainedCall trained(call);
    if (!trained.inferred.ok()) {
      REQUIRE(trained.inferred.code() == Code::invalid_argument);
      continue;
    }
    ++accepted;
    const Plan plan = trained.plan();
    JobResources resources(device);
    const auto program = must(Program::create(plan, 0, device, resources, {}));
    if (call.dtype == DType::f32) slow += !must(kernel_notes(plan)).empty();
    if (products_of(call, trained.output) > kMostProducts) continue;
    check_run(call, trained, *program, device, seed);
    ++ran;
  }
  // Most random calls are valid, and a good part of them is small.
  CHECK(accepted >= count / 2);
  CHECK(ran >= count / 4);
  // Floats use plain loops only for geometries that oneDNN lacks: an output padding beyond the
  // stride.
  CHECK(slow <= count / 100);
  if (count > 1000)
    WARN(cat(count, " calls drawn, ", accepted, " registered, ", ran, " run, ", slow, " slow"));
}

}  // namespace leat
