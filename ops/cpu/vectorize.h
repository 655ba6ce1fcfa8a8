// Hot loops that the compiler vectorizes, once for each instruction set of today's machines.
//
//   // The template has the loop, and the plain function in front of it has the clones.
//   template <typename T>
//   LEAT_INLINE void scale(const T* x, T factor, T* y, int64_t n) {
//     LEAT_NO_OVERLAP
//     for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
//   }
//   LEAT_VECTOR_CLONES void scale_f32(const float* x, float factor, float* y, int64_t n) {
//     scale(x, factor, y, n);
//   }
#pragma once

#include "devices/base/inline.h"

// A plain function (no template) with LEAT_VECTOR_CLONES in front is compiled for AVX-512, AVX2 and
// the baseline, and the loader picks one of them. Elementwise loops give equal bits in all of them,
// because contraction is off. LEAT_NO_OVERLAP marks a loop whose arrays are equal or disjoint.
// Sanitizers get the baseline alone: the loader's resolvers run before their runtimes are ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(LEAT_SANITIZED)
#define LEAT_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LEAT_VECTOR_CLONES
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define LEAT_NO_OVERLAP _Pragma("GCC ivdep")
#else
#define LEAT_NO_OVERLAP
#endif
