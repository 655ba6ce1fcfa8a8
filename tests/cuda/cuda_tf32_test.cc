// matmul_precision: tf32, which lets a GPU round the factors of products of float32.
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::kMlp;
using testing::kTransformer;

using Floats = std::vector<float>;

constexpr auto kTf32Deadline = std::chrono::seconds(60);
constexpr int64_t kRows = 5, kDepth = 37, kColumns = 6;

// Numbers of which TF32 does not have most.
Floats drawn(int64_t count, float first) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(first + static_cast<float>(i)));
  return values;
}

// By the definition: 10 bits behind the leading one, halves away from zero.
float rounded(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11));
}

// The product of A and B by rows, from sums in double, with `factor` of each element.
template <typename F>
Floats product_of(const Floats& a, const Floats& b, F factor) {
  Floats y;
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < kDepth; ++l) {
        sum += static_cast<double>(factor(a[static_cast<size_t>(i * kDepth + l)])) *
               static_cast<double>(factor(b[static_cast<size_t>(l * kColumns + j)]));
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

// Memory of the device with a copy of the values.
std::unique_ptr<Buffer> given(Device& device, const Floats& values) {
  const size_t bytes = values.size() * sizeof(float);
  auto staging = must(device.allocate_host(bytes));
  auto buffer = must(device.allocate(bytes));
  std::memcpy(staging->data(), values.data(), bytes);
  device.copy_to_device(buffer->data(), staging->data(), bytes);
  must(device.queue(QueueFor::copies_in).settle(std::chrono::steady_clock::now() + kTf32Deadline));
  return buffer;
}

// MatMul's kernel on the GPU.
Floats multiply(const Floats& a, const Floats& b, bool tf32) {
  testing::prepare_gpu(0);
  const auto device = must(testing::open_gpu());
  const OpDef* op = testing::gpu_catalogue().find("MatMul");
  REQUIRE(op);
  const Attrs attrs = with_defaults(*op, {});
  Node node;
  node.op = op;
  KernelSetup setup;
  const auto type = [](int64_t rows, int64_t columns) {
    return OperandType{DType::f32, Shape{rows, columns}, Layout::plain, ValueKind::tensor, true};
  };
  setup.types.inputs = {type(kRows, kDepth), type(kDepth, kColumns)};
  setup.types.outputs = {type(kRows, kColumns)};
  setup.types.attrs = &attrs;
  setup.node = &node;
  setup.tf32 = tf32;
  setup.device = device.get();
  setup.subject = "MatMul";
  const auto kernel = must(op->kernels.at("cuda")(setup));
  const auto on_a = given(*device, a), on_b = given(*device, b);
  const auto on_y = given(*device, Floats(static_cast<size_t>(kRows * kColumns)));
  const auto workspace = must(device->allocate(kernel->workspace_bytes()));
  void* const inputs[] = {on_a->data(), on_b->data()};
  void* const outputs[] = {on_y->data()};
  KernelContext context;
  context.inputs = inputs;
  context.outputs = outputs;
  context.workspace = static_cast<std::byte*>(workspace->data());
  context.queue = &device->queue();
  REQUIRE(kernel->run(context, 0, 0) == Progress::pending);
  must(device->queue().settle(std::chrono::steady_clock::now() + kTf32Deadline));
  const size_t bytes = on_y->size();
  const auto staging = must(device->allocate_host(bytes));
  device->copy_to_host(staging->data(), on_y->data(), bytes);
  must(
      device->queue(QueueFor::copies_out).settle(std::chrono::steady_clock::now() + kTf32Deadline));
  const auto* begin = static_cast<const float*>(staging->data());
  return {begin, begin + bytes / sizeof(float)};
}

}  // namespace

TEST_CASE("a product that may use TF32 rounds its factors to 10 bits, and no other one does") {
  const Floats a = drawn(kRows * kDepth, 1), b = drawn(kDepth * kColumns, 2);
  const Floats whole = multiply(a, b, false), in_tf32 = multiply(a, b, true);
  CHECK(whole == product_of(a, b, [](float x) { return x; }));
  CHECK(in_tf32 == product_of(a, b, rounded));
  CHECK(in_tf32 != whole);
}

TEST_CASE("matmul_precision: tf32 changes the weights on GPUs, to the same on any workers") {
  const char* const graph = GENERATE(kMlp, kTransformer);
  GpuJob gpu(graph);
  const auto weights = [&](const char* folder, std::vector<std::string> set) {
    set.push_back("steps=6");
    return must(gpu.train(gpu.small.job(set), folder)).outcome.weights_sha256;
  };
  const std::string in_float32 = weights("float32", {});
  CHECK(weights("named", {"matmul_precision=float32"}) == in_float32);
  const std::string in_tf32 = weights("tf32", {"matmul_precision=tf32"});
  CHECK(in_tf32 != in_float32);
  CHECK(weights("two", {"matmul_precision=tf32", "num_workers=2"}) == in_tf32);
}

}  // namespace leat
