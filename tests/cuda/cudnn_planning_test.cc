// cuDNN's own planner, asked without a GPU: it takes the description of one. It shows that our
// convolutions find an engine that we accept, and how much memory that wants; not what it computes.
#include <sanitizer/lsan_interface.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "devices/base/text.h"
#include "ops/cuda/cudnn.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::ConvCall;
using cuda::ConvOp;
using cuda::ConvPlan;
using cuda::CudnnDescriptor;
using cuda::CudnnTarget;

struct Layer {
  const char* model;
  int64_t images, inputs, outputs, size, kernel, stride, groups = 1;
};
// Of the shipped CNN, and of ResNet-50 and MobileNet-V2.
constexpr Layer kLayers[] = {{"cnn c1", 128, 1, 32, 28, 3, 1},
                             {"cnn c2", 128, 32, 64, 14, 3, 1},
                             {"resnet50 first", 64, 3, 64, 224, 7, 2},
                             {"resnet50 3x3", 64, 64, 64, 56, 3, 1},
                             {"resnet50 1x1", 64, 64, 256, 56, 1, 1},
                             {"resnet50 3x3 /2", 64, 128, 128, 56, 3, 2},
                             {"resnet50 1x1 /2", 64, 256, 512, 56, 1, 2},
                             {"resnet50 last", 64, 512, 2048, 7, 1, 1},
                             {"mobilenet depthwise", 64, 96, 96, 112, 3, 2, 96}};

ConvCall call_of(const Layer& layer) {
  ConvCall call;
  call.images = layer.images;
  call.inputs = layer.inputs;
  call.outputs = layer.outputs;
  call.groups = layer.groups;
  for (int axis = 1; axis < 3; ++axis) {
    call.window.input[axis] = layer.size;
    call.window.kernel[axis] = layer.kernel;
    call.window.stride[axis] = layer.stride;
    call.window.begin[axis] = call.window.end[axis] = layer.kernel / 2;
    call.window.output[axis] =
        (layer.size + layer.kernel / 2 * 2 - layer.kernel) / layer.stride + 1;
  }
  return call;
}

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
  bool differs = false;  // an engine for TF32 from that for float32
  for (const Layer& layer : kLayers) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_weights}) {
        INFO(layer.model << " " << dtype_name(dtype) << " " << static_cast<int>(op));
        ConvCall call = call_of(layer);
        const auto plan = ConvPlan::make(target, call, op, {dtype, false});
        CHECK(plan != nullptr);
        if (dtype == DType::f32) {
          INFO("in TF32");
          const auto in_tf32 = ConvPlan::make(target, call, op, {dtype, true});
          CHECK(in_tf32 != nullptr);
          differs =
              differs || (plan && in_tf32 && plan->workspace_bytes() != in_tf32->workspace_bytes());
          continue;
        }
        call.channels_last = true;
        INFO("with the channels last");
        CHECK(ConvPlan::make(target, call, op, {dtype, false}) != nullptr);
      }
    }
  }
  CHECK(differs);
}

}  // namespace leat
