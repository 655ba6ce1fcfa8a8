// Attention and its gradient on CUDA in tiles of 64 queries or keys, by tensor cores: no matrix of
// all queries by all keys is in memory. For elements of 16 bits; sums are f32.
//
// The weights of a tile are computed again for the gradient, once for those of the keys and values
// and once for those of the queries, so that each sum has one owner and one order (Dao,
// "FlashAttention-2", 2023, adds the gradients of the queries atomically).
#pragma once

#include <cstddef>

#include "ops/cuda/attention.h"

namespace leat::cuda {

// True if the tiles can compute it on a GPU of that compute capability, 10 times the major number
// plus the minor one: they need 8.0, heads of a multiple of 8 columns, at most 128, and rows that
// begin at multiples of 16 bytes of the head's first row.
bool attention_tiles_fit(const AttentionCall& call, DType dtype, int capability);
// True if the operands begin at multiples of 16 bytes.
bool attention_tiles_take(const AttentionCall& call);

// Enqueues it. REQUIRES: both of the above.
cudaError_t launch_attention_tiles(const AttentionCall& call, DType dtype, cudaStream_t stream);
// The bytes of the device that the gradient needs.
size_t attention_tiles_workspace(const AttentionCall& call);
cudaError_t launch_attention_tiles_grad(const AttentionCall& call, DType dtype,
                                        std::byte* workspace, cudaStream_t stream);

}  // namespace leat::cuda
