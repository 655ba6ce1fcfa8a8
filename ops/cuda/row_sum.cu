#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/index_places.cuh"
#include "ops/cuda/row_sum.h"
#include "ops/cuda/sorting.h"
#include "ops/elements/tree_sum.h"

namespace leat::cuda {
namespace {

__global__ void list_rows(Sorting sorting, GatherCall places) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= sorting.count) return;
  const int64_t row = i < places.indices ? index_at(places, i) : -1;
  sorting.keys[i] = row < 0 ? kNowhere : row;
  sorting.updates[i] = i;
}

// Rounds after each addition.
struct RoundedSum {
  template <typename T>
  __device__ static void into(T& a, const T& b) {
    a = store_from_compute<T>(load_as_compute(a) + load_as_compute(b));
  }
};

__device__ inline int64_t part_of(const RowSumCall& call, int64_t line_of_shard) {
  int64_t part = 0;
  while (part + 1 < call.parts && line_of_shard >= call.part_ends[part]) ++part;
  return part;
}

// One thread for each column of each line: that of a row's first line does all of them. A part and
// a shard begin with zero, so that no sum is -0, and a shard without lines changes no bit.
template <typename T>
__global__ void sum_rows(RowSumCall call, Sorting sorting) {
  const GatherCall& places = call.places;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= places.indices * places.inner) return;
  const int64_t first = i / places.inner, column = i % places.inner, row = sorting.keys[first];
  if (row == kNowhere || (first > 0 && sorting.keys[first - 1] == row)) return;
  const int64_t each = places.indices / call.shards;
  const T* lines = static_cast<const T*>(places.in) + column;
  int64_t at = first;
  const auto is_of_row = [&] { return at < places.indices && sorting.keys[at] == row; };
  T memory[64];
  TreeStack<RoundedSum, T> shards(memory, 1);
  for (int64_t shard = 0; shard < call.shards; ++shard) {
    T of_shard{};
    bool is_first = true;
    while (is_of_row() && sorting.updates[at] / each == shard) {
      const int64_t part = part_of(call, sorting.updates[at] % each);
      T of_part{};
      for (; is_of_row() && sorting.updates[at] / each == shard &&
             part_of(call, sorting.updates[at] % each) == part;
           ++at)
        RoundedSum::into(of_part, lines[sorting.updates[at] * places.inner]);
      if (is_first)
        of_shard = of_part;
      else
        RoundedSum::into(of_shard, of_part);
      is_first = false;
    }
    *shards.top() = of_shard;
    shards.push();
  }
  static_cast<T*>(places.out)[row * places.inner + column] = *shards.finish();
}

}  // namespace

cudaError_t launch_row_sum(const RowSumCall& call, DType dtype, cudaStream_t stream) {
  const GatherCall& places = call.places;
  const size_t bytes = static_cast<size_t>(places.size * places.inner) * dtype_size(dtype);
  cudaError_t error = cudaSuccess;
  if (bytes > 0) error = cudaMemsetAsync(places.out, 0, bytes, stream);
  if (error != cudaSuccess || places.indices * places.inner == 0) return error;
  const Sorting sorting = sorting_within(places.workspace, places.indices);
  error = launch<&list_rows>(one_thread_each(sorting.count), stream, sorting, places);
  if (error == cudaSuccess) error = launch_sort(sorting, stream);
  if (error != cudaSuccess) return error;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&sum_rows<decltype(zero)>>(one_thread_each(places.indices * places.inner), stream,
                                             call, sorting);
  });
}

}  // namespace leat::cuda
