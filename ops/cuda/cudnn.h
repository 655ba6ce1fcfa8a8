// cuDNN, NVIDIA's library for neural networks, where a machine has it: convolutions by its backend
// API.
//
// It is loaded when a device is opened and not linked, so that the plugin also works without it.
// Its version and the model of the GPU decide the bits of its results: both are in the description
// of the device.
#pragma once

#include <cudnn.h>

#include <memory>
#include <string>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/cuda/cuda_device.h"
#include "ops/cuda/conv.h"

namespace leat::cuda {

// The functions that Leat calls.
struct CudnnFunctions {
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};
// The functions of the library at the first of `paths` that can be loaded. unavailable if there is
// none, or one that lacks a function.
Result<CudnnFunctions> load_cudnn_from(const std::vector<std::string>& paths);
// Those of this machine's library. The tests have none.
Result<CudnnFunctions> load_cudnn();

// A descriptor of the backend. Its destructor destroys it.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnFunctions& functions, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;
  ~CudnnDescriptor();

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  // Sets an attribute to so many values. False if the library refuses, now or at an earlier call.
  bool set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  template <typename T>
  bool set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
           const T& value) {
    return set(attribute, type, 1, &value);
  }
  bool set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& value) {
    return set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
  }
  bool finalize();

 private:
  const CudnnFunctions* functions_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  bool ok_ = false;
};

// The device of a plan: a handle, or the description of a device that is not here
// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), whose plans cannot be executed.
struct CudnnTarget {
  const CudnnFunctions* functions = nullptr;
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
};

// The library on one device.
class Cudnn final : public CudaLibrary {
 public:
  // unavailable as above; internal_error if the library does not start.
  static Result<std::unique_ptr<Cudnn>> open(CudaDevice& device);
  // The device's; null if it has none.
  static const Cudnn* of(const Device& device);
  ~Cudnn() override;
  static constexpr std::string_view kName = "cuDNN";
  std::string_view name() const override { return kName; }
  std::string version() const override;
  CudnnTarget target() const { return {&functions_, handle_, nullptr}; }

 private:
  explicit Cudnn(const CudnnFunctions& functions) : functions_(functions) {}
  const CudnnFunctions functions_;
  cudnnHandle_t handle_ = nullptr;
};

enum class ConvOp : uint8_t { forward, backward_data, backward_weights };

// A convolution, without bias and activation, that the library has agreed to compute. The engine is
// the first of its heuristics' that gives equal bits each time, and neither rounds operands (f32
// stays f32, unless TF32 is allowed), nor adds up in less than f32, nor goes by way of a transform
// (FFT, Winograd), nor compiles at run time.
//
// Threads: enqueue() on the thread that enqueues the device's work.
class ConvPlan {
 public:
  struct Elements {
    DType dtype = DType::f32;
    bool tf32 = false;  // those of f32 may be rounded to TF32: KernelSetup::tf32
  };
  // Null if no engine fits. The functions, handle and device of `target` outlive the plan.
  static std::shared_ptr<ConvPlan> make(const CudnnTarget& target, const ConvCall& call, ConvOp op,
                                        const Elements& elements);

  // The bytes of the device that enqueue() needs.
  size_t workspace_bytes() const { return workspace_bytes_; }
  // True if the operands are as aligned as the engine needs.
  static bool takes(const ConvCall& call);
  cudaError_t enqueue(const ConvCall& call, void* workspace, cudaStream_t stream) const;

 private:
  explicit ConvPlan(const CudnnTarget& target) : target_(target) {}
  bool choose(const CudnnDescriptor& operation, const Elements& elements);
  bool accept(const CudnnDescriptor& config, const Elements& elements);

  const CudnnTarget target_;
  std::unique_ptr<CudnnDescriptor> plan_;
  size_t workspace_bytes_ = 0;
};

}  // namespace leat::cuda
