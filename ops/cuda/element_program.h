// leat.Elementwise on CUDA: kernels of programs that are frequent, and one that walks any program,
// which is an argument of the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "devices/base/dtype.h"
#include "ops/elements/element_steps.h"

namespace leat::cuda {

// The place of a step's operand. A result of the step before is in registers.
enum class From : uint8_t { nowhere, input, before, kept };
struct Source {
  From from = From::nowhere;
  uint8_t index = 0;  // of the input, or of what is kept
};

struct ProgramCall {
  static constexpr int kMostInputs = 8, kMostSteps = 16, kMostResults = 4;
  static constexpr int kMostKept = 6;  // results that later steps than the next one need
  struct Input {
    const void* data = nullptr;
    DType dtype = DType::f32;
    int64_t divisor = 1, size = 1;  // element i is at i / divisor % size
  };
  struct Step {
    elementwise::StepOp op = elementwise::StepOp::convert;
    Source a, b;
    int8_t a_number = 0, b_number = -1;  // as the program numbers values
    DType dtype = DType::f32;
    int8_t kept = -1;    // the place where its result is kept; -1: none
    int8_t result = -1;  // the output that it is; -1: none
    double params[2] = {};
  };
  int64_t elements = 0;
  int inputs = 0, steps = 0, results = 0;
  Input input[kMostInputs];
  Step step[kMostSteps];
  void* output[kMostResults] = {};
};

cudaError_t launch_program(const ProgramCall& call, cudaStream_t stream);

}  // namespace leat::cuda
