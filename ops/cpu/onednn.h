// The only interface to oneDNN (2.6). Every function runs on the calling thread alone: the
// library's own threading changes bits, and so does the creation of a primitive with several
// threads. Each entry therefore sets OpenMP's thread count of the calling thread to one (once per
// thread).
//
// Failure: statuses are checked, and no exception leaves this file. The library's reference
// implementations (1000x slower) are refused with unimplemented: the caller has its own kernel for
// these cases.
#pragma once

#include <cstddef>
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

// True if the library multiplies bf16 with tiles (AMX).
bool has_tiles();

// True if this processor multiplies bf16 faster than f32, and the library uses that: with tiles
// (AMX), or with AMD's AVX-512 BF16 (measured on its family 26 alone). Intel's without AMX takes
// twice as long as for f32, so callers convert the operands instead.
bool is_fast_in_bf16();

// The product of two bf16 matrices of fixed sizes on one thread, with sums and result in f32.
// Threads: any, each with its own scratch memory and C.
class Bf16Product {
 public:
  virtual ~Bf16Product() = default;
  // The size in bytes of op(B) in the library's own format; 0: run() takes B as it is.
  virtual size_t packed_bytes() const = 0;
  virtual size_t scratch_bytes() const = 0;  // of pack() and run(), aligned to 64
  // They return false if the library fails.
  virtual bool pack(const void* b, void* packed, std::byte* scratch) const = 0;
  virtual bool run(const void* a, const void* b, float* c, std::byte* scratch) const = 0;
};
// C = op(A) * op(B); gemm.alpha is ignored. unimplemented if the library refuses, or has only a
// slow implementation, as for a C whose rows are not adjacent (ldc > n). The call compiles machine
// code and allocates. It works on every processor with AVX-512, with or without is_fast_in_bf16().
// REQUIRES: m, n, k > 0.
Result<std::unique_ptr<Bf16Product>> make_bf16_product(const Gemm& gemm, bool packs);

// A convolution, always with the direct algorithm. If spec.dtype is bf16, then x, y and the weights
// that it reads are bf16; sums, biases and gradients of weights are f32. Operands in another layout
// than the implementation's are reordered in the scratch memory of the tile. `like` (made by this
// function, or null) determines the format of the packed weights; it is read only during the call.
// unimplemented if the library refuses the spec or has only its reference implementation; internal
// for any other failure. The call compiles machine code and allocates: plans make engines when they
// are registered, never in a step.
Result<std::unique_ptr<ConvEngine>> make_conv(const ConvSpec& spec, const ConvEngine* like);

}  // namespace onednn
}  // namespace leat
