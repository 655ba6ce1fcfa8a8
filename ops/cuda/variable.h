// Writes of variables on CUDA: copies, additions and the optimizers. Each takes a guard, the
// address of one float on the device or null: nothing is written if it is NaN.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/inline.h"
#include "ops/elements/optimizer_rules.h"

namespace leat::cuda {

struct Complaint;

// Many calls of one kind, in memory of the device. A block does a chunk of one of them, so that a
// long tensor is spread over many blocks.
struct CallChunk {
  uint32_t call = 0;
  uint32_t part = 0;  // the call's chunk
};
template <typename Call>
struct CallTable {
  const Call* calls = nullptr;
  int64_t call_count = 0;
  const CallChunk* chunks = nullptr;
  int64_t chunk_count = 0;
};
// The chunks of a call that has `length` of something, of which a chunk holds `per_chunk`.
inline int64_t chunks_of(int64_t length, int64_t per_chunk) {
  return (length + per_chunk - 1) / per_chunk;
}

struct AssignCall {
  static constexpr int64_t kChunkBytes = 32 << 10;
  void* variable = nullptr;
  const void* value = nullptr;
  int64_t bytes = 0;
  const float* guard = nullptr;
  int64_t chunks() const { return chunks_of(bytes, kChunkBytes); }
};
cudaError_t launch_assign(const AssignCall& call, cudaStream_t stream);
cudaError_t launch_assign_all(const CallTable<AssignCall>& table, cudaStream_t stream);
cudaError_t launch_assign_add(void* variable, const void* value, int64_t elements, DType dtype,
                              const float* guard, cudaStream_t stream);

// A row of leat.Commit: the values that a step fetched, as doubles. It is in memory of the host,
// which the device can write.
struct CommitRow {
  uint64_t step_and_one = 0;  // 0: the row is of no step
  LEAT_INLINE double* values() { return reinterpret_cast<double*>(this + 1); }
};
struct CommitCall {
  static constexpr int kMost = 64;
  const void* values[kMost] = {};
  DType dtypes[kMost] = {};  // f32 or f64
  int count = 0;
  uint64_t step = 0;
  CommitRow* row = nullptr;
};
cudaError_t launch_commit(const CommitCall& call, cudaStream_t stream);

enum class OptimizerKind : uint8_t { sgd, momentum, adam };

struct ApplyCall {
  static constexpr int64_t kChunkElements = 4 << 10;
  OptimizerKind kind = OptimizerKind::sgd;
  int64_t elements = 0;
  void *variable = nullptr, *first_slot = nullptr, *second_slot = nullptr;
  const void* gradient = nullptr;  // of the variable's dtype, or of 16 bits beside float
  const void* rate = nullptr;      // one element of the variable's dtype
  const int64_t* step = nullptr;   // of Adam: the steps before this one
  const float* guard = nullptr;
  double weight_decay = 0, momentum = 0;
  bool nesterov = false;
  AdamConstants adam;
  void* workspace = nullptr;       // kApplyWorkspace bytes
  Complaint* complaint = nullptr;  // of a step below 0
  int64_t chunks() const { return chunks_of(elements, kChunkElements); }
};
inline constexpr size_t kApplyWorkspace = sizeof(AdamRule<double>);
cudaError_t launch_apply(const ApplyCall& call, DType variable, DType gradient,
                         cudaStream_t stream);
// All calls are of one kind and have these dtypes. Their variables are updated by one kernel, with
// the bits of single calls; the rules of Adam are made by another one before.
cudaError_t launch_apply_all(const CallTable<ApplyCall>& table, OptimizerKind kind, DType variable,
                             DType gradient, cudaStream_t stream);

}  // namespace leat::cuda
