#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/recurrent.h"
#include "ops/cuda/warp_fold.cuh"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

template <typename A>
__device__ inline A activated(const CellActivation& f, A x) {
  A y = 0;
  with_activation<A>(f, [&](auto of) { y = of(x); });
  return y;
}
// d * f'(x) where y = f(x).
template <typename A>
__device__ inline A derived(const CellActivation& f, A y, A d) {
  A result = 0;
  with_derivative<A>(f, [&](auto of) { result = d * of(y); });
  return result;
}
// The activation of what was clipped before.
template <typename A>
__device__ inline A squashed(const RecurrentShape& s, int index, A x) {
  if (s.clip > 0) {
    const A most = static_cast<A>(s.clip);
    x = x < -most ? -most : most < x ? most : x;
  }
  return activated(s.activations[index], x);
}

__device__ inline int64_t length_of(const int32_t* lengths, const RecurrentShape& s, int64_t row) {
  if (!lengths) return s.steps;
  const int64_t length = lengths[row];
  return length < 0 ? 0 : length > s.steps ? s.steps : length;
}

// An element of a value that may be absent, which is 0 then.
template <typename T>
__device__ inline Compute<T> load_at(const void* values, int64_t at) {
  return values ? load(static_cast<const T*>(values)[at]) : Compute<T>(0);
}
template <typename T>
__device__ inline void store_at(void* values, int64_t at, Compute<T> value) {
  if (values) static_cast<T*>(values)[at] = store<T>(value);
}

// --- The forward pass --------------------------------------------------------------------------

// The states of all rows: two of h in turn, so that all units of a step see that before it.
template <typename A>
struct States {
  A *h[2], *c, *part;
  LEAT_INLINE explicit States(const RecurrentCall& call) {
    const int64_t n = call.shape.rows * call.shape.state;
    h[0] = static_cast<A*>(call.workspace);
    h[1] = h[0] + n;
    c = h[1] + n;
    part = c + n;
  }
};

template <typename T>
__global__ void begin_states(RecurrentCall call) {
  const States<Compute<T>> states(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.shape.rows * call.shape.state) return;
  states.h[0][i] = load_at<T>(call.h, i);
  states.c[i] = load_at<T>(call.c, i);
}

// The product of a row of states with column `column` of r.
template <typename T>
__device__ inline Compute<T> product(const RecurrentCall& call, const Compute<T>* states,
                                     int64_t column) {
  const T* r = static_cast<const T*>(call.r) + column;
  Compute<T> sum = 0;
  for (int64_t k = 0; k < call.shape.state; ++k) sum += states[k] * load(r[k * call.shape.columns]);
  return sum;
}

// The gates z and r of a GRU whose reset comes before the product, and the state after it. One
// thread for each unit of each row.
template <typename T>
__global__ void reset_gates(RecurrentCall call, int64_t t, int parity) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= s.rows * s.state) return;
  const int64_t row = i / s.state, j = i % s.state, H = s.state;
  const States<A> states(call);
  const A* h = states.h[parity] + row * H;
  const T* x = static_cast<const T*>(call.x) + (t * s.rows + row) * s.columns;
  const A gate = squashed(s, 0, load(x[H + j]) + product<T>(call, h, H + j));
  states.part[i] = gate * h[j];
}

template <typename T>
struct Unit {
  using A = Compute<T>;
  A gates[4] = {}, h = 0, kept = 0;  // `kept` for the gradient
};

template <typename T>
__device__ inline Unit<T> lstm_unit(const RecurrentCall& call, const Compute<T>* products,
                                    const T* x, int64_t j, Compute<T>& c) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t H = s.state;
  A in[4];
  for (int g = 0; g < 4; ++g) in[g] = load(x[g * H + j]) + products[g];
  if (call.extra) {
    in[0] += load_at<T>(call.extra, j) * c;
    in[2] += load_at<T>(call.extra, 2 * H + j) * c;
  }
  Unit<T> unit;
  const A i = squashed(s, 0, in[0]), g = squashed(s, 1, in[3]);
  const A f = s.input_forget ? 1 - i : squashed(s, 0, in[2]);
  c = f * c + i * g;
  if (call.extra) in[1] += load_at<T>(call.extra, H + j) * c;
  const A o = squashed(s, 0, in[1]);
  unit.gates[0] = i;
  unit.gates[1] = o;
  unit.gates[2] = f;
  unit.gates[3] = g;
  unit.h = o * activated(s.activations[2], c);
  unit.kept = c;
  return unit;
}

template <typename T>
__device__ inline Unit<T> gru_unit(const RecurrentCall& call, const Compute<T>* products,
                                   const T* x, int64_t j, Compute<T> before, Compute<T> part) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t H = s.state;
  Unit<T> unit;
  const A z = squashed(s, 0, load(x[j]) + products[0]);
  const A r = squashed(s, 0, load(x[H + j]) + products[1]);
  A n;
  if (s.linear_before_reset) {
    unit.kept = products[2] + load_at<T>(call.extra, j);
    n = load(x[2 * H + j]) + r * unit.kept;
  } else {
    unit.kept = part;
    n = load(x[2 * H + j]) + products[2];
  }
  n = squashed(s, 1, n);
  unit.gates[0] = z;
  unit.gates[1] = r;
  unit.gates[2] = n;
  unit.h = (1 - z) * n + z * before;
  return unit;
}

// Step t. One thread for each unit of each row.
template <typename T>
__global__ void advance(RecurrentCall call, int64_t t, int parity) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, H = s.state;
  if (i >= s.rows * H) return;
  const int64_t row = i / H, j = i % H, at = (t * s.rows + row) * H + j;
  const int count = static_cast<int>(s.columns / H);
  const States<A> states(call);
  const A* h = states.h[parity] + row * H;
  A* next = states.h[1 - parity] + row * H;
  const int64_t gates = (t * s.rows + row) * s.columns + j;
  if (t >= length_of(call.lengths, s, row)) {  // the sequence has ended: the state stays
    next[j] = h[j];
    store_at<T>(call.y, at, 0);
    store_at<T>(call.states, at, 0);
    for (int g = 0; g < count; ++g) store_at<T>(call.gates, gates + g * H, 0);
    return;
  }
  const T* x = static_cast<const T*>(call.x) + (t * s.rows + row) * s.columns;
  A products[4];
  for (int g = 0; g < count; ++g) {
    const bool after_reset = g == 2 && s.resets_first();
    products[g] = product<T>(call, after_reset ? states.part + row * H : h, g * H + j);
  }
  Unit<T> unit;
  if (s.cell == CellKind::lstm) {
    unit = lstm_unit<T>(call, products, x, j, states.c[i]);
  } else if (s.cell == CellKind::gru) {
    unit = gru_unit<T>(call, products, x, j, h[j], s.resets_first() ? states.part[i] : A(0));
  } else {
    unit.h = unit.gates[0] = squashed(s, 0, load(x[j]) + products[0]);
  }
  next[j] = unit.h;
  store_at<T>(call.y, at, unit.h);
  for (int g = 0; g < count; ++g) store_at<T>(call.gates, gates + g * H, unit.gates[g]);
  if (s.cell != CellKind::rnn) store_at<T>(call.states, at, unit.kept);
}

template <typename T>
__global__ void end_states(RecurrentCall call, int parity) {
  const States<Compute<T>> states(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.shape.rows * call.shape.state) return;
  store_at<T>(call.last_h, i, states.h[parity][i]);
  store_at<T>(call.last_c, i, states.c[i]);
}

// --- The backward pass -------------------------------------------------------------------------

// The gradients of all rows between the kernels of a step: of the states, of what the gates'
// activations get, and of the products of the state with r.
template <typename A>
struct Gradients {
  A *dh, *dc, *dx, *dproducts;
  LEAT_INLINE explicit Gradients(const RecurrentGradCall& call) {
    const int64_t n = call.shape.rows * call.shape.state,
                  wide = call.shape.rows * call.shape.columns;
    dh = static_cast<A*>(call.workspace);
    dc = dh + n;
    dx = dc + n;
    dproducts = dx + wide;
  }
};

template <typename T>
__global__ void begin_gradients(RecurrentGradCall call) {
  const Gradients<Compute<T>> gradients(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.shape.rows * call.shape.state) return;
  gradients.dh[i] = load_at<T>(call.dlast_h, i);
  gradients.dc[i] = load_at<T>(call.dlast_c, i);
}

// The state before step t of a row, of y or of the cells; the first one where t is the first step.
template <typename T>
__device__ inline Compute<T> before(const RecurrentGradCall& call, const void* of,
                                    const void* first, int64_t t, int64_t row, int64_t j) {
  const RecurrentShape& s = call.shape;
  const int64_t length = length_of(call.lengths, s, row);
  const int64_t from = !s.reverse ? t - 1 : t + 1 < length ? t + 1 : -1;
  return from >= 0 ? load_at<T>(of, (from * s.rows + row) * s.state + j)
                   : load_at<T>(first, row * s.state + j);
}

template <typename T>
struct GateValues {
  using A = Compute<T>;
  LEAT_INLINE GateValues(const RecurrentGradCall& call, int64_t t, int64_t row, int64_t j) {
    const RecurrentShape& s = call.shape;
    for (int g = 0; g < static_cast<int>(s.columns / s.state); ++g)
      of[g] = load_at<T>(call.gates, (t * s.rows + row) * s.columns + g * s.state + j);
  }
  A of[4] = {};
};

template <typename T>
__device__ inline void lstm_gates(const RecurrentGradCall& call, const GateValues<T>& gates,
                                  Compute<T> cell, Compute<T> cell_before, int64_t j, Compute<T> dh,
                                  Compute<T>& dc, Compute<T>* d) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t H = s.state;
  const A i = gates.of[0], o = gates.of[1], f = gates.of[2], g = gates.of[3];
  const A line = activated(s.activations[2], cell);
  const A d_o = derived(s.activations[0], o, dh * line);
  A sum = dc + derived(s.activations[2], line, dh * o);
  if (call.extra) sum += d_o * load_at<T>(call.extra, H + j);
  A di = sum * g, df = sum * cell_before;
  const A dg = derived(s.activations[1], g, sum * i);
  dc = sum * f;
  if (s.input_forget) {
    di -= df;
    df = 0;
  } else {
    df = derived(s.activations[0], f, df);
  }
  di = derived(s.activations[0], i, di);
  if (call.extra) dc += di * load_at<T>(call.extra, j) + df * load_at<T>(call.extra, 2 * H + j);
  d[0] = di;
  d[1] = d_o;
  d[2] = df;
  d[3] = dg;
}

// Sets dx and dproducts of step t, and makes dh the part of the gradient that goes around the
// gates. One thread for each unit of each row.
template <typename T>
__global__ void gate_gradients(RecurrentGradCall call, int64_t t) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, H = s.state;
  if (i >= s.rows * H) return;
  const int64_t row = i / H, j = i % H, at = (t * s.rows + row) * H + j;
  const int count = static_cast<int>(s.columns / H);
  const Gradients<A> gradients(call);
  A* dx = gradients.dx + row * s.columns + j;
  A* dproducts = gradients.dproducts + row * s.columns + j;
  for (int g = 0; g < count; ++g) dx[g * H] = dproducts[g * H] = 0;
  if (t >= length_of(call.lengths, s, row)) {
    store_at<T>(call.before_h, at, 0);
    store_at<T>(call.before_c, at, 0);
    return;
  }
  const A h_before = before<T>(call, call.y, call.h, t, row, j);
  const A c_before =
      s.cell == CellKind::lstm ? before<T>(call, call.states, call.c, t, row, j) : A(0);
  store_at<T>(call.before_h, at, h_before);
  store_at<T>(call.before_c, at, c_before);
  A dh = gradients.dh[i];
  if (call.dy) dh += load_at<T>(call.dy, at);
  A d[4] = {};
  if (s.cell == CellKind::rnn) {
    d[0] = derived(s.activations[0], load_at<T>(call.y, at), dh);
    dh = 0;
  } else if (s.cell == CellKind::lstm) {
    const GateValues<T> gates(call, t, row, j);
    lstm_gates<T>(call, gates, load_at<T>(call.states, at), c_before, j, dh, gradients.dc[i], d);
    dh = 0;
  } else {
    const GateValues<T> gates(call, t, row, j);
    const A z = gates.of[0], r = gates.of[1], n = gates.of[2];
    d[2] = derived(s.activations[1], n, dh * (1 - z));
    d[0] = derived(s.activations[0], z, dh * (h_before - n));
    dh = dh * z;
    if (s.linear_before_reset)
      d[1] = derived(s.activations[0], r, d[2] * load_at<T>(call.states, at));
    for (int g = 0; g < 3; ++g) dx[g * H] = d[g];
    if (s.linear_before_reset) {
      dproducts[0] = d[0];
      dproducts[H] = d[1];
      dproducts[2 * H] = d[2] * r;
    }
    gradients.dh[i] = dh;
    return;
  }
  for (int g = 0; g < count; ++g) dx[g * H] = dproducts[g * H] = d[g];
  gradients.dh[i] = dh;
}

// The sum over columns [begin, end) of gates' gradients times those of row j of r: the gradient of
// unit j of the state, by one warp.
template <typename T>
__device__ inline Compute<T> back(const RecurrentGradCall& call, const Compute<T>* d, int64_t j,
                                  int64_t begin, int64_t end) {
  const T* r = static_cast<const T*>(call.r) + j * call.shape.columns;
  return warp_tree_sum<Compute<T>>(end - begin,
                                   [&](int64_t k) { return d[begin + k] * load(r[begin + k]); });
}

// Of a GRU whose reset comes before the product: the gradient through it. One warp for each unit.
template <typename T>
__global__ void reset_gradients(RecurrentGradCall call, int64_t t) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp, H = s.state;
  if (i >= s.rows * H) return;
  const int64_t row = i / H, j = i % H;
  if (t >= length_of(call.lengths, s, row)) return;
  const Gradients<A> gradients(call);
  A* dx = gradients.dx + row * s.columns;
  const A sum = back<T>(call, dx, j, 2 * H, 3 * H);
  if (threadIdx.x % kWarp != 0) return;
  const A r = load_at<T>(call.gates, (t * s.rows + row) * s.columns + H + j);
  dx[H + j] = derived(s.activations[0], r, sum * before<T>(call, call.y, call.h, t, row, j));
  gradients.dh[i] += sum * r;
}

// Adds what comes to the state through the products. One warp for each unit.
template <typename T>
__global__ void state_gradients(RecurrentGradCall call, int64_t t) {
  using A = Compute<T>;
  const RecurrentShape& s = call.shape;
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp, H = s.state;
  if (i >= s.rows * H) return;
  const int64_t row = i / H, j = i % H;
  if (t >= length_of(call.lengths, s, row)) return;
  const Gradients<A> gradients(call);
  const A* d = (s.resets_first() ? gradients.dx : gradients.dproducts) + row * s.columns;
  const A sum = back<T>(call, d, j, 0, s.resets_first() ? 2 * H : s.columns);
  if (threadIdx.x % kWarp == 0) gradients.dh[i] += sum;
}

// One thread for each column of each row.
template <typename T>
__global__ void write_gradients(RecurrentGradCall call, int64_t t) {
  const RecurrentShape& s = call.shape;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, n = s.rows * s.columns;
  if (i >= n) return;
  const Gradients<Compute<T>> gradients(call);
  store_at<T>(call.dx, t * n + i, gradients.dx[i]);
  store_at<T>(call.dproducts, t * n + i, gradients.dproducts[i]);
}

template <typename T>
__global__ void end_gradients(RecurrentGradCall call) {
  const Gradients<Compute<T>> gradients(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.shape.rows * call.shape.state) return;
  store_at<T>(call.dh, i, gradients.dh[i]);
  store_at<T>(call.dc, i, gradients.dc[i]);
}

size_t compute_size(DType dtype) { return dtype == DType::f64 ? sizeof(double) : sizeof(float); }

int64_t step_of(const RecurrentShape& s, int64_t k) { return s.reverse ? s.steps - 1 - k : k; }

}  // namespace

size_t recurrent_workspace(const RecurrentShape& s, DType dtype) {
  return static_cast<size_t>(4 * s.rows * s.state) * compute_size(dtype);
}

size_t recurrent_grad_workspace(const RecurrentShape& s, DType dtype) {
  return static_cast<size_t>(2 * s.rows * (s.state + s.columns)) * compute_size(dtype);
}

cudaError_t launch_recurrent(const RecurrentCall& call, DType dtype, cudaStream_t stream) {
  const RecurrentShape& s = call.shape;
  if (s.rows * s.state == 0) return cudaSuccess;
  const LaunchShape units = one_thread_each(s.rows * s.state);
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    cudaError_t error = launch<&begin_states<T>>(units, stream, call);
    int parity = 0;
    for (int64_t k = 0; error == cudaSuccess && k < s.steps; ++k, parity = 1 - parity) {
      const int64_t t = step_of(s, k);
      if (s.resets_first()) error = launch<&reset_gates<T>>(units, stream, call, t, parity);
      if (error == cudaSuccess) error = launch<&advance<T>>(units, stream, call, t, parity);
    }
    return error == cudaSuccess ? launch<&end_states<T>>(units, stream, call, parity) : error;
  });
}

cudaError_t launch_recurrent_grad(const RecurrentGradCall& call, DType dtype, cudaStream_t stream) {
  const RecurrentShape& s = call.shape;
  if (s.rows * s.state == 0) return cudaSuccess;
  const LaunchShape units = one_thread_each(s.rows * s.state),
                    warps = one_warp_each(s.rows * s.state),
                    columns = one_thread_each(s.rows * s.columns);
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    cudaError_t error = launch<&begin_gradients<T>>(units, stream, call);
    for (int64_t k = s.steps; error == cudaSuccess && k-- > 0;) {
      const int64_t t = step_of(s, k);
      error = launch<&gate_gradients<T>>(units, stream, call, t);
      if (error == cudaSuccess && s.resets_first())
        error = launch<&reset_gradients<T>>(warps, stream, call, t);
      if (error == cudaSuccess) error = launch<&state_gradients<T>>(warps, stream, call, t);
      if (error == cudaSuccess) error = launch<&write_gradients<T>>(columns, stream, call, t);
    }
    return error == cudaSuccess ? launch<&end_gradients<T>>(units, stream, call) : error;
  });
}

}  // namespace leat::cuda
