// CPU kernels of ops/definitions/resize.cc. Axes are resized one after the other, the last one
// first, each as a sum of few elements. A tile is a few blocks: a block has all axes from the first
// resized one on.
#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/vectorize.h"
#include "ops/definitions/resize_passes.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// A pass with its weights as the type of the sums.
template <typename A>
struct Pass : ResizePass {
  explicit Pass(ResizePass pass) : ResizePass(std::move(pass)) {
    for (const double each : weights.weight) weight.push_back(static_cast<A>(each));
  }
  std::vector<A> weight;
};

// y += w * x, or y = w * x.
template <typename A>
LEAT_INLINE void add_line(A w, const A* x, A* y, int64_t n, bool begins) {
  if (begins) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = w * x[i];
  } else {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] + w * x[i];
  }
}
LEAT_VECTOR_CLONES void add_resized(float w, const float* x, float* y, int64_t n, bool begins) {
  add_line(w, x, y, n, begins);
}
void add_resized(double w, const double* x, double* y, int64_t n, bool begins) {
  add_line(w, x, y, n, begins);
}

template <typename A>
void run_pass(const Pass<A>& pass, const A* x, A* y) {
  for (int64_t b = 0; b < pass.before; ++b, x += pass.in * pass.after, y += pass.out * pass.after) {
    for (int64_t j = 0; j < pass.out; ++j) {
      const int64_t begin = pass.weights.first[static_cast<size_t>(j)],
                    end = pass.weights.first[static_cast<size_t>(j) + 1];
      A* const to = y + j * pass.after;
      if (pass.after == 1) {
        A sum = 0;
        for (int64_t k = begin; k < end; ++k)
          sum +=
              pass.weight[static_cast<size_t>(k)] * x[pass.weights.index[static_cast<size_t>(k)]];
        *to = sum;
        continue;
      }
      if (begin == end) std::fill_n(to, pass.after, A(0));
      for (int64_t k = begin; k < end; ++k) {
        add_resized(pass.weight[static_cast<size_t>(k)],
                    x + pass.weights.index[static_cast<size_t>(k)] * pass.after, to, pass.after,
                    k == begin);
      }
    }
  }
}

// Each element of the output is one of the input.
template <typename A>
void pick_pass(const Pass<A>& pass, const A* x, A* y) {
  for (int64_t b = 0; b < pass.before; ++b, x += pass.in * pass.after, y += pass.out * pass.after) {
    for (int64_t j = 0; j < pass.out; ++j) {
      std::copy_n(x + pass.weights.index[static_cast<size_t>(j)] * pass.after, pass.after,
                  y + j * pass.after);
    }
  }
}

template <typename A>
struct Passes {
  explicit Passes(ResizePasses passes)
      : blocks(passes.blocks),
        in_block(passes.in_block),
        out_block(passes.out_block),
        largest(passes.largest) {
    for (ResizePass& pass : passes.list) list.emplace_back(std::move(pass));
  }
  std::vector<Pass<A>> list;
  int64_t blocks, in_block, out_block, largest;
};

// T is the type of the elements, A that of the sums. Without sums, both are unsigned integers of
// the element's size.
template <typename T, typename A>
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(Passes<A> passes, const ResizeSpec& spec, T extrapolation)
      : passes_(std::move(passes)),
        extrapolation_(extrapolation),
        tile_(default_tile_rows(passes_.blocks, std::max(passes_.in_block, passes_.out_block))) {
    outside_ = spec.crops() &&
               std::any_of(passes_.list.begin(), passes_.list.end(),
                           [](const Pass<A>& pass) { return !pass.weights.outside.empty(); });
  }
  int tiles(int) const override { return tile_count(passes_.blocks, tile_); }
  size_t scratch_bytes() const override {
    return 2 * static_cast<size_t>(passes_.largest) * sizeof(A);
  }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(passes_.blocks, (tile + 1) * tile_);
    A* const buffers[] = {reinterpret_cast<A*>(context.scratch),
                          reinterpret_cast<A*>(context.scratch) + passes_.largest};
    for (int64_t block = tile * tile_; block < end; ++block) {
      const T* const x = context.in<T>(0) + block * passes_.in_block;
      T* const y = context.out<T>(0) + block * passes_.out_block;
      const A* at = load(x, buffers[0]);
      int next = at == buffers[0] ? 1 : 0;
      for (size_t p = 0; p < passes_.list.size(); ++p) {
        A* const to = p + 1 == passes_.list.size() && std::is_same_v<T, A> ? reinterpret_cast<A*>(y)
                                                                           : buffers[next];
        if constexpr (std::is_floating_point_v<A>)
          run_pass(passes_.list[p], at, to);
        else
          pick_pass(passes_.list[p], at, to);
        at = to;
        next = 1 - next;
      }
      store(at, y);
      if (outside_) extrapolate(y);
    }
    return Progress::done;
  }

 private:
  const A* load(const T* x, A* buffer) const {
    if constexpr (std::is_same_v<T, A>) {
      return x;
    } else {
      for (int64_t i = 0; i < passes_.in_block; ++i) buffer[i] = load_as_compute(x[i]);
      return buffer;
    }
  }
  void store(const A* from, T* y) const {
    if constexpr (std::is_same_v<T, A>) {
      if (from != y) std::copy_n(from, passes_.out_block, y);
    } else {
      for (int64_t i = 0; i < passes_.out_block; ++i) y[i] = store_from_compute<T>(from[i]);
    }
  }

  // Sets the elements that lie outside along any axis. The last axis is resized first, so the axes
  // after that of a pass have the sizes of the output.
  void extrapolate(T* y) const {
    for (int64_t i = 0; i < passes_.out_block; ++i) {
      const bool outside =
          std::any_of(passes_.list.begin(), passes_.list.end(), [&](const Pass<A>& pass) {
            return !pass.weights.outside.empty() &&
                   pass.weights.outside[static_cast<size_t>(i / pass.after % pass.out)];
          });
      if (outside) y[i] = extrapolation_;
    }
  }

  const Passes<A> passes_;
  const T extrapolation_;
  const int64_t tile_;
  bool outside_ = false;
};

// Nearest elements are copied as bytes, whatever their type is.
template <typename Bits>
std::unique_ptr<Kernel> make_pick(const KernelSetup& setup, const ResizeSpec& spec) {
  const Tensor fill = Tensor::scalar_of(setup.input(0).dtype, spec.extrapolation);
  Bits bits{};
  std::memcpy(&bits, fill.raw(), sizeof(bits));
  return std::make_unique<ResizeKernel<Bits, Bits>>(
      Passes<Bits>(resize_passes(spec, setup.input(0).shape, setup.output(0).shape, false)), spec,
      bits);
}

Result<std::unique_ptr<Kernel>> make_resize(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ResizeSpec spec,
                        resize_spec_of(setup, setup.input(0).shape, setup.output(0).shape));
  if (spec.mode == ResizeMode::nearest) {
    switch (dtype_size(setup.input(0).dtype)) {
      case 1:
        return make_pick<uint8_t>(setup, spec);
      case 2:
        return make_pick<uint16_t>(setup, spec);
      case 4:
        return make_pick<uint32_t>(setup, spec);
      default:
        return make_pick<uint64_t>(setup, spec);
    }
  }
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    using A = Compute<T>;
    const Tensor fill = Tensor::scalar_of(setup.input(0).dtype, spec.extrapolation);
    return std::make_unique<ResizeKernel<T, A>>(
        Passes<A>(resize_passes(spec, setup.input(0).shape, setup.output(0).shape, false)), spec,
        *fill.data<T>());
  });
}

Result<std::unique_ptr<Kernel>> make_resize_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(ResizeSpec spec,
                        resize_spec_of(setup, setup.output(0).shape, setup.input(0).shape));
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    using A = Compute<T>;
    Passes<A> passes(resize_passes(spec, setup.output(0).shape, setup.input(0).shape, true));
    return std::make_unique<ResizeKernel<T, A>>(std::move(passes), spec, T{});
  });
}

}  // namespace

void add_resize_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Resize", "cpu", make_resize);
  catalogue.add_kernel("leat.ResizeGrad", "cpu", make_resize_grad);
}

}  // namespace leat
