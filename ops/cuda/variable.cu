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

__device__ inline bool forbidden(const float* guard) { return guard && *guard != *guard; }

// Words of 8 bytes, and the bytes behind the last one.
__global__ void assign(uint8_t* to, const uint8_t* from, int64_t bytes, const float* guard) {
  if (forbidden(guard)) return;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, words = bytes / 8;
  if (i < words) {
    reinterpret_cast<uint64_t*>(to)[i] = reinterpret_cast<const uint64_t*>(from)[i];
  } else if (i < words + bytes % 8) {
    const int64_t at = words * 8 + (i - words);
    to[at] = from[at];
  }
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

// One thread: the rule of this step, which needs powers in double.
template <typename T>
__global__ void adam_rule(ApplyCall call) {
  using C = Arithmetic<T>;
  if (*call.step < 0) call.complaint->write(0, *call.step);
  *static_cast<AdamRule<C>*>(call.workspace) =
      AdamRule<C>::of(call.adam, static_cast<double>(load(*static_cast<const T*>(call.rate))),
                      static_cast<double>(*call.step) + 1);
}

// n elements for each thread.
template <typename T, typename G, int n>
__global__ void apply(ApplyCall call) {
  using C = Arithmetic<T>;
  if (forbidden(call.guard)) return;
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * n;
  if (i >= call.elements) return;
  T* variable = static_cast<T*>(call.variable) + i;
  T* first = static_cast<T*>(call.first_slot) + i;
  T* second = static_cast<T*>(call.second_slot) + i;
  Vector<T, n> p = load_vector<T, n>(variable), u, v;
  const Vector<G, n> g = load_vector<G, n>(static_cast<const G*>(call.gradient) + i);
  switch (call.kind) {
    case OptimizerKind::sgd: {
      const SgdRule<C> rule{load(*static_cast<const T*>(call.rate)),
                            static_cast<C>(call.weight_decay)};
#pragma unroll
      for (int j = 0; j < n; ++j)
        p.of[j] = store<T>(rule.step(load(p.of[j]), load(g.of[j]), rule.weight_decay != 0));
      break;
    }
    case OptimizerKind::momentum: {
      const MomentumRule<C> rule{load(*static_cast<const T*>(call.rate)),
                                 static_cast<C>(call.weight_decay), static_cast<C>(call.momentum),
                                 call.nesterov};
      u = load_vector<T, n>(first);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        C slot = load(u.of[j]);
        p.of[j] = store<T>(rule.step(load(p.of[j]), slot, load(g.of[j]), rule.weight_decay != 0));
        u.of[j] = store<T>(slot);
      }
      store_vector(first, u);
      break;
    }
    case OptimizerKind::adam: {
      const auto& rule = *static_cast<const AdamRule<C>*>(call.workspace);
      u = load_vector<T, n>(first);
      v = load_vector<T, n>(second);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        C m = load(u.of[j]), squares = load(v.of[j]);
        p.of[j] =
            store<T>(rule.step(load(p.of[j]), m, squares, load(g.of[j]), rule.weight_decay != 0));
        u.of[j] = store<T>(m);
        v.of[j] = store<T>(squares);
      }
      store_vector(first, u);
      store_vector(second, v);
      break;
    }
  }
  store_vector(variable, p);
}

}  // namespace

cudaError_t launch_assign(void* variable, const void* value, size_t bytes, const float* guard,
                          cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const auto size = static_cast<int64_t>(bytes);
  return launch<&assign>(one_thread_each(size / 8 + size % 8), stream,
                         static_cast<uint8_t*>(variable), static_cast<const uint8_t*>(value), size,
                         guard);
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
    if (call.elements % kNeighbours == 0 && is_aligned(call.variable) &&
        is_aligned(call.gradient) && is_aligned(call.first_slot) && is_aligned(call.second_slot))
      return launch<&apply<T, G, kNeighbours>>(one_thread_each(call.elements / kNeighbours), stream,
                                               call);
    return launch<&apply<T, G, 1>>(one_thread_each(call.elements), stream, call);
  });
}

}  // namespace leat::cuda
