#include "ops/cpu/pool_kernel.h"

#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/pool_blocked.h"
#include "ops/cpu/pool_plain.h"
#include "ops/cpu/pool_taps.h"
#include "ops/definitions/pool.h"

namespace leat {
namespace {

// The state before the first element of a window, and the result of a window that has none.
template <typename T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

// Computes the maximum of each window. A plane holds L channels, which are adjacent in memory.
// argmax may be null.
template <int L, typename T, typename A>
LEAT_INLINE void max_plane(const Window& v, const T* x, T* y, A* argmax) {
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    T best[L];
    int32_t where[L];
    // The first element replaces `best` without a comparison: if it is -infinity, its own position
    // counts and not 0.
    bool first = true;
    for (int c = 0; c < L; ++c) best[c] = lowest<T>(), where[c] = 0;
    for_taps(v, t, [&](int64_t k, int64_t position) {
      const T* in = x + position * L;
      const auto element = static_cast<int32_t>(k);
      if (first) {
        for (int c = 0; c < L; ++c) best[c] = in[c], where[c] = element;
        first = false;
        return;
      }
      for (int c = 0; c < L; ++c) {
        // `|` and not `||`: both sides are computed, so the loop over the channels has no branch. A
        // NaN replaces everything, so of several NaNs the last one counts.
        const bool better = (in[c] > best[c]) | (in[c] != in[c]);
        best[c] = better ? in[c] : best[c];
        where[c] = better ? element : where[c];
      }
    });
    for (int c = 0; c < L; ++c) y[at * L + c] = best[c];
    if (argmax) {
      for (int c = 0; c < L; ++c) argmax[at * L + c] = static_cast<A>(where[c]);
    }
  });
}

// Adds each dy to the element of its window that was the maximum. Windows may overlap, so dx starts
// at zero, and an element gets its gradients in the order of the outputs.
template <int L, typename T, typename A>
LEAT_INLINE void max_grad_plane(const Window& v, const T* dy, const A* argmax, T* dx) {
  std::fill_n(dx, v.input_area() * L, T{});
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    T grad[L];
    int32_t where[L];
    for (int c = 0; c < L; ++c) grad[c] = dy[at * L + c], where[c] = argmax[at * L + c];
    for_taps(v, t, [&](int64_t k, int64_t position) {
      const auto element = static_cast<int32_t>(k);
      T* to = dx + position * L;
      for (int c = 0; c < L; ++c) to[c] += where[c] == element ? grad[c] : T{};
    });
  });
}

// The mean of each window: its elements are added in their order, and the sum is divided once.
template <int L, typename T>
LEAT_INLINE void average_plane(const Window& v, bool count_pads, const T* x, T* y) {
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    T sum[L] = {};
    for_taps(v, t, [&](int64_t, int64_t position) {
      for (int c = 0; c < L; ++c) sum[c] += x[position * L + c];
    });
    const T count = static_cast<T>(window_count(v, t, count_pads));
    for (int c = 0; c < L; ++c) y[at * L + c] = sum[c] / count;
  });
}

// Each element of a window gets dy divided by the window's count. dx adds them in the order of the
// outputs.
template <int L, typename T>
LEAT_INLINE void average_grad_plane(const Window& v, bool count_pads, const T* dy, T* dx) {
  std::fill_n(dx, v.input_area() * L, T{});
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    const T count = static_cast<T>(window_count(v, t, count_pads));
    T share[L];
    for (int c = 0; c < L; ++c) share[c] = dy[at * L + c] / count;
    for_taps(v, t, [&](int64_t, int64_t position) {
      for (int c = 0; c < L; ++c) dx[position * L + c] += share[c];
    });
  });
}

LEAT_VECTOR_CLONES void average_blocked(const Window& v, bool count_pads, const float* x,
                                        float* y) {
  average_plane<16>(v, count_pads, x, y);
}
LEAT_VECTOR_CLONES void average_grad_blocked(const Window& v, bool count_pads, const float* dy,
                                             float* dx) {
  average_grad_plane<16>(v, count_pads, dy, dx);
}

// ONNX's index of each maximum: its position in the whole tensor of planes. k counts the elements
// of the kernel in row-major order, and is split into the three axes here.
template <typename A>
void write_indices(const Window& v, bool column_major, int64_t plane, const A* argmax,
                   int64_t* indices) {
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    const int64_t k = argmax[at];
    const int64_t i = t.axis[0].start + k / (v.kernel[1] * v.kernel[2]) * v.dilation[0];
    const int64_t j = t.axis[1].start + k / v.kernel[2] % v.kernel[1] * v.dilation[1];
    const int64_t l = t.axis[2].start + k % v.kernel[2] * v.dilation[2];
    const int64_t position = column_major ? i + v.input[0] * (j + v.input[1] * l)
                                          : (i * v.input[1] + j) * v.input[2] + l;
    indices[at] = plane * v.input_area() + position;
  });
}

// The tiles of a pool: tiles of images, each with some planes. An image has `per_image` planes: a
// plane is one channel, or a block of 16 (`lanes`) that are adjacent.
struct Planes {
  int64_t images = 0, per_image = 0, tile = 0;
  int lanes = 1;
  int64_t input = 0, output = 0;  // elements of a plane

  // `data`: the first input. `rows`: images in a tile, or 0.
  Planes(const Window& window, const OperandType& data, int64_t rows) {
    lanes = data.layout == Layout::channels16 ? 16 : 1;
    images = data.shape[0];
    per_image = data.shape[1] / lanes;
    input = window.input_area() * lanes;
    output = window.output_area() * lanes;
    tile = rows > 0 ? rows : default_tile_rows(images, per_image * std::max(input, output));
  }
  int tiles() const { return tile_count(images, tile); }
  // The first plane of a tile, and the plane after its last one.
  int64_t begin(int i) const { return i * tile * per_image; }
  int64_t end(int i) const { return std::min((i + 1) * tile, images) * per_image; }
};

// A is the dtype of argmax: u8 if a window has at most 256 elements, else i32.
template <typename T, typename A>
std::unique_ptr<Kernel> max_pool_kernel(const KernelSetup& setup, const Window& v,
                                        MaxPoolOutputs outs) {
  const Planes p(v, setup.input(0), setup.tile_rows);
  // Indices are computed from argmax, which is in scratch memory if it is not an output.
  class MaxPool final : public Kernel {
   public:
    MaxPool(const Planes& planes, const Window& window, MaxPoolOutputs outputs)
        : p_(planes), v_(window), outs_(outputs) {}
    int tiles(int) const override { return p_.tiles(); }
    size_t scratch_bytes() const override { return static_cast<size_t>(p_.output) * sizeof(A); }
    Progress run(KernelContext& context, int, int tile) override {
      for (int64_t plane = p_.begin(tile); plane < p_.end(tile); ++plane) {
        const T* x = context.in<T>(0) + plane * p_.input;
        T* y = context.out<T>(0) + plane * p_.output;
        // If no output has the positions, argmax is null, and max_plane() does not store it.
        A* argmax = outs_.argmax >= 0    ? context.out<A>(outs_.argmax) + plane * p_.output
                    : outs_.indices >= 0 ? reinterpret_cast<A*>(context.scratch)
                                         : nullptr;
        pool_plane(x, y, argmax);
        if (outs_.indices >= 0) {
          write_indices(v_, outs_.column_major, plane, argmax,
                        context.out<int64_t>(outs_.indices) + plane * p_.output);
        }
      }
      return Progress::done;
    }

   private:
    // Uses the fast loops where they apply: their bits are those of max_plane().
    void pool_plane(const T* x, T* y, A* argmax) const {
      if constexpr (std::is_same_v<T, float> && std::is_same_v<A, uint8_t>) {
        if (p_.lanes == 16 && max_pool_avx512(v_, x, y, argmax)) return;
        if (p_.lanes == 1 && is_2x2(v_)) return max_pool_2x2(v_, x, y, argmax);
      }
      p_.lanes == 1 ? max_plane<1>(v_, x, y, argmax) : max_plane<16>(v_, x, y, argmax);
    }

    Planes p_;
    Window v_;
    MaxPoolOutputs outs_;
  };
  return std::make_unique<MaxPool>(p, v, outs);
}

template <typename T, typename A>
std::unique_ptr<Kernel> max_pool_grad_kernel(const KernelSetup& setup, const Window& v) {
  const Planes p(v, setup.input(0), setup.tile_rows);
  return make_tiled_kernel(p.tiles(), [p, v](KernelContext& context, int tile) {
    for (int64_t plane = p.begin(tile); plane < p.end(tile); ++plane) {
      const T* dy = context.in<T>(0) + plane * p.output;
      const A* argmax = context.in<A>(1) + plane * p.output;
      T* dx = context.out<T>(0) + plane * p.input;
      if constexpr (std::is_same_v<T, float> && std::is_same_v<A, uint8_t>) {
        if (p.lanes == 16 && max_pool_grad_avx512(v, dy, argmax, dx)) continue;
        if (p.lanes == 1 && is_2x2(v)) {
          max_pool_grad_2x2(v, dy, argmax, dx);
          continue;
        }
      }
      p.lanes == 1 ? max_grad_plane<1>(v, dy, argmax, dx) : max_grad_plane<16>(v, dy, argmax, dx);
    }
    return Progress::done;
  });
}

// AveragePool, or with `gradient` its gradient, where the planes of the input are those of y.
template <typename T>
std::unique_ptr<Kernel> average_pool_kernel(const KernelSetup& setup, const Window& v,
                                            bool count_pads, bool gradient) {
  const Planes p(v, setup.input(0), setup.tile_rows);
  return make_tiled_kernel(
      p.tiles(), [p, v, count_pads, gradient](KernelContext& context, int tile) {
        const int64_t from = gradient ? p.output : p.input, to = gradient ? p.input : p.output;
        for (int64_t plane = p.begin(tile); plane < p.end(tile); ++plane) {
          const T* in = context.in<T>(0) + plane * from;
          T* out = context.out<T>(0) + plane * to;
          if (p.lanes == 1) {
            gradient ? average_grad_plane<1>(v, count_pads, in, out)
                     : average_plane<1>(v, count_pads, in, out);
          } else if constexpr (std::is_same_v<T, float>) {
            // These functions are cloned for each vector width; a block of floats fills vectors.
            gradient ? average_grad_blocked(v, count_pads, in, out)
                     : average_blocked(v, count_pads, in, out);
          } else {
            gradient ? average_grad_plane<16>(v, count_pads, in, out)
                     : average_plane<16>(v, count_pads, in, out);
          }
        }
        return Progress::done;
      });
}

Status no_pool(const KernelSetup& setup) {
  return unimplemented(cat(setup.subject, ": no pool of ", setup.input(0).dtype));
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_max_pool_kernel(const KernelSetup& setup, const Window& v,
                                                     MaxPoolOutputs outs) {
  const bool small = argmax_type(v.kernel_area()) == DType::u8;
  switch (setup.input(0).dtype) {
    case DType::f32:
      return small ? max_pool_kernel<float, uint8_t>(setup, v, outs)
                   : max_pool_kernel<float, int32_t>(setup, v, outs);
    case DType::f64:
      return small ? max_pool_kernel<double, uint8_t>(setup, v, outs)
                   : max_pool_kernel<double, int32_t>(setup, v, outs);
    case DType::i8:
      return small ? max_pool_kernel<int8_t, uint8_t>(setup, v, outs)
                   : max_pool_kernel<int8_t, int32_t>(setup, v, outs);
    case DType::u8:
      return small ? max_pool_kernel<uint8_t, uint8_t>(setup, v, outs)
                   : max_pool_kernel<uint8_t, int32_t>(setup, v, outs);
    default:
      return no_pool(setup);
  }
}

Result<std::unique_ptr<Kernel>> make_max_pool_grad_kernel(const KernelSetup& setup,
                                                          const Window& v) {
  const bool small = setup.input(1).dtype == DType::u8;
  switch (setup.input(0).dtype) {
    case DType::f32:
      return small ? max_pool_grad_kernel<float, uint8_t>(setup, v)
                   : max_pool_grad_kernel<float, int32_t>(setup, v);
    case DType::f64:
      return small ? max_pool_grad_kernel<double, uint8_t>(setup, v)
                   : max_pool_grad_kernel<double, int32_t>(setup, v);
    default:
      return no_pool(setup);
  }
}

Result<std::unique_ptr<Kernel>> make_average_pool_kernel(const KernelSetup& setup, const Window& v,
                                                         bool count_pads, bool gradient) {
  switch (setup.input(0).dtype) {
    case DType::f32:
      return average_pool_kernel<float>(setup, v, count_pads, gradient);
    case DType::f64:
      return average_pool_kernel<double>(setup, v, count_pads, gradient);
    default:
      return no_pool(setup);
  }
}

}  // namespace leat
