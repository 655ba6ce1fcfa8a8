#include <algorithm>
#include <cmath>

#include "devices/cuda/complaint.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/variable.h"
#include "ops/cuda/vector.cuh"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;
using elementwise::wrap_add;

// Blocks of kBlockThreads threads. REQUIRES: 1 <= n < 2^31.
LaunchShape one_block_each(int64_t n) {
  return {dim3(static_cast<unsigned>(n)), dim3(kBlockThreads)};
}

__device__ inline bool forbidden(const float* guard) { return guard && *guard != *guard; }

// Copies words of 8 bytes, and the bytes behind the last one, from place `begin` to before `end`: a
// place is a word or such a byte.
__device__ inline void copy_words(const AssignCall& call, int64_t begin, int64_t end,
                                  int64_t stride) {
  const int64_t words = call.bytes / 8, places = words + call.bytes % 8;
  const auto* from = static_cast<const uint8_t*>(call.value);
  auto* to = static_cast<uint8_t*>(call.variable);
  for (int64_t i = begin; i < end && i < places; i += stride) {
    if (i < words) {
      reinterpret_cast<uint64_t*>(to)[i] = reinterpret_cast<const uint64_t*>(from)[i];
    } else {
      const int64_t at = words * 8 + (i - words);
      to[at] = from[at];
    }
  }
}
__global__ void assign(AssignCall call) {
  if (forbidden(call.guard)) return;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  copy_words(call, i, i + 1, 1);
}
__global__ void assign_all(const AssignCall* calls, const CallChunk* chunks) {
  const CallChunk chunk = chunks[blockIdx.x];
  const AssignCall call = calls[chunk.call];
  if (forbidden(call.guard)) return;
  constexpr int64_t kWords = AssignCall::kChunkBytes / 8;
  const int64_t begin = chunk.part * kWords;
  // The bytes behind the last word belong to the last chunk.
  const bool last = (begin + kWords) * 8 >= call.bytes;
  copy_words(call, begin + threadIdx.x, last ? call.bytes : begin + kWords, blockDim.x);
}

template <typename T>
__global__ void assign_add(T* to, const T* from, int64_t elements, const float* guard) {
  if (forbidden(guard)) return;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < elements) to[i] = store<T>(wrap_add(load(to[i]), load(from[i])));
}

// One block with a thread for each value.
__global__ void commit(CommitCall call) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i < call.count) {
    call.row->values()[i] = call.dtypes[i] == DType::f64
                                ? *static_cast<const double*>(call.values[i])
                                : *static_cast<const float*>(call.values[i]);
  }
  if (i == 0) call.row->step_and_one = call.step + 1;
}

// The rule of this step, which needs powers in double. One thread makes it.
template <typename T>
__device__ inline void make_adam_rule(const ApplyCall& call) {
  using C = Arithmetic<T>;
  if (*call.step < 0) call.complaint->write(0, *call.step);
  *static_cast<AdamRule<C>*>(call.workspace) =
      AdamRule<C>::of(call.adam, static_cast<double>(load(*static_cast<const T*>(call.rate))),
                      static_cast<double>(*call.step) + 1);
}
template <typename T>
__global__ void adam_rule(ApplyCall call) {
  make_adam_rule<T>(call);
}
template <typename T>
__global__ void adam_rules(const ApplyCall* calls, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) make_adam_rule<T>(calls[i]);
}

// Elements first, first + stride and so on below `end`, each with its n - 1 next ones.
struct Span {
  int64_t first, end, stride;
};

// p = step(p, u, v, g) for each of these elements, which may change u and v, the elements of the
// slots that there are.
template <typename T, typename G, int n, int slots, typename Step>
__device__ inline void update_each(const ApplyCall& call, const Span& span, Step step) {
  using C = Arithmetic<T>;
  for (int64_t i = span.first; i < span.end; i += span.stride) {
    T* variable = static_cast<T*>(call.variable) + i;
    T* first = static_cast<T*>(call.first_slot) + i;
    T* second = static_cast<T*>(call.second_slot) + i;
    Vector<T, n> p = load_vector<T, n>(variable), u, v;
    const Vector<G, n> g = load_vector<G, n>(static_cast<const G*>(call.gradient) + i);
    if constexpr (slots > 0) u = load_vector<T, n>(first);
    if constexpr (slots > 1) v = load_vector<T, n>(second);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      C of_first{}, of_second{};
      if constexpr (slots > 0) of_first = load(u.of[j]);
      if constexpr (slots > 1) of_second = load(v.of[j]);
      p.of[j] = store<T>(step(load(p.of[j]), of_first, of_second, load(g.of[j])));
      if constexpr (slots > 0) u.of[j] = store<T>(of_first);
      if constexpr (slots > 1) v.of[j] = store<T>(of_second);
    }
    if constexpr (slots > 0) store_vector(first, u);
    if constexpr (slots > 1) store_vector(second, v);
    store_vector(variable, p);
  }
}

template <typename T, typename G, int n>
__device__ inline void update(const ApplyCall& call, const Span& span) {
  using C = Arithmetic<T>;
  const auto decay = static_cast<C>(call.weight_decay);
  switch (call.kind) {
    case OptimizerKind::sgd: {
      const SgdRule<C> rule{load(*static_cast<const T*>(call.rate)), decay};
      update_each<T, G, n, 0>(
          call, span, [rule](C p, C&, C&, C g) { return rule.step(p, g, rule.weight_decay != 0); });
      break;
    }
    case OptimizerKind::momentum: {
      const MomentumRule<C> rule{load(*static_cast<const T*>(call.rate)), decay,
                                 static_cast<C>(call.momentum), call.nesterov};
      update_each<T, G, n, 1>(call, span, [rule](C p, C& u, C&, C g) {
        return rule.step(p, u, g, rule.weight_decay != 0);
      });
      break;
    }
    case OptimizerKind::adam: {
      const AdamRule<C> rule = *static_cast<const AdamRule<C>*>(call.workspace);
      update_each<T, G, n, 2>(call, span, [rule](C p, C& m, C& v, C g) {
        return rule.step(p, m, v, g, rule.weight_decay != 0);
      });
      break;
    }
  }
}

// True if each thread may take n elements at once, at places that are multiples of n.
LEAT_INLINE bool fits_vectors(const ApplyCall& call, int n) {
  return call.elements % n == 0 && is_aligned(call.variable) && is_aligned(call.gradient) &&
         is_aligned(call.first_slot) && is_aligned(call.second_slot);
}

// n elements for each thread.
template <typename T, typename G, int n>
__global__ void apply(ApplyCall call) {
  if (forbidden(call.guard)) return;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * n;
  update<T, G, n>(call, {first, std::min(call.elements, first + n), n});
}

template <typename T, typename G>
__global__ void apply_all(const ApplyCall* calls, const CallChunk* chunks) {
  const CallChunk chunk = chunks[blockIdx.x];
  const ApplyCall call = calls[chunk.call];
  if (forbidden(call.guard)) return;
  constexpr int n = neighbours_of<T>();
  const int64_t begin = chunk.part * ApplyCall::kChunkElements;
  const int64_t end = std::min(call.elements, begin + ApplyCall::kChunkElements);
  if (fits_vectors(call, n))
    update<T, G, n>(call, {begin + int64_t{threadIdx.x} * n, end, int64_t{blockDim.x} * n});
  else
    update<T, G, 1>(call, {begin + threadIdx.x, end, blockDim.x});
}

}  // namespace

cudaError_t launch_assign(const AssignCall& call, cudaStream_t stream) {
  if (call.bytes == 0) return cudaSuccess;
  return launch<&assign>(one_thread_each(call.bytes / 8 + call.bytes % 8), stream, call);
}

cudaError_t launch_assign_all(const CallTable<AssignCall>& table, cudaStream_t stream) {
  if (table.chunk_count == 0) return cudaSuccess;
  return launch<&assign_all>(one_block_each(table.chunk_count), stream, table.calls, table.chunks);
}

cudaError_t launch_assign_add(void* variable, const void* value, int64_t elements, DType dtype,
                              const float* guard, cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  return dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return cudaErrorNotSupported;  // its signature has no bool
    } else {
      return launch<&assign_add<T>>(one_thread_each(elements), stream, static_cast<T*>(variable),
                                    static_cast<const T*>(value), elements, guard);
    }
  });
}

cudaError_t launch_commit(const CommitCall& call, cudaStream_t stream) {
  return launch<&commit>({dim3(1), dim3(CommitCall::kMost)}, stream, call);
}

cudaError_t launch_apply(const ApplyCall& call, DType variable, DType gradient,
                         cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_narrow(variable, gradient, [&](auto zero, auto other) {
    using T = decltype(zero);
    using G = decltype(other);
    if (call.kind == OptimizerKind::adam) {
      const auto error = launch<&adam_rule<T>>({dim3(1), dim3(1)}, stream, call);
      if (error != cudaSuccess) return error;
    }
    constexpr int kNeighbours = neighbours_of<T>();
    if (fits_vectors(call, kNeighbours))
      return launch<&apply<T, G, kNeighbours>>(one_thread_each(call.elements / kNeighbours), stream,
                                               call);
    return launch<&apply<T, G, 1>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_apply_all(const CallTable<ApplyCall>& table, OptimizerKind kind, DType variable,
                             DType gradient, cudaStream_t stream) {
  if (table.chunk_count == 0) return cudaSuccess;
  return dispatch_narrow(variable, gradient, [&](auto zero, auto other) {
    using T = decltype(zero);
    using G = decltype(other);
    if (kind == OptimizerKind::adam) {
      const auto error = launch<&adam_rules<T>>(one_thread_each(table.call_count), stream,
                                                table.calls, table.call_count);
      if (error != cudaSuccess) return error;
    }
    return launch<&apply_all<T, G>>(one_block_each(table.chunk_count), stream, table.calls,
                                    table.chunks);
  });
}

}  // namespace leat::cuda
