#include "devices/cuda/complaint.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/index_places.cuh"
#include "ops/cuda/indexing.h"
#include "ops/cuda/warp_fold.cuh"
#include "ops/elements/any_float.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;
using elementwise::wrap_add;
using elementwise::wrap_mul;

template <typename T>
__device__ inline int64_t element_of(const void* data, int64_t i) {
  return static_cast<int64_t>(static_cast<const T*>(data)[i]);
}

// The place that index j names; -1 if it is out of range.
__device__ inline int64_t place_of(const OneHotCall& call, int64_t j) {
  int64_t given = 0;
  switch (call.index_dtype) {
    case DType::f32:
    case DType::f64:
    case DType::f16:
    case DType::bf16: {
      const double index = float_at(call.index, call.index_dtype, j);
      const double depth = static_cast<double>(call.depth);
      if (!(index >= -depth && index < depth)) return -1;
      given = static_cast<int64_t>(index);
      break;
    }
    case DType::i8:
      given = element_of<int8_t>(call.index, j);
      break;
    case DType::i16:
      given = element_of<int16_t>(call.index, j);
      break;
    case DType::i32:
      given = element_of<int32_t>(call.index, j);
      break;
    case DType::i64:
      given = element_of<int64_t>(call.index, j);
      break;
    case DType::u16:
      given = element_of<uint16_t>(call.index, j);
      break;
    case DType::u32:
      given = element_of<uint32_t>(call.index, j);
      break;
    case DType::u64: {
      const uint64_t index = static_cast<const uint64_t*>(call.index)[j];
      if (index >= static_cast<uint64_t>(call.depth)) return -1;
      given = static_cast<int64_t>(index);
      break;
    }
    default:  // u8 and bool
      given = element_of<uint8_t>(call.index, j);
      break;
  }
  if (given < -call.depth || given >= call.depth) return -1;
  return given < 0 ? given + call.depth : given;
}

template <typename T>
__global__ void one_hot(OneHotCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.outer * call.depth * call.inner) return;
  const int64_t line = i / call.inner, outer = line / call.depth;
  const int64_t j = outer * call.inner + i % call.inner;
  const bool on = place_of(call, j) == line - outer * call.depth;
  static_cast<T*>(call.y)[i] = static_cast<const T*>(call.values)[on ? 1 : 0];
}

// A line along the axis: place(n) is the index of its element n in the order of the fold.
struct CumLine {
  int64_t first = 0, size = 0, inner = 1;
  bool reverse = false;
  __device__ int64_t place(int64_t n) const { return first + (reverse ? size - 1 - n : n) * inner; }
};

// The line of this thread, of no elements if it has none: the host does not know how many lines
// there are, and the first threads have one each.
__device__ inline CumLine line_of(const CumSumCall& call) {
  const int64_t line = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t given = call.wide_axis ? *static_cast<const int64_t*>(call.axis)
                                       : *static_cast<const int32_t*>(call.axis);
  const int64_t axis = given < 0 ? given + call.rank : given;
  if (axis < 0 || axis >= call.rank) {
    if (line == 0) call.complaint->write(0, given);
    return {};
  }
  CumLine found;
  for (int64_t d = axis + 1; d < call.rank; ++d) found.inner *= call.sizes[d];
  const int64_t size = call.sizes[axis];
  if (line >= call.elements / size) return {};
  found.size = size;
  found.first = line / found.inner * size * found.inner + line % found.inner;
  found.reverse = call.reverse;
  return found;
}

template <typename T, bool multiplies>
__global__ void cumulative(CumSumCall call) {
  const CumLine line = line_of(call);
  using C = decltype(load(T{}));
  auto fold = static_cast<C>(multiplies ? 1 : 0);
  for (int64_t n = 0; n < line.size; ++n) {
    const int64_t i = line.place(n);
    const C x = load(static_cast<const T*>(call.x)[i]);
    if (call.exclusive) static_cast<T*>(call.y)[i] = store<T>(fold);
    fold = multiplies ? wrap_mul(fold, x) : wrap_add(fold, x);
    if (!call.exclusive) static_cast<T*>(call.y)[i] = store<T>(fold);
  }
}

// As cum_prod_gradient_of_line() of the CPU: from the end, the sum of the results behind an
// element, and then from the beginning, the product before it.
template <typename T>
__global__ void cum_prod_grad(CumSumCall call, const T* dy, decltype(load(T{}))* sums) {
  const CumLine line = line_of(call);
  using C = decltype(load(T{}));
  const auto* x = static_cast<const T*>(call.x);
  C sum = 0;
  for (int64_t n = line.size; n-- > 0;) {
    const int64_t i = line.place(n);
    if (!call.exclusive) sum += load(dy[i]);
    sums[i] = sum;
    sum *= load(x[i]);
    if (call.exclusive) sum += load(dy[i]);
  }
  C before = 1;
  for (int64_t n = 0; n < line.size; ++n) {
    const int64_t i = line.place(n);
    static_cast<T*>(call.y)[i] = store<T>(sums[i] * before);
    before *= load(x[i]);
  }
}

// The number of the new element that belongs to `place` of a sequence: negative if the cache keeps
// its own there, which it does everywhere if the index is out of range.
__device__ inline int64_t new_element(const CacheCall& call, int64_t sequence, int64_t place) {
  const int64_t at = sequence / call.in_batch;
  const int64_t first = call.indices ? call.indices[at] : 0;
  if (!call.circular && (first < 0 || first > call.size - call.news)) {
    call.complaint->write(at, first);
    return -1;
  }
  const int64_t begin = (first % call.size + call.size) % call.size;
  const int64_t n = place < begin ? place - begin + call.size : place - begin;
  return n < call.news ? n : -1;
}

template <typename T>
__global__ void cache_update(CacheCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.sequences * call.size * call.line) return;
  const int64_t element = i / call.line, sequence = element / call.size;
  const int64_t n = new_element(call, sequence, element - sequence * call.size);
  static_cast<T*>(call.y)[i] =
      n < 0 ? static_cast<const T*>(call.cache)[i]
            : static_cast<const T*>(
                  call.update)[(sequence * call.news + n) * call.line + i % call.line];
}

// y may have the place of the gradient that it is made from: each thread reads its element first.
template <typename T>
__global__ void cache_update_grad(CacheCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.sequences * call.size * call.line) return;
  const int64_t element = i / call.line, sequence = element / call.size;
  const int64_t n = new_element(call, sequence, element - sequence * call.size);
  const T dy = static_cast<const T*>(call.cache)[i];
  if (n >= 0) {
    static_cast<T*>(call.update_grad)[(sequence * call.news + n) * call.line + i % call.line] = dy;
  }
  static_cast<T*>(call.y)[i] = n < 0 ? dy : T{0};
}

// As comes_before() of the CPU's TopK.
template <typename T>
__device__ inline bool comes_before(const TopKCall& call, const T* x, int64_t a, int64_t b) {
  const auto left = load(x[a * call.inner]), right = load(x[b * call.inner]);
  const bool left_nan = left != left, right_nan = right != right;
  if (left_nan || right_nan) {
    if (left_nan && right_nan) return a < b;
    return left_nan == call.largest;
  }
  if (left == right) return a < b;
  return call.largest ? left > right : left < right;
}

// One warp for each line: k times the first of the places behind the last one that was found.
template <typename T>
__global__ void top_k(TopKCall call) {
  const int64_t line = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (line >= call.outer * call.inner) return;
  const int64_t lane = threadIdx.x % kWarp, outer = line / call.inner, in = line % call.inner;
  const T* x = static_cast<const T*>(call.x) + outer * call.size * call.inner + in;
  int64_t last = -1;
  for (int64_t n = 0; n < call.k; ++n) {
    int64_t best = -1;
    for (int64_t place = lane; place < call.size; place += kWarp) {
      if (last >= 0 && !comes_before(call, x, last, place)) continue;
      if (best < 0 || comes_before(call, x, place, best)) best = place;
    }
    for (unsigned width = kWarp / 2; width > 0; width /= 2) {
      const int64_t other = __shfl_down_sync(kAllLanes, best, width);
      if (other >= 0 && (best < 0 || comes_before(call, x, other, best))) best = other;
    }
    last = __shfl_sync(kAllLanes, best, 0);
    if (lane != 0) continue;
    const int64_t to = (outer * call.k + n) * call.inner + in;
    if (call.values) static_cast<T*>(call.values)[to] = x[last * call.inner];
    if (call.places) call.places[to] = last;
  }
}

template <typename T>
__global__ void gather_nd(GatherNdCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.tuples * call.line) return;
  const int64_t line = line_of(call, i / call.line);
  if (line < 0) return;
  static_cast<T*>(call.y)[i] = static_cast<const T*>(call.x)[line * call.line + i % call.line];
}

// One thread for each element of dx. The elements that show it are a block of places, which is
// walked as an odometer.
template <typename T>
__global__ void pad_grad(PadGradCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  int64_t begin[kMostIndexAxes], end[kMostIndexAxes], at[kMostIndexAxes], left = i;
  bool shown = true;
  for (int d = call.rank - 1; d >= 0; --d) {
    const int64_t place = call.begins[d] + left % call.sizes[d];
    left /= call.sizes[d];
    begin[d] = at[d] = call.starts[place];
    end[d] = call.starts[place + 1];
    shown = shown && begin[d] < end[d];
  }
  T sum{};
  while (shown) {
    int64_t from = 0;
    for (int d = 0; d < call.rank; ++d) from += call.offsets[at[d]];
    sum = store<T>(wrap_add(load(sum), load(static_cast<const T*>(call.dy)[from])));
    int d = call.rank - 1;
    for (; d >= 0; --d) {
      if (++at[d] < end[d]) break;
      at[d] = begin[d];
    }
    shown = d >= 0;
  }
  static_cast<T*>(call.dx)[i] = sum;
}

// The dtypes of numbers: bool has no sums, and no order.
template <typename F>
cudaError_t dispatch_numbers(DType dtype, F f) {
  return dispatch_all(dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), bool>)
      return cudaErrorNotSupported;
    else
      return f(zero);
  });
}

}  // namespace

cudaError_t launch_one_hot(const OneHotCall& call, size_t element_bytes, cudaStream_t stream) {
  const int64_t elements = call.outer * call.depth * call.inner;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&one_hot<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_cum_sum(const CumSumCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_numbers(dtype, [&](auto zero) {
    return launch<&cumulative<decltype(zero), false>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_cum_prod(const CumSumCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_numbers(dtype, [&](auto zero) {
    return launch<&cumulative<decltype(zero), true>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_cum_prod_grad(const CumSumCall& call, const void* dy, void* sums, DType dtype,
                                 cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch<&cum_prod_grad<T>>(one_thread_each(call.elements), stream, call,
                                     static_cast<const T*>(dy),
                                     static_cast<decltype(load(T{}))*>(sums));
  });
}

cudaError_t launch_cache_update(const CacheCall& call, size_t element_bytes, cudaStream_t stream) {
  const int64_t elements = call.sequences * call.size * call.line;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&cache_update<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_cache_update_grad(const CacheCall& call, size_t element_bytes,
                                     cudaStream_t stream) {
  const int64_t elements = call.sequences * call.size * call.line;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&cache_update_grad<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_top_k(const TopKCall& call, DType dtype, cudaStream_t stream) {
  const int64_t lines = call.outer * call.inner;
  if (lines * call.k == 0) return cudaSuccess;
  return dispatch_numbers(dtype, [&](auto zero) {
    return launch<&top_k<decltype(zero)>>(one_warp_each(lines), stream, call);
  });
}

cudaError_t launch_gather_nd(const GatherNdCall& call, size_t element_bytes, cudaStream_t stream) {
  const int64_t elements = call.tuples * call.line;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&gather_nd<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_pad_grad(const PadGradCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_numbers(dtype, [&](auto zero) {
    return launch<&pad_grad<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

}  // namespace leat::cuda
