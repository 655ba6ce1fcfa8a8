// The architectures that this build's device code is for.
#pragma once

namespace leat::cuda {

// As runs_on() reads them (devices/base/cuda_architectures.h). A build without nvcc has the code of
// the emulated GPU, which is of compute capability 9.0.
#ifdef LEAT_CUDA_BUILT_FOR
inline constexpr const char* kBuiltFor = LEAT_CUDA_BUILT_FOR;
#else
inline constexpr const char* kBuiltFor = "90-real";
#endif

}  // namespace leat::cuda
