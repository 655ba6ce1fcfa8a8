// Random numbers and Dropout on CUDA, from the streams of devices/base/philox.h. Uniform numbers
// have the CPU's bits; normal ones follow the device's log and cos.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

struct Complaint;

// The key of a node's numbers in a step. The device reads the step itself, because the launch may
// be repeated in later steps.
struct KeyCall {
  const uint64_t *step = nullptr, *job_seed = nullptr;  // memory of the host
  uint64_t source = 0;
  bool has_seed = false;
  uint64_t seed = 0;        // in place of the job's
  uint32_t* key = nullptr;  // of 4 words, on the device
};
cudaError_t launch_key(const KeyCall& call, cudaStream_t stream);

struct RandomCall {
  const uint32_t* key = nullptr;  // of 4 words, on the device
  int64_t first_element = 0, elements = 0;
  void* y = nullptr;
  bool normal = false;
  double first = 0, second = 1;         // mean and scale, or low and high
  const void* probabilities = nullptr;  // of Bernoulli
  DType probability_dtype = DType::invalid;
};
cudaError_t launch_random(const RandomCall& call, DType dtype, cudaStream_t stream);

struct DropoutCall {
  const uint32_t* key = nullptr;
  int64_t first_element = 0, elements = 0;
  const void* x = nullptr;      // or dy
  void* y = nullptr;            // or dx
  bool* mask = nullptr;         // written by Dropout, unless it is null; read by the gradient
  const void* ratio = nullptr;  // one float; null: 0.5
  DType ratio_dtype = DType::invalid;
  const bool* training = nullptr;  // null: false
  Complaint* complaint = nullptr;  // of a ratio outside of [0, 1]
};
cudaError_t launch_dropout(const DropoutCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_dropout_grad(const DropoutCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
