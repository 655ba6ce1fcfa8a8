// AVX-512F code in a build for any x86-64. The functions that use these instructions carry
// LEAT_AVX512, and their caller checks has_avx512() first. If the compiler has no such
// instructions, LEAT_AVX512 is not defined; a file of such functions then returns that it cannot do
// the work.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false alarm: GCC bug 105593
#endif
#include <immintrin.h>

// A function that is not inlined takes no vectors as arguments: GCC would omit the vzeroupper at
// its end, and all later SSE code would be delayed (200 ns per call). Functions on vectors are
// therefore inlined.
#define LEAT_AVX512 __attribute__((target("avx512f")))
#define LEAT_AVX512_INLINE LEAT_AVX512 __attribute__((always_inline)) inline

namespace leat {

// True if this machine executes AVX-512F.
inline bool has_avx512() { return __builtin_cpu_supports("avx512f"); }

}  // namespace leat

#endif
