// cuDNN's own planner, asked without a GPU: it takes the description of one. It shows that our
// convolutions find an engine that we accept, and how much memory that wants; not what it computes.
#include <sanitizer/lsan_interface.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include "devices/base/text.h"
#include "ops/cuda/conv_call.h"
#include "ops/cuda/cudnn.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/cuda/shipped_models.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::ConvCall;
using cuda::ConvOp;
using cuda::ConvPlan;
using cuda::CudnnDescriptor;
using cuda::CudnnTarget;

// The call of a convolution's instruction, and its part of the op; nothing for other ops.
struct Planned {
  ConvCall call;
  ConvOp op = ConvOp::forward;
};
std::optional<Planned> convolution_of(const PlanInstruction& instruction, const OpTypes& types) {
  const std::string op = instruction.op->full_name();
  const auto planned = [&](MakeConvSpec make, ConvOp as) {
    return Planned{must(cuda::conv_call(types, make, instruction.name)), as};
  };
  if (op == "Conv") return planned(conv_spec, ConvOp::forward);
  if (op == "ConvTranspose") return planned(conv_transpose_spec, ConvOp::backward_data);
  if (op == "leat.ConvGradInput") return planned(conv_grad_input_spec, ConvOp::backward_data);
  if (op == "leat.ConvGradWeights")
    return planned(conv_grad_weights_spec, ConvOp::backward_weights);
  return {};
}

// Equal for convolutions that cuDNN sees as one.
std::string likeness_of(const Planned& planned, DType dtype) {
  const ConvCall& c = planned.call;
  std::string text = cat(static_cast<int>(planned.op), " ", dtype, " ", c.channels_last, " ",
                         c.images, " ", c.groups, " ", c.inputs, " ", c.outputs);
  const auto& w = c.window;
  for (const auto* list :
       {&w.input, &w.output, &w.kernel, &w.stride, &w.dilation, &w.begin, &w.end}) {
    for (const int64_t each : *list) text += cat(" ", each);
  }
  return text;
}

// Asks cuDNN for a plan of each distinct convolution.
class Planner {
 public:
  explicit Planner(const CudnnTarget& target) : target_(target) {}

  // All convolutions of a job's training step on a GPU. Returns how many there are.
  int plan(const Job& job) {
    int count = 0;
    for (const auto& part : must(testing::gpu_parts(testing::gpu_catalogue(), job))) {
      for (const PlanInstruction& instruction : part.partition->instructions) {
        if (instruction.kind != PlanInstruction::Kind::kernel) continue;
        const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
        const OpTypes types = part.partition->types_of(instruction, attrs);
        const auto planned = convolution_of(instruction, types);
        if (!planned) continue;
        ++count;
        INFO(instruction.name << ": " << likeness_of(*planned, types.inputs[0].dtype));
        ask(*planned, types.inputs[0].dtype);
      }
    }
    return count;
  }
  size_t asked() const { return asked_.size(); }
  // Whether some engine for TF32 wants another workspace than that for float32.
  bool tf32_differs() const { return tf32_differs_; }

 private:
  void ask(const Planned& planned, DType dtype) {
    if (!asked_.insert(likeness_of(planned, dtype)).second) return;
    const auto plan = ConvPlan::make(target_, planned.call, planned.op, {dtype, false});
    CHECK(plan != nullptr);
    if (dtype != DType::f32) return;
    INFO("in TF32");
    const auto in_tf32 = ConvPlan::make(target_, planned.call, planned.op, {dtype, true});
    CHECK(in_tf32 != nullptr);
    tf32_differs_ =
        tf32_differs_ || (plan && in_tf32 && plan->workspace_bytes() != in_tf32->workspace_bytes());
  }

  const CudnnTarget target_;
  std::set<std::string> asked_;
  bool tf32_differs_ = false;
};

}  // namespace

TEST_CASE("cuDNN has an engine for each convolution of the shipped models on an H200") {
  // The library frees little of what it allocates without a device.
  const __lsan::ScopedDisabler disabler;
  const auto loaded =
      cuda::load_cudnn_from({"/usr/local/cuda/lib/libcudnn.so.9",
                             "/usr/local/cuda/lib64/libcudnn.so.9", "libcudnn.so.9"});
  if (!loaded.ok()) {
    INFO(loaded.status().message());
    const char* wanted = std::getenv("LEAT_CUDA_TESTS");
    REQUIRE((wanted == nullptr || std::string(wanted) != "required"));
    std::cout << "skipped: " << loaded.status().message() << "\n";
    return;
  }
  std::ifstream file(LEAT_SOURCE_DIR "/tests/cuda/data/h200.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(!text.empty());
  CudnnDescriptor device(*loaded, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  REQUIRE(device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                     static_cast<int64_t>(text.size()), text.data()));
  REQUIRE(device.finalize());
  const CudnnTarget target{&*loaded, nullptr, device.get()};
  Planner planner(target);
  testing::ShippedModels models;
  std::set<std::string> with_convolutions;
  for (const std::string& name : testing::ShippedModels::names()) {
    for (const char* precision : {"float32", "bfloat16", "float16"}) {
      INFO(name << " " << precision);
      const auto job = models.job(name, {cat("precision=", precision)});
      REQUIRE(job.status().message() == "");
      if (planner.plan(*job) > 0) with_convolutions.insert(name);
    }
  }
  CHECK(with_convolutions == std::set<std::string>{"fashion_mnist_cnn", "fashion_mnist_cnn_bn",
                                                   "images_resnet18", "mobilenet_v2", "resnet50",
                                                   "shapes_unet", "text_classifier"});
  CHECK(planner.tf32_differs());
  std::cout << planner.asked() << " distinct convolutions\n";
}

}  // namespace leat
