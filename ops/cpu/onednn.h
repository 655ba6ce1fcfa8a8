// The only interface to oneDNN (2.6). Every function runs on the calling thread alone: the
// library's own threading changes bits, and so does the creation of a primitive with several
// threads. Each entry therefore sets OpenMP's thread count of the calling thread to one (once per
// thread).
//
// Failure: statuses are checked, and no exception leaves this file. The library's reference
// implementations (1000x slower) are refused with unimplemented: the caller has its own kernel for
// these cases.
#pragma once

#include <cstdint>
#include <memory>

#include "devices/base/status.h"

namespace leat {

class ConvEngine;
struct ConvSpec;

namespace onednn {

// Row-major C[m,n] = alpha * op(A) * op(B), where op(A) is [m,k] and op(B) is [k,n].
struct Gemm {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1;
};
// Returns false if the library refuses, for instance if it may not allocate executable memory; C is
// undefined then. REQUIRES: m, n, k > 0.
bool sgemm(const Gemm& gemm, const float* a, const float* b, float* c);

// True if the library computes with AVX-512. ONEDNN_MAX_CPU_ISA=AVX2 in the environment keeps it
// from that, for tests.
bool has_avx512();

// A convolution of f32, always with the direct algorithm. Operands in another layout than the
// implementation's are reordered in the scratch memory of the tile. `like` (made by this function,
// or null) determines the format of the packed weights; it is read only during the call.
// unimplemented if the library refuses the spec or has only its reference implementation; internal
// for any other failure. The call compiles machine code and allocates: plans make engines when they
// are registered, never in a step.
Result<std::unique_ptr<ConvEngine>> make_conv(const ConvSpec& spec, const ConvEngine* like);

}  // namespace onednn
}  // namespace leat
