// LEAT_INLINE marks a small function that is inlined into every caller: loops that are compiled for
// several instruction sets need that, and so do the kernels of a GPU. For CUDA's compiler, the
// function is for host and device alike.
#pragma once

#ifdef __CUDACC__
#define LEAT_INLINE __host__ __device__ inline __attribute__((always_inline))
#else
#define LEAT_INLINE inline __attribute__((always_inline))
#endif
