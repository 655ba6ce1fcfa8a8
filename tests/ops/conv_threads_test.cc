#include <atomic>
#include <thread>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

class NoFailure final : public StepContext {
 public:
  void fail(uint32_t, Status) override { failed = true; }
  std::atomic<bool> failed{false};
};

// Runs one op's kernel. `threads` threads claim the tiles of each phase.
std::vector<Tensor> run_on_threads(std::string_view name, const std::vector<Tensor>& inputs,
                                   const std::vector<Shape>& outputs, const Attrs& attrs,
                                   int threads) {
  const OpDef& op = *test_catalogue().find(name);
  const Attrs defaults = with_defaults(op, attrs);
  KernelSetup setup;
  setup.types.attrs = &defaults;
  setup.subject = std::string(name);
  std::vector<void*> in, out;
  std::vector<Tensor> results;
  for (const Tensor& t : inputs) {
    setup.types.inputs.push_back({t.dtype(), t.shape(), Layout::plain, ValueKind::tensor, true});
    in.push_back(t.raw());
  }
  for (const Shape& shape : outputs) {
    results.emplace_back(DType::f32, shape);
    setup.types.outputs.push_back({DType::f32, shape, Layout::plain, ValueKind::tensor, true});
    out.push_back(results.back().raw());
  }
  auto kernel = op.kernels.at("cpu")(setup);
  INFO(kernel.status());
  REQUIRE(kernel.ok());
  const Tensor workspace(DType::u8, {static_cast<int64_t>((*kernel)->workspace_bytes())});
  NoFailure step;
  for (int phase = 0; phase < (*kernel)->phases(); ++phase) {
    std::atomic<int> next{0};
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) {
      pool.emplace_back([&] {
        const Tensor scratch(DType::u8, {static_cast<int64_t>((*kernel)->scratch_bytes())});
        KernelContext context;
        context.inputs = in.data();
        context.outputs = out.data();
        context.workspace = static_cast<std::byte*>(workspace.raw());
        context.scratch = static_cast<std::byte*>(scratch.raw());
        context.step = &step;
        for (int tile = next++; tile < (*kernel)->tiles(phase); tile = next++) {
          (*kernel)->run(context, phase, tile);
        }
      });
    }
    for (std::thread& thread : pool) thread.join();
  }
  CHECK(!step.failed);
  return results;
}

}  // namespace

TEST_CASE("convolutions and products give the same bits on any number of threads") {
  const Tensor x = random_tensor(DType::f32, {19, 32, 10, 10}, 1),
               w = random_tensor(DType::f32, {64, 32, 3, 3}, 2);
  const Tensor dy = random_tensor(DType::f32, {19, 64, 8, 8}, 3);
  const Tensor a = random_tensor(DType::f32, {150, 200}, 4),
               b = random_tensor(DType::f32, {200, 700}, 5);
  const Attrs input{{"spatial", std::vector<int64_t>{10, 10}}},
      weights{{"kernel_shape", std::vector<int64_t>{3, 3}}};
  const auto all = [&](int threads) {
    std::vector<Tensor> results = run_on_threads("Conv", {x, w}, {dy.shape()}, {}, threads);
    for (const Tensor& t :
         run_on_threads("leat.ConvGradInput", {dy, w}, {x.shape()}, input, threads))
      results.push_back(t);
    for (const Tensor& t :
         run_on_threads("leat.ConvGradWeights", {x, dy}, {w.shape(), {64}}, weights, threads))
      results.push_back(t);
    for (const Tensor& t : run_on_threads("MatMul", {a, b}, {{150, 700}}, {}, threads))
      results.push_back(t);
    return results;
  };
  const auto expected = all(1);
  for (int threads : {2, 3, 8}) {
    const auto received = all(threads);
    for (size_t i = 0; i < expected.size(); ++i) check_identical(received[i], expected[i]);
  }
}

}  // namespace leat::testing
