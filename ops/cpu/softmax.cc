// CPU kernels of ops/definitions/softmax.cc.
#include "ops/definitions/softmax.h"

#include <algorithm>

#include "ops/cpu/convert16.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/softmax_lines.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// One or two inputs of one shape, seen as lines along an axis. Lines that are not contiguous, or
// not in the compute type, are copied to the scratch memory first.
template <typename T>
class LinesKernel final : public Kernel {
  using A = Compute<T>;

 public:
  LinesKernel(const KernelSetup& setup, SoftmaxLines lines) : lines_(lines) {
    const Shape& shape = setup.input(0).shape;
    const int axis = softmax_axis(setup.attrs(), shape.rank());
    size_ = shape[axis];
    inner_ = shape.elements(axis + 1, shape.rank());
    // Lines of no elements need no work. The functions of lines require at least one.
    count_ = size_ == 0 ? 0 : shape.elements(0, axis) * inner_;
    if (setup.tile_rows > 0) {
      tile_lines_ =
          std::max<int64_t>(1, setup.tile_rows * (count_ / std::max<int64_t>(1, shape[0])));
      tiles_ = tile_count(shape[0], setup.tile_rows);
    } else {
      tile_lines_ = default_tile_rows(count_, size_);
      tiles_ = tile_count(count_, tile_lines_);
    }
    // If the axis is the last one and needs no conversion, lines are computed in place.
    direct_ = inner_ == 1 && std::is_same_v<T, A>;
  }
  int tiles(int) const override { return tiles_; }
  size_t scratch_bytes() const override {
    return direct_ ? 0 : static_cast<size_t>(size_) * 3 * sizeof(A);
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(count_, (tile + 1) * tile_lines_);
    for (int64_t line = tile * tile_lines_; line < end; ++line) run_line(context, line);
    return Progress::done;
  }

 private:
  // Line number `line` starts at (outer, inner) = (line / inner_, line % inner_), and its elements
  // are inner_ apart.
  void run_line(KernelContext& context, int64_t line) const {
    const int64_t at = line / inner_ * size_ * inner_ + line % inner_;
    const bool two =
        lines_ == SoftmaxLines::softmax_grad || lines_ == SoftmaxLines::log_softmax_grad;
    if constexpr (std::is_same_v<T, A>) {
      if (direct_)
        return compute(context.in<T>(0) + at, two ? context.in<T>(1) + at : nullptr,
                       context.out<T>(0) + at);
    }
    // The scratch memory has the lines of both inputs and of the output.
    A* a = reinterpret_cast<A*>(context.scratch);
    A *b = a + size_, *y = b + size_;
    gather(context.in<T>(0) + at, a);
    if (two) gather(context.in<T>(1) + at, b);
    compute(a, b, y);
    T* out = context.out<T>(0) + at;
    if constexpr (!std::is_same_v<T, A>) {
      if (inner_ == 1) return narrow(y, out, size_);
    }
    for (int64_t i = 0; i < size_; ++i) out[i * inner_] = store_from_compute<T>(y[i]);
  }
  void gather(const T* from, A* to) const {
    if constexpr (!std::is_same_v<T, A>) {
      if (inner_ == 1) return widen(from, to, size_);
    }
    for (int64_t i = 0; i < size_; ++i) to[i] = load_as_compute(from[i * inner_]);
  }
  void compute(const A* a, const A* b, A* y) const {
    switch (lines_) {
      case SoftmaxLines::softmax:
        return softmax_line(a, y, size_);
      case SoftmaxLines::log_softmax:
        return log_softmax_line(a, y, size_);
      case SoftmaxLines::softmax_grad:
        return softmax_grad_line(a, b, y, size_);
      case SoftmaxLines::log_softmax_grad:
        return log_softmax_grad_line(a, b, y, size_);
    }
  }

  SoftmaxLines lines_;
  int64_t size_ = 1, inner_ = 1, count_ = 0;
  int64_t tile_lines_ = 1;
  int tiles_ = 1;
  bool direct_ = false;
};

// The factory of one variant. The kernel is a template over the dtype; the variant is its member.
KernelFactory kernel_of(SoftmaxLines lines) {
  return [lines](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
      return std::make_unique<LinesKernel<T>>(setup, lines);
    });
  };
}

}  // namespace

void add_softmax_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Softmax", "cpu", kernel_of(SoftmaxLines::softmax));
  catalogue.add_kernel("LogSoftmax", "cpu", kernel_of(SoftmaxLines::log_softmax));
  catalogue.add_kernel("leat.SoftmaxGrad", "cpu", kernel_of(SoftmaxLines::softmax_grad));
  catalogue.add_kernel("leat.LogSoftmaxGrad", "cpu", kernel_of(SoftmaxLines::log_softmax_grad));
}

}  // namespace leat
