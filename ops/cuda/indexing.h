// OneHot, CumSum, CumProd, TopK, GatherND, TensorScatter and the gradients of CumProd,
// TensorScatter and Pad on CUDA, with the CPU's bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

struct Complaint;

inline constexpr int kMostIndexAxes = 8;

// y[outer, depth, inner]: the on value where the index of [outer, inner] is the place along depth,
// else the off value. Negative indices count from the end; one out of range has no place.
struct OneHotCall {
  int64_t outer = 1, depth = 0, inner = 1;
  const void* index = nullptr;
  DType index_dtype = DType::i64;
  const void* values = nullptr;  // off and on
  void* y = nullptr;
};
cudaError_t launch_one_hot(const OneHotCall& call, size_t element_bytes, cudaStream_t stream);

// Sums or products along an axis that the device knows: a negative one counts from the end.
struct CumSumCall {
  int rank = 0;
  int64_t sizes[kMostIndexAxes] = {};
  int64_t elements = 0;
  const void* axis = nullptr;
  bool wide_axis = true;  // int64
  bool exclusive = false, reverse = false;
  const void* x = nullptr;
  void* y = nullptr;
  Complaint* complaint = nullptr;  // of an axis out of range
};
cudaError_t launch_cum_sum(const CumSumCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_cum_prod(const CumSumCall& call, DType dtype, cudaStream_t stream);
// y gets the gradient with regard to x, of floats. `sums` has room for as many elements in the type
// of the computation; it is y itself where that is y's type.
cudaError_t launch_cum_prod_grad(const CumSumCall& call, const void* dy, void* sums, DType dtype,
                                 cudaStream_t stream);

// The k first elements, by size, of each line of x [outer, size, inner]: a NaN counts as the
// largest number, and of equal elements the first place comes first.
struct TopKCall {
  int64_t outer = 1, size = 0, inner = 1, k = 0;
  bool largest = true;
  const void* x = nullptr;
  void* values = nullptr;     // or null
  int64_t* places = nullptr;  // or null
};
cudaError_t launch_top_k(const TopKCall& call, DType dtype, cudaStream_t stream);

// Lines of data [batches, sizes..., line]: each tuple of indices names one.
struct GatherNdCall {
  int64_t tuples = 0, tuples_of_batch = 1, line = 1;
  int length = 0;  // of a tuple
  int64_t sizes[kMostIndexAxes] = {};
  const int64_t* indices = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
  Complaint* complaint = nullptr;  // of an index out of range, with its place among all indices
};
cudaError_t launch_gather_nd(const GatherNdCall& call, size_t element_bytes, cudaStream_t stream);

// New elements of the sequences of a cache, from the place that an index names on.
struct CacheCall {
  int64_t sequences = 0, in_batch = 1, size = 0, news = 0, line = 0;
  bool circular = false;
  const int64_t* indices = nullptr;  // or null: 0 for all
  const void* cache = nullptr;       // or the gradient with regard to y
  const void* update = nullptr;
  void* y = nullptr;  // or the gradient with regard to the cache
  void* update_grad = nullptr;
  Complaint* complaint = nullptr;  // of an index out of range
};
cudaError_t launch_cache_update(const CacheCall& call, size_t element_bytes, cudaStream_t stream);
cudaError_t launch_cache_update_grad(const CacheCall& call, size_t element_bytes,
                                     cudaStream_t stream);

// dx[i] = the sum of dy over the elements that show element i, in their order. Along axis d, place
// p is shown by the offsets[starts[begins[d] + p]] to offsets[starts[begins[d] + p + 1]],
// exclusive.
struct PadGradCall {
  int rank = 0;
  int64_t sizes[kMostIndexAxes] = {};
  int64_t elements = 0;
  int64_t begins[kMostIndexAxes] = {};
  const int64_t *starts = nullptr, *offsets = nullptr;  // on the device
  const void* dy = nullptr;
  void* dx = nullptr;
};
cudaError_t launch_pad_grad(const PadGradCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
