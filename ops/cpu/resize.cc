// CPU kernels of ops/definitions/resize.cc. Axes are resized one after the other, the last one
// first, each as a sum of few elements. A tile is a few blocks: a block has all axes from the first
// resized one on.
#include "ops/definitions/resize.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// One axis of a block [before, in, after] becomes [before, out, after].
template <typename A>
struct Pass {
  int64_t before = 1, in = 0, out = 0, after = 1;
  std::vector<int64_t> first, index;
  std::vector<A> weight;
  std::vector<bool> outside;

  int64_t elements() const { return before * out * after; }
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
      const int64_t begin = pass.first[static_cast<size_t>(j)],
                    end = pass.first[static_cast<size_t>(j) + 1];
      A* const to = y + j * pass.after;
      if (pass.after == 1) {
        A sum = 0;
        for (int64_t k = begin; k < end; ++k)
          sum += pass.weight[static_cast<size_t>(k)] * x[pass.index[static_cast<size_t>(k)]];
        *to = sum;
        continue;
      }
      if (begin == end) std::fill_n(to, pass.after, A(0));
      for (int64_t k = begin; k < end; ++k) {
        add_resized(pass.weight[static_cast<size_t>(k)],
                    x + pass.index[static_cast<size_t>(k)] * pass.after, to, pass.after,
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
      std::copy_n(x + pass.index[static_cast<size_t>(j)] * pass.after, pass.after,
                  y + j * pass.after);
    }
  }
}

// The passes of a node, in the order of their work, and its blocks.
template <typename A>
struct Passes {
  std::vector<Pass<A>> list;
  int64_t blocks = 1, in_block = 1, out_block = 1, largest = 1;
};

// Of Resize from `input` to `output`, or of its gradient from the output to the input.
template <typename A>
Passes<A> make_passes(const ResizeSpec& spec, const Shape& input, const Shape& output,
                      bool backward) {
  Passes<A> passes;
  const int rank = input.rank(), lead = spec.axes.empty() ? rank : spec.axes[0].axis;
  passes.blocks = input.elements(0, lead);
  const Shape& from = backward ? output : input;
  const Shape& to = backward ? input : output;
  passes.in_block = from.elements(lead, rank);
  passes.out_block = to.elements(lead, rank);
  // Growing axes are cheapest at the end of the block first, shrinking ones the other way round.
  std::vector<ResizedAxis> order(spec.axes);
  if (!backward) std::reverse(order.begin(), order.end());
  std::vector<int64_t> sizes(from.begin(), from.end());
  for (const ResizedAxis& axis : order) {
    const AxisWeights forward = axis_weights(spec, axis);
    const AxisWeights weights = backward ? transposed(forward, axis.in) : forward;
    Pass<A> pass;
    for (int d = lead; d < axis.axis; ++d) pass.before *= sizes[static_cast<size_t>(d)];
    for (int d = axis.axis + 1; d < rank; ++d) pass.after *= sizes[static_cast<size_t>(d)];
    pass.in = sizes[static_cast<size_t>(axis.axis)];
    pass.out = backward ? axis.in : axis.out;
    pass.first = weights.first;
    pass.index = weights.index;
    for (const double weight : weights.weight) pass.weight.push_back(static_cast<A>(weight));
    pass.outside = weights.outside;
    sizes[static_cast<size_t>(axis.axis)] = pass.out;
    passes.largest = std::max(passes.largest, pass.elements());
    passes.list.push_back(std::move(pass));
  }
  passes.largest = std::max({passes.largest, passes.in_block, passes.out_block});
  return passes;
}

// T is the type of the elements, A that of the sums. Without sums, both are unsigned integers of
// the element's size.
template <typename T, typename A>
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(Passes<A> passes, const ResizeSpec& spec, T extrapolation)
      : passes_(std::move(passes)),
        extrapolation_(extrapolation),
        tile_(default_tile_rows(passes_.blocks, std::max(passes_.in_block, passes_.out_block))) {
    outside_ =
        spec.crops() && std::any_of(passes_.list.begin(), passes_.list.end(),
                                    [](const Pass<A>& pass) { return !pass.outside.empty(); });
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
            return !pass.outside.empty() &&
                   pass.outside[static_cast<size_t>(i / pass.after % pass.out)];
          });
      if (outside) y[i] = extrapolation_;
    }
  }

  const Passes<A> passes_;
  const T extrapolation_;
  const int64_t tile_;
  bool outside_ = false;
};

// The values of the operands; an error if one is not known.
Result<ResizeOperands> operands_of(const KernelSetup& setup) {
  ResizeOperands operands;
  const auto read = [&](int i, auto&& each) -> Status {
    if (!setup.types.has_input(i) || setup.input(i).shape.elements() == 0) return {};
    const Tensor* value = setup.constant(i);
    if (!value) {
      return invalid_argument(cat(setup.subject, ": input ", i,
                                  ": expected a value that is known when the plan is made"));
    }
    for (int64_t k = 0; k < value->elements(); ++k) each(*value, k);
    return {};
  };
  LEAT_RETURN_IF_ERROR(
      read(1, [&](const Tensor& t, int64_t k) { operands.roi.push_back(t.at(k)); }));
  LEAT_RETURN_IF_ERROR(
      read(2, [&](const Tensor& t, int64_t k) { operands.scales.push_back(t.at(k)); }));
  LEAT_RETURN_IF_ERROR(
      read(3, [&](const Tensor& t, int64_t k) { operands.sizes.push_back(t.int_at(k)); }));
  return operands;
}

Result<ResizeSpec> spec_for(const KernelSetup& setup, const Shape& input, const Shape& output) {
  LEAT_ASSIGN_OR_RETURN(const ResizeOperands operands, operands_of(setup));
  Shape shape;
  auto spec = resize_spec(setup.attrs(), input, operands, shape);
  if (!spec.ok()) return invalid_argument(cat(setup.subject, ": ", spec.status().message()));
  if (shape == output) return spec;
  return invalid_argument(
      cat(setup.subject, ": expected an output of ", shape, ", received ", output));
}

// Nearest elements are copied as bytes, whatever their type is.
template <typename Bits>
std::unique_ptr<Kernel> make_pick(const KernelSetup& setup, const ResizeSpec& spec) {
  const Tensor fill = Tensor::scalar_of(setup.input(0).dtype, spec.extrapolation);
  Bits bits{};
  std::memcpy(&bits, fill.raw(), sizeof(bits));
  return std::make_unique<ResizeKernel<Bits, Bits>>(
      make_passes<Bits>(spec, setup.input(0).shape, setup.output(0).shape, false), spec, bits);
}

Result<std::unique_ptr<Kernel>> make_resize(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ResizeSpec spec,
                        spec_for(setup, setup.input(0).shape, setup.output(0).shape));
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
        make_passes<A>(spec, setup.input(0).shape, setup.output(0).shape, false), spec,
        *fill.data<T>());
  });
}

Result<std::unique_ptr<Kernel>> make_resize_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(ResizeSpec spec,
                        spec_for(setup, setup.output(0).shape, setup.input(0).shape));
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    using A = Compute<T>;
    auto passes = make_passes<A>(spec, setup.output(0).shape, setup.input(0).shape, true);
    return std::make_unique<ResizeKernel<T, A>>(std::move(passes), spec, T{});
  });
}

}  // namespace

void add_resize_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Resize", "cpu", make_resize);
  catalogue.add_kernel("leat.ResizeGrad", "cpu", make_resize_grad);
}

}  // namespace leat
