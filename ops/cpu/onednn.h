// The one place that knows oneDNN (2.6). Everything here runs on the calling thread alone: the
// library's own threading, and even a primitive's creation under several threads, changes bits, so
// each entry sets OpenMP's thread count of the calling thread to one (once per thread).
//
// Failure: statuses are checked and exceptions die here. Implementations that are the library's
// reference ones (1000x slower) are refused with unimplemented: the caller then has its own kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "devices/base/status.h"

namespace leat {

class ConvEngine;
struct ConvSpec;

namespace onednn {

// Row-major C[m,n] = alpha * op(A) * op(B), op(A) being [m,k] and op(B) [k,n].
struct Gemm {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1;
};
// False if the library refuses, for instance when it may not make executable memory; C is then
// undefined. REQUIRES: m, n, k > 0.
bool sgemm(const Gemm& gemm, const float* a, const float* b, float* c);

// A convolution of f32, always by the direct algorithm. Operands in another layout than the
// implementation's are reordered in the scratch memory of the tile. `like` (made here, or null)
// decides the format of the packed weights.
Result<std::unique_ptr<ConvEngine>> make_conv(const ConvSpec& spec, const ConvEngine* like);

}  // namespace onednn
}  // namespace leat
