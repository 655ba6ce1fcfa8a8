#include <algorithm>

#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/softmax_lines.h"
#include "ops/cpu/tree_sum.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

enum class Lines : uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

int axis_of(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis", -1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// One or two inputs of one shape, seen as lines along an axis; lines that do not lie together, or
// are not in the type that is computed in, pass through the scratch.
template <typename T>
class LinesKernel final : public Kernel {
  using A = Compute<T>;

 public:
  LinesKernel(const KernelSetup& setup, Lines lines) : lines_(lines) {
    const Shape& shape = setup.input(0).shape;
    const int axis = axis_of(setup.attrs(), shape.rank());
    size_ = shape[axis];
    inner_ = shape.elements(axis + 1, shape.rank());
    count_ = size_ == 0 ? 0 : shape.elements(0, axis) * inner_;
    if (setup.tile_rows > 0) {
      tile_lines_ =
          std::max<int64_t>(1, setup.tile_rows * (count_ / std::max<int64_t>(1, shape[0])));
      tiles_ = tile_count(shape[0], setup.tile_rows);
    } else {
      tile_lines_ = default_tile_rows(count_, size_);
      tiles_ = tile_count(count_, tile_lines_);
    }
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
  void run_line(KernelContext& context, int64_t line) const {
    const int64_t at = line / inner_ * size_ * inner_ + line % inner_;
    const bool two = lines_ == Lines::softmax_grad || lines_ == Lines::log_softmax_grad;
    if constexpr (std::is_same_v<T, A>) {
      if (direct_)
        return compute(context.in<T>(0) + at, two ? context.in<T>(1) + at : nullptr,
                       context.out<T>(0) + at);
    }
    A* a = reinterpret_cast<A*>(context.scratch);
    A *b = a + size_, *y = b + size_;
    gather(context.in<T>(0) + at, a);
    if (two) gather(context.in<T>(1) + at, b);
    compute(a, b, y);
    T* out = context.out<T>(0) + at;
    for (int64_t i = 0; i < size_; ++i) out[i * inner_] = store_from_compute<T>(y[i]);
  }
  void gather(const T* from, A* to) const {
    for (int64_t i = 0; i < size_; ++i) to[i] = load_as_compute(from[i * inner_]);
  }
  void compute(const A* a, const A* b, A* y) const {
    switch (lines_) {
      case Lines::softmax:
        return softmax_line(a, y, size_);
      case Lines::log_softmax:
        return log_softmax_line(a, y, size_);
      case Lines::softmax_grad:
        return softmax_grad_line(a, b, y, size_);
      case Lines::log_softmax_grad:
        return log_softmax_grad_line(a, b, y, size_);
    }
  }

  Lines lines_;
  int64_t size_ = 1, inner_ = 1, count_ = 0;
  int64_t tile_lines_ = 1;
  int tiles_ = 1;
  bool direct_ = false;
};

KernelFactory kernel_of(Lines lines) {
  return [lines](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
    return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
      return std::make_unique<LinesKernel<T>>(setup, lines);
    });
  };
}

Status infer_lines(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(
      [[maybe_unused]] const int axis,
      normalize_axis(ctx, attr_int(ctx.attrs(), "axis", -1), ctx.shape(0).rank()));
  return infer_same_as_first(ctx);
}

Status infer_lines_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(infer_lines(ctx));
  if (ctx.shape(0).is_constant() && ctx.shape(1).is_constant() && !(ctx.shape(0) == ctx.shape(1))) {
    return ctx.error("expected one shape, dy is " + ctx.text(ctx.shape(0)) + ", y is " +
                     ctx.text(ctx.shape(1)));
  }
  ctx.set_output(0, ctx.input(1));
  return {};
}

Tiling tile_lines(const OpTypes& types) {
  const Shape& shape = types.inputs[0].shape;
  if (axis_of(*types.attrs, shape.rank()) == 0) return {};
  return {shape[0], types.inputs.size() == 2 ? 3u : 1u, 1};
}

// Any axis but that of the lines.
std::vector<ShardingRule> shard_lines(const std::vector<OperandType>& inputs,
                                      const std::vector<OperandType>&, const Attrs& attrs) {
  std::vector<ShardingRule> rules;
  const int rank = inputs[0].shape.rank(), axis = axis_of(attrs, rank);
  for (int i = 0; i < rank; ++i) {
    if (i != axis)
      rules.push_back({std::vector<Spread>(inputs.size(), Spread::on(i)), {Spread::on(i)}});
  }
  return rules;
}

Op softmax_op(const char* name, Lines lines, const char* grad_op) {
  return Op(name, 13)
      .input("input", "T")
      .output("output", "T")
      .attr("axis", int64_t{-1})
      .type("T", kFloats)
      .in_place(0, 0)
      .infer(infer_lines)
      .gradient([grad_op](GradientContext& ctx) -> Status {
        const Attrs attrs = {{"axis", attr_int(ctx.node().attrs, "axis", -1)}};
        ctx.set_grad(0, ctx.emit(grad_op, {ctx.grad(0), ctx.output(0)}, attrs));
        return {};
      })
      .sharding(shard_lines)
      .tiling(tile_lines)
      .kernel("cpu", kernel_of(lines));
}

Op grad_op(const char* name, Lines lines) {
  return Op(name)
      .input("dy", "T")
      .input("y", "T")
      .output("dx", "T")
      .attr("axis", int64_t{-1})
      .type("T", kFloats)
      .infer(infer_lines_grad)
      .sharding(shard_lines)
      .tiling(tile_lines)
      .kernel("cpu", kernel_of(lines));
}

}  // namespace

void register_softmax_ops(Catalogue& catalogue) {
  catalogue.add(softmax_op("Softmax", Lines::softmax, "leat.SoftmaxGrad"));
  catalogue.add(softmax_op("LogSoftmax", Lines::log_softmax, "leat.LogSoftmaxGrad"));
  catalogue.add(grad_op("leat.SoftmaxGrad", Lines::softmax_grad));
  catalogue.add(grad_op("leat.LogSoftmaxGrad", Lines::log_softmax_grad));
}

}  // namespace leat
