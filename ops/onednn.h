// The one place that knows oneDNN (2.6). Everything here runs on the calling thread alone: the
// library's own threading, and even a primitive's creation under several threads, changes bits, so
// each entry sets OpenMP's thread count of the calling thread to one (once per thread).
//
// Failure: statuses are checked and exceptions die here. Implementations that are the library's
// reference ones (1000x slower) are refused with unimplemented: the caller then has its own kernel.
#pragma once

#include <cstdint>

#include "devices/base/status.h"

namespace leat::onednn {

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

}  // namespace leat::onednn
