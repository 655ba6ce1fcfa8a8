#include <algorithm>
#include <cmath>
#include <optional>

#include "devices/base/text.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/softmax_lines.h"
#include "ops/elements/tree_sum.h"
#include "ops/elements/vector_math.h"

namespace leat {
namespace {

// Scores are [rows, classes, inner]; a position is (row, inner index) and has one label.
struct Positions {
  Positions(const KernelSetup& setup, const Shape& scores, int labels_input)
      : rows(scores[0]),
        classes(scores[1]),
        inner(scores.elements(2, scores.rank())),
        first_row(setup.node ? setup.node->first_row : 0),
        wide(setup.input(labels_input).dtype == DType::i64),
        labels_input(labels_input),
        subject(setup.subject) {
    const auto ignore = setup.attrs().find("ignore_index");
    if (ignore != setup.attrs().end()) ignored = attr_int(setup.attrs(), "ignore_index");
  }
  int64_t label(const KernelContext& context, int64_t position) const {
    return wide ? context.in<int64_t>(labels_input)[position]
                : context.in<int32_t>(labels_input)[position];
  }
  // The index of the score of class 0 at `position`; the scores of classes are `inner` apart.
  int64_t offset(int64_t position) const {
    return position / inner * classes * inner + position % inner;
  }
  // The message names the row in the whole batch, not in this shard.
  Progress fail(KernelContext& context, int64_t position, int64_t label) const {
    const int64_t row = first_row + position / inner;
    context.step->fail(
        context.instruction,
        invalid_argument(cat(subject, ": label of row ", row,
                             inner > 1 ? cat(", position ", position % inner) : std::string(),
                             ": expected in [0, ", classes - 1, "], received ", label)));
    return Progress::failed;
  }

  int64_t rows, classes, inner, first_row;
  bool wide;
  int labels_input;
  std::optional<int64_t> ignored;
  std::string subject;
};

enum class Means : uint8_t { none, sum, mean };
Means means_of(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "reduction", "mean");
  return name == "none" ? Means::none : name == "sum" ? Means::sum : Means::mean;
}

// Phase 0, by rows: the log probabilities, and the loss and weight of each position. Phase 1: their
// sums. loss(position) = -weight(label) * log p(label). A position whose label is ignore_index has
// loss 0 and weight 0; the mean divides by the sum of the weights.
template <typename T>
class CrossEntropyKernel final : public Kernel {
  using A = Compute<T>;

 public:
  CrossEntropyKernel(const KernelSetup& setup, bool given)
      : at_(setup, setup.input(0).shape, 1),
        means_(means_of(setup.attrs())),
        given_(given),
        weighted_(setup.types.has_input(2)),
        keeps_log_prob_(setup.types.has_output(1)) {
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows
                                     : default_tile_rows(at_.rows, at_.classes * at_.inner);
    direct_ = std::is_same_v<T, A> && at_.inner == 1;
  }
  // Without a sum, phase 0 writes the losses to the output itself.
  int phases() const override { return means_ == Means::none ? 1 : 2; }
  int tiles(int phase) const override { return phase == 0 ? tile_count(at_.rows, tile_rows_) : 1; }
  // The losses of all positions, and then their weights.
  size_t workspace_bytes() const override {
    return means_ == Means::none ? 0 : static_cast<size_t>(2 * at_.rows * at_.inner) * sizeof(A);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * at_.classes) * sizeof(A); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 1) return reduce(context);
    const int64_t first = tile * tile_rows_ * at_.inner;
    const int64_t end = std::min(at_.rows, (tile + 1) * tile_rows_) * at_.inner;
    for (int64_t position = first; position < end; ++position) {
      if (!run_position(context, position))
        return at_.fail(context, position, at_.label(context, position));
    }
    return Progress::done;
  }

 private:
  // Computes one position; false if its label is out of range.
  bool run_position(KernelContext& context, int64_t position) const {
    const int64_t label = at_.label(context, position);
    const bool ignored = at_.ignored && label == *at_.ignored;
    // An ignored label may be out of range, so it must not be used as an index.
    const bool legal = label >= 0 && label < at_.classes;
    if (!ignored && !legal) return false;
    const int64_t offset = at_.offset(position);
    A log_prob = 0;
    if (given_) {
      if (legal) log_prob = load_as_compute(context.in<T>(0)[offset + label * at_.inner]);
    } else if (!ignored || keeps_log_prob_) {
      // The line of an ignored position is computed only if output 1 is wanted.
      const A* line = log_softmax_of(context, offset);
      if (legal) log_prob = line[label];
    }
    const A weight = ignored ? A(0) : weighted_ ? load_as_compute(context.in<T>(2)[label]) : A(1);
    const A loss = ignored ? A(0) : -log_prob * weight;
    if (means_ == Means::none) {
      context.out<T>(0)[position] = store_from_compute<T>(loss);
    } else {
      A* losses = reinterpret_cast<A*>(context.workspace);
      losses[position] = loss;
      losses[at_.rows * at_.inner + position] = weight;
    }
    return true;
  }

  // The log-softmax of a position's line, which is also written to output 1 if that is wanted.
  const A* log_softmax_of(KernelContext& context, int64_t offset) const {
    const T* x = context.in<T>(0) + offset;
    T* out = keeps_log_prob_ ? context.out<T>(1) + offset : nullptr;
    A* line = reinterpret_cast<A*>(context.scratch);
    // Contiguous lines of float or double are computed in place; others go through the scratch
    // memory.
    if constexpr (std::is_same_v<T, A>) {
      if (direct_) {
        A* to = out ? out : line;
        log_softmax_line(x, to, at_.classes);
        return to;
      }
    }
    for (int64_t c = 0; c < at_.classes; ++c) line[c] = load_as_compute(x[c * at_.inner]);
    A* result = line + at_.classes;
    log_softmax_line(line, result, at_.classes);
    for (int64_t c = 0; out && c < at_.classes; ++c)
      out[c * at_.inner] = store_from_compute<T>(result[c]);
    return result;
  }

  // Phase 1, one tile: the tree over all positions does not depend on the tiles of phase 0.
  Progress reduce(KernelContext& context) const {
    const int64_t positions = at_.rows * at_.inner;
    const A* losses = reinterpret_cast<const A*>(context.workspace);
    A loss = tree_sum(losses, positions);
    if (means_ == Means::mean) loss = loss / tree_sum(losses + positions, positions);
    context.out<T>(0)[0] = store_from_compute<T>(loss);
    return Progress::done;
  }

  Positions at_;
  Means means_;
  bool given_, weighted_, keeps_log_prob_ = false, direct_ = false;
  int64_t tile_rows_ = 1;
};

// Rows of the gradient, after a phase that sums the weights if a mean needs their sum. dx(class) =
// factor * (p(class) - [class is the label]), or, with given log probabilities, -factor at the
// label and 0 elsewhere.
template <typename T>
class CrossEntropyGradKernel final : public Kernel {
  using A = Compute<T>;

 public:
  CrossEntropyGradKernel(const KernelSetup& setup, bool given)
      : at_(setup, setup.input(1).shape, 2),
        means_(means_of(setup.attrs())),
        given_(given),
        weighted_(setup.types.has_input(3)) {
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows
                                     : default_tile_rows(at_.rows, at_.classes * at_.inner);
    // Without weights and without an ignored label, all weights are 1, and their sum is the number
    // of positions.
    sums_weights_ = means_ == Means::mean && (weighted_ || at_.ignored);
  }
  int phases() const override { return sums_weights_ ? 2 : 1; }
  int row_phase() const override { return sums_weights_ ? 1 : 0; }
  int tiles(int phase) const override {
    return phase == row_phase() ? tile_count(at_.rows, tile_rows_) : 1;
  }
  // The sum of the weights, and then the weights of all positions.
  size_t workspace_bytes() const override {
    return sums_weights_ ? static_cast<size_t>(at_.rows * at_.inner + 1) * sizeof(A) : 0;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * at_.classes) * sizeof(A); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase != row_phase()) return sum_weights(context);
    const int64_t first = tile * tile_rows_ * at_.inner;
    const int64_t end = std::min(at_.rows, (tile + 1) * tile_rows_) * at_.inner;
    for (int64_t position = first; position < end; ++position) {
      const int64_t label = at_.label(context, position);
      const bool ignored = at_.ignored && label == *at_.ignored;
      if (!ignored && (label < 0 || label >= at_.classes))
        return at_.fail(context, position, label);
      write(context, position, label, ignored ? A(0) : factor(context, position, label));
    }
    return Progress::done;
  }

 private:
  A weight(const KernelContext& context, int64_t label) const {
    if (at_.ignored && label == *at_.ignored) return 0;
    if (label < 0 || label >= at_.classes) return 0;  // fails in the phase of rows
    return weighted_ ? load_as_compute(context.in<T>(3)[label]) : A(1);
  }
  Progress sum_weights(KernelContext& context) const {
    const int64_t positions = at_.rows * at_.inner;
    A* weights = reinterpret_cast<A*>(context.workspace) + 1;
    for (int64_t i = 0; i < positions; ++i) weights[i] = weight(context, at_.label(context, i));
    weights[-1] = tree_sum(weights, positions);
    return Progress::done;
  }
  // The derivative of the loss with respect to -log p(label) at a position.
  A factor(const KernelContext& context, int64_t position, int64_t label) const {
    const A dloss = load_as_compute(context.in<T>(0)[means_ == Means::none ? position : 0]);
    const A scaled = dloss * weight(context, label);
    if (means_ != Means::mean) return scaled;
    if (sums_weights_) return scaled / reinterpret_cast<const A*>(context.workspace)[0];
    return scaled / static_cast<A>(at_.rows * at_.inner);
  }
  // The rows of positions with factor 0 are exactly zero, even if their log probabilities are NaN.
  void write(KernelContext& context, int64_t position, int64_t label, A factor) const {
    const int64_t offset = at_.offset(position);
    T* dx = context.out<T>(0) + offset;
    if (factor == 0 || given_) {
      for (int64_t c = 0; c < at_.classes; ++c) dx[c * at_.inner] = T{};
      if (factor != 0) dx[label * at_.inner] = store_from_compute<T>(-factor);
      return;
    }
    const T* log_prob = context.in<T>(1) + offset;
    if constexpr (std::is_same_v<T, A>) {
      if (at_.inner == 1) {
        scaled_exp_line(log_prob, factor, dx, at_.classes);
        dx[label] -= factor;
        return;
      }
    }
    A* line = reinterpret_cast<A*>(context.scratch);
    for (int64_t c = 0; c < at_.classes; ++c) line[c] = load_as_compute(log_prob[c * at_.inner]);
    scaled_exp_line(line, factor, line + at_.classes, at_.classes);
    line[at_.classes + label] -= factor;
    for (int64_t c = 0; c < at_.classes; ++c)
      dx[c * at_.inner] = store_from_compute<T>(line[at_.classes + c]);
  }

  Positions at_;
  Means means_;
  bool given_, weighted_, sums_weights_ = false;
  int64_t tile_rows_ = 1;
};

// leat.CrossEntropy and its gradient, for what a plan for accelerators leaves to a CPU: by one
// thread.
template <typename S>
class StatsKernel final : public Kernel {
  using A = Compute<S>;

 public:
  StatsKernel(const KernelSetup& setup, bool gradient)
      : at_(setup, setup.input(gradient ? 1 : 0).shape, gradient ? 3 : 1),
        means_(means_of(setup.attrs())),
        gradient_(gradient),
        weighted_(setup.types.has_input(at_.labels_input + 1)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(at_.classes) * sizeof(A); }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(2 * at_.rows * at_.inner) * sizeof(A);
  }

  Progress run(KernelContext& context, int, int) override {
    const int64_t positions = at_.rows * at_.inner;
    A* const losses = reinterpret_cast<A*>(context.workspace);
    A* const weights = losses + positions;
    for (int64_t i = 0; i < positions; ++i) {
      const int64_t label = at_.label(context, i);
      const bool ignored = at_.ignored && label == *at_.ignored;
      if (!ignored && (label < 0 || label >= at_.classes)) return at_.fail(context, i, label);
      weights[i] = ignored ? A(0) : weighted_ ? context.in<A>(at_.labels_input + 1)[label] : A(1);
    }
    if (gradient_)
      write_gradients(context, weights, tree_sum(weights, positions));
    else
      write_losses(context, losses, weights);
    return Progress::done;
  }

 private:
  A score(const KernelContext& context, int64_t position, int64_t c) const {
    return load_as_compute(context.in<S>(gradient_ ? 1 : 0)[at_.offset(position) + c * at_.inner]);
  }
  void write_losses(KernelContext& context, A* losses, const A* weights) const {
    const int64_t positions = at_.rows * at_.inner;
    A* const line = reinterpret_cast<A*>(context.scratch);
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t c = 0; c < at_.classes; ++c) line[c] = score(context, i, c);
      const A largest = fold_line<MaxFold, AsIs>(line, at_.classes);
      for (int64_t c = 0; c < at_.classes; ++c) line[c] = vmath::exp(line[c] - largest);
      const A log_sum = std::log(tree_sum(line, at_.classes));
      context.out<A>(1)[i] = largest;
      context.out<A>(1)[positions + i] = log_sum;
      const int64_t label = at_.label(context, i);
      const bool ignored = at_.ignored && label == *at_.ignored;
      losses[i] = ignored ? A(0) : -((score(context, i, label) - largest) - log_sum) * weights[i];
    }
    if (means_ == Means::none) {
      std::copy_n(losses, positions, context.out<A>(0));
      return;
    }
    const A sum = tree_sum(losses, positions);
    context.out<A>(0)[0] = means_ == Means::mean ? sum / tree_sum(weights, positions) : sum;
  }
  void write_gradients(KernelContext& context, const A* weights, A sum_of_weights) const {
    const int64_t positions = at_.rows * at_.inner;
    const A* const stats = context.in<A>(2);
    for (int64_t i = 0; i < positions; ++i) {
      const int64_t label = at_.label(context, i);
      A factor(0);
      if (!at_.ignored || label != *at_.ignored)
        factor = context.in<A>(0)[means_ == Means::none ? i : 0] * weights[i];
      if (factor != 0 && means_ == Means::mean) factor = factor / sum_of_weights;
      for (int64_t c = 0; c < at_.classes; ++c) {
        A value(0);
        if (factor != 0) {
          value = vmath::exp((score(context, i, c) - stats[i]) - stats[positions + i]) * factor;
          if (c == label) value = value - factor;
        }
        context.out<S>(0)[at_.offset(i) + c * at_.inner] = store_from_compute<S>(value);
      }
    }
  }

  Positions at_;
  Means means_;
  bool gradient_, weighted_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_cross_entropy_stats_kernel(const KernelSetup& setup,
                                                                bool gradient) {
  return dispatch_float(setup.input(gradient ? 1 : 0).dtype,
                        [&]<typename S>(S) -> std::unique_ptr<Kernel> {
                          return std::make_unique<StatsKernel<S>>(setup, gradient);
                        });
}

Result<std::unique_ptr<Kernel>> make_cross_entropy_kernel(const KernelSetup& setup,
                                                          bool given_log_prob) {
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<CrossEntropyKernel<T>>(setup, given_log_prob);
  });
}

Result<std::unique_ptr<Kernel>> make_cross_entropy_grad_kernel(const KernelSetup& setup,
                                                               bool given_log_prob) {
  return dispatch_float(setup.input(1).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<CrossEntropyGradKernel<T>>(setup, given_log_prob);
  });
}

}  // namespace leat
