// How many launches the updates of a step are. The emulated GPU counts kernels, those in graphs,
// too.
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::kTransformer;
using testing::PlainWay;

// The launches of a step, the same in each but the first ones.
uint64_t launches_of_step(const char* graph, const std::vector<std::string>& set) {
  const GpuJob gpu(graph);
  constexpr uint64_t kFirst = 3, kSteps = 2;
  std::vector<uint64_t> counted;
  for (const uint64_t steps : {kFirst, kFirst + kSteps}) {
    std::vector<std::string> all = set;
    all.push_back(cat("steps=", steps));
    must(gpu.train(gpu.small.with_endless_epoch(gpu.small.job(all)), cat("steps", steps)));
    counted.push_back(fake_cuda::counts().launches);
  }
  CHECK((counted[1] - counted[0]) % kSteps == 0);
  return (counted[1] - counted[0]) / kSteps;
}

// The launches that joining saves in a step, and those that are left.
struct Launches {
  uint64_t saved, left;
};
Launches joined_launches(const char* graph, const std::vector<std::string>& set) {
  const uint64_t joined = launches_of_step(graph, set);
  const PlainWay way("joined");
  return {launches_of_step(graph, set) - joined, joined};
}

const char* const kAdamW =
    "optimizer={name: adamw, learning_rate: 0.01, groups: [{match: '*/bias', weight_decay: 0, "
    "lr_scale: 2}]}";
const char* const kMomentum = "optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9}";

// ResNet-50 but for its widths and strides: 161 variables, and 106 running statistics.
std::string residual_network() {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
resnet (float[N,1,8,8] image) => (float[N,4] logits) {
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (image)
)";
  int made = 0;
  const auto conv = [&](const std::string& x, int filters, int kernel) {
    const std::string y = cat("v", ++made);
    text += cat("  ", y, "c = leat.Conv2D <filters = ", filters, ", kernel = ", kernel,
                ", use_bias = 0> (", x, ")\n  ", y, " = leat.BatchNorm (", y, "c)\n");
    return y;
  };
  const auto relu = [&](const std::string& x) {
    text += cat("  ", x, "r = Relu (", x, ")\n");
    return x + "r";
  };
  std::string x = relu(conv("p", 4, 3));
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const std::string y = conv(relu(conv(relu(conv(x, 2, 1)), 2, 3)), 4, 1);
      const std::string shortcut = block == 0 ? conv(x, 4, 1) : x;
      text += cat("  ", y, "s = Add (", y, ", ", shortcut, ")\n");
      x = relu(y + "s");
    }
  }
  return text + cat("  f = Flatten (", x, ")\n  logits = leat.Dense <units = 4> (f)\n}\n");
}

// As deep as GPT-2: 148 variables.
std::string gpt() {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
gpt (float[N,1,8,8] image) => (float[N,4] logits)
<int64[3] tokens = {0, 4, 16}>
{
  t = Reshape (image, tokens)
  x0 = leat.Dense <units = 8> (t)
)";
  for (int i = 0; i < 12; ++i) {
    const auto v = [i](const char* name) { return cat(name, i); };
    text += cat("  ", v("n"), " = leat.LayerNorm (", v("x"), ")\n");
    text += cat("  ", v("q"), " = leat.Dense <units = 8> (", v("n"), ")\n");
    text += cat("  ", v("k"), " = Transpose <perm = [0, 2, 1]> (", v("q"), ")\n");
    text += cat("  ", v("s"), " = MatMul (", v("q"), ", ", v("k"), ")\n");
    text += cat("  ", v("p"), " = Softmax <axis = -1> (", v("s"), ")\n");
    text += cat("  ", v("a"), " = MatMul (", v("p"), ", ", v("q"), ")\n");
    text += cat("  ", v("o"), " = leat.Dense <units = 8> (", v("a"), ")\n");
    text += cat("  ", v("r"), " = Add (", v("x"), ", ", v("o"), ")\n");
    text += cat("  ", v("m"), " = leat.LayerNorm (", v("r"), ")\n");
    text += cat("  ", v("h"), " = leat.Dense <units = 16> (", v("m"), ")\n");
    text += cat("  ", v("g"), " = Gelu (", v("h"), ")\n");
    text += cat("  ", v("e"), " = leat.Dense <units = 8> (", v("g"), ")\n");
    text += cat("  x", i + 1, " = Add (", v("r"), ", ", v("e"), ")\n");
  }
  return text + "  f = Flatten (x12)\n  logits = leat.Dense <units = 4> (f)\n}\n";
}

}  // namespace

// Adam has a launch for the rule of each variable beside its update.
TEST_CASE("the updates of a step are few launches") {
  constexpr uint64_t kVariables = 12;
  CHECK(joined_launches(kTransformer, {kMomentum}).saved == kVariables - 1);
  CHECK(joined_launches(kTransformer, {kAdamW}).saved == 2 * kVariables - 2);
}

TEST_CASE("the updates of a network like ResNet-50 are two launches, and of one like GPT-2, too") {
  const std::vector<std::string> little = {"global_batch_size=2", "shards=1"};
  std::vector<std::string> set = little;
  set.push_back(kMomentum);
  // One launch for the variables, and one for the running statistics.
  const Launches of_resnet = joined_launches(residual_network().c_str(), set);
  CHECK(of_resnet.saved == 161 - 1 + 106 - 1);
  set.back() = kAdamW;
  const Launches of_gpt = joined_launches(gpt().c_str(), set);
  CHECK(of_gpt.saved == 2 * (148 - 1));
  // docs/gpu.md has these numbers, and 855 and 586.
  CHECK(of_resnet.left == 590);
  CHECK(of_gpt.left == 292);
}

}  // namespace leat
