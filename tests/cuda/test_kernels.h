// Kernels for the tests of the emulator itself: each has a fault, unless its name says otherwise.
#pragma once

#include <cuda_runtime_api.h>

namespace leat {

// y[i] = x[n - 1 - i] through shared memory, for one block of n threads; with or without the
// barrier between writing and reading it.
cudaError_t launch_turn(const float* x, float* y, int n, bool with_barrier, cudaStream_t stream);
// Each thread of one warp gets the sum of all 32 values.
cudaError_t launch_warp_sum(const float* x, float* y, cudaStream_t stream);
// Adds 1 to each of n elements.
cudaError_t launch_increment(float* x, int n, cudaStream_t stream);
// Writes the element behind the last of n.
cudaError_t launch_past_the_end(float* x, int n, cudaStream_t stream);
// A barrier that only even threads reach.
cudaError_t launch_half_a_barrier(float* x, cudaStream_t stream);
// A shuffle whose mask names lanes that have left.
cudaError_t launch_wrong_mask(float* x, cudaStream_t stream);
// Adds n elements, a multiple of 32, to *sum by atomics, in the order in which the threads run.
cudaError_t launch_sum_by_atomics(const float* x, float* sum, int n, cudaStream_t stream);
// Writes the element behind the last of n in dynamic shared memory.
cudaError_t launch_past_shared(float* x, int n, cudaStream_t stream);
// Writes element n of a shared array of 32.
cudaError_t launch_past_static_shared(float* x, int n, cudaStream_t stream);
// Gives 32 elements what lies in shared memory that nothing has written.
cudaError_t launch_unset_shared(float* x, cudaStream_t stream);
// Right: of 64 elements, each but the last of 16 gets the next one.
cudaError_t launch_half_warp_moves(float* x, cudaStream_t stream);
// Right: each thread writes its number in the grid.
cudaError_t launch_places(int* x, dim3 grid, dim3 block, cudaStream_t stream);

}  // namespace leat
