// The CTC loss, by the forward and backward recursion of Graves et al., Connectionist Temporal
// Classification (2006), in logarithms of f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// log(e^a + e^b).
double log_add(double a, double b) {
  const double most = std::max(a, b), least = std::min(a, b);
  return most == kImpossible ? kImpossible : most + std::log1p(std::exp(least - most));
}

// A row: its labels with a blank around each, which are the paper's l'. State s of 2 * labels + 1
// is a blank if s is even, else label (s - 1) / 2.
template <typename T>
struct CtcRow {
  const T* log_probs;  // [times, classes]
  const int64_t* labels;
  int64_t times, classes, blank;
  int64_t states;

  int64_t symbol(int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  // A path may go from state s - 2 to state s, past the blank between two different labels.
  bool skips_to(int64_t s) const {
    return s % 2 == 1 && s >= 3 && labels[s / 2] != labels[s / 2 - 1];
  }
  double emit(int64_t t, int64_t s) const {
    return static_cast<double>(log_probs[t * classes + symbol(s)]);
  }
};

// alpha(t, s) = log of the probability of all beginnings of paths that are in state s at time t.
// `now` and `before` are those of times t and t - 1.
template <typename T>
void forward(const CtcRow<T>& row, int64_t t, const double* before, double* now) {
  for (int64_t s = 0; s < row.states; ++s) {
    double paths = kImpossible;
    if (t == 0) {
      if (s < 2) paths = 0;
    } else {
      paths = before[s];
      if (s > 0) paths = log_add(paths, before[s - 1]);
      if (row.skips_to(s)) paths = log_add(paths, before[s - 2]);
    }
    now[s] = paths == kImpossible ? kImpossible : paths + row.emit(t, s);
  }
}

// beta(t, s) = log of the probability of all ends of paths behind state s at time t, without what
// the state itself emits. `after` is that of time t + 1.
template <typename T>
void backward(const CtcRow<T>& row, int64_t t, const double* after, double* now) {
  for (int64_t s = 0; s < row.states; ++s) {
    if (t + 1 == row.times) {
      now[s] = s + 2 >= row.states ? 0 : kImpossible;
      continue;
    }
    now[s] = after[s] + row.emit(t + 1, s);
    if (s + 1 < row.states) now[s] = log_add(now[s], after[s + 1] + row.emit(t + 1, s + 1));
    if (s + 2 < row.states && row.skips_to(s + 2))
      now[s] = log_add(now[s], after[s + 2] + row.emit(t + 1, s + 2));
  }
}

// The log of the probability of the labels, from alpha of the last time.
double ended(const double* last, int64_t states) {
  return states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0];
}

template <typename T>
class CtcKernel final : public Kernel {
 public:
  CtcKernel(const KernelSetup& setup, bool gradient)
      : gradient_(gradient),
        first_(gradient ? 1 : 0),
        rows_(setup.input(first_).shape[0]),
        times_(setup.input(first_).shape[1]),
        classes_(setup.input(first_).shape[2]),
        labels_(setup.input(first_ + 1).shape[1]),
        blank_(attr_int(setup.attrs(), "blank")),
        zero_infinity_(attr_int(setup.attrs(), "zero_infinity") != 0),
        first_row_(setup.node ? setup.node->first_row : 0),
        dtypes_{dtype_of(setup, 1), dtype_of(setup, 2), dtype_of(setup, 3)},
        subject_(setup.subject) {
    const int64_t work = times_ * (classes_ + 6 * labels_ + 3);
    tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows_, work);
  }

  int tiles(int) const override { return tile_count(rows_, tile_rows_); }
  // The labels of a row, and alpha of two times, or of all times and beta of two.
  size_t scratch_bytes() const override {
    const int64_t states = 2 * labels_ + 1, lines = gradient_ ? times_ + 2 : 2;
    return static_cast<size_t>(labels_ + lines * states) * sizeof(double);
  }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(rows_, (tile + 1) * tile_rows_);
    for (int64_t i = tile * tile_rows_; i < end; ++i) {
      auto* labels = reinterpret_cast<int64_t*>(context.scratch);
      CtcRow<T> row{context.in<T>(first_) + i * times_ * classes_, labels, 0, classes_, blank_, 1};
      if (!read(context, i, labels, row)) return Progress::failed;
      auto* lines = reinterpret_cast<double*>(context.scratch) + labels_;
      if (gradient_)
        write_gradient(context, i, row, lines);
      else
        context.out<T>(0)[i] = static_cast<T>(loss_of(row, lines));
    }
    return Progress::done;
  }

 private:
  // Of an input that stands so many places behind log_probs.
  DType dtype_of(const KernelSetup& setup, int behind) const {
    const int input = first_ + behind;
    return setup.types.has_input(input) ? setup.input(input).dtype : DType::invalid;
  }

  bool fail(KernelContext& context, int64_t row, const std::string& what) const {
    context.step->fail(
        context.instruction,
        invalid_argument(cat(subject_, ": row ", first_row_ + row, ": expected ", what)));
    return false;
  }

  // Reads a length; all of the axis if there is none. False if it is out of range.
  bool length(KernelContext& context, int behind, int64_t row, int64_t most, std::string_view name,
              int64_t& out) const {
    const DType dtype = dtypes_[behind - 1];
    out = most;
    if (dtype == DType::invalid) return true;
    out = int_at(context.inputs[first_ + behind], dtype, row);
    if (out >= 0 && out <= most) return true;
    return fail(context, row, cat("a ", name, " in [0, ", most, "], received ", out));
  }

  bool read(KernelContext& context, int64_t i, int64_t* labels, CtcRow<T>& row) const {
    int64_t count = 0;
    if (!length(context, 2, i, times_, "length of the output", row.times)) return false;
    if (!length(context, 3, i, labels_, "length of the labels", count)) return false;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t label = int_at(context.inputs[first_ + 1], dtypes_[0], i * labels_ + k);
      labels[k] = label;
      if (label >= 0 && label < classes_ && label != blank_) continue;
      return fail(context, i,
                  cat("labels in [0, ", classes_ - 1, "] other than the blank ", blank_,
                      ", received ", label, " as label ", k));
    }
    row.states = 2 * count + 1;
    return true;
  }

  // -log of the probability; an empty output has the empty labels alone.
  double loss_of(const CtcRow<T>& row, double* lines) const {
    double log_prob = row.states == 1 ? 0 : kImpossible;
    for (int64_t t = 0; t < row.times; ++t)
      forward(row, t, lines + (t + 1) % 2 * row.states, lines + t % 2 * row.states);
    if (row.times > 0) log_prob = ended(lines + (row.times - 1) % 2 * row.states, row.states);
    return log_prob == kImpossible && zero_infinity_ ? 0 : 0 - log_prob;
  }

  // The derivative by log_probs[t,c] is -(the share of the paths that emit class c at time t).
  void write_gradient(KernelContext& context, int64_t i, const CtcRow<T>& row,
                      double* alpha) const {
    T* out = context.out<T>(0) + i * times_ * classes_;
    std::fill_n(out, times_ * classes_, T{});
    if (row.times == 0) return;
    for (int64_t t = 0; t < row.times; ++t)
      forward(row, t, t > 0 ? alpha + (t - 1) * row.states : nullptr, alpha + t * row.states);
    const double total = ended(alpha + (row.times - 1) * row.states, row.states);
    if (total == kImpossible && zero_infinity_) return;
    const double scale = static_cast<double>(context.in<T>(0)[i]);
    double* beta = alpha + row.times * row.states;
    for (int64_t t = row.times - 1; t >= 0; --t) {
      double* now = beta + t % 2 * row.states;
      backward(row, t, beta + (t + 1) % 2 * row.states, now);
      for (int64_t s = 0; s < row.states; ++s) {
        // Without any path the shares are 0 / 0: NaN.
        const double share = std::exp(alpha[t * row.states + s] + now[s] - total);
        T& to = out[t * classes_ + row.symbol(s)];
        to = static_cast<T>(static_cast<double>(to) - scale * share);
      }
    }
  }

  const bool gradient_;
  const int first_;
  const int64_t rows_, times_, classes_, labels_, blank_;
  const bool zero_infinity_;
  const int64_t first_row_;
  const DType dtypes_[3];  // of the labels and the lengths; invalid: not given
  const std::string subject_;
  int64_t tile_rows_ = 1;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_ctc_kernel(const KernelSetup& setup, bool gradient) {
  if (setup.input(gradient ? 1 : 0).dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<CtcKernel<double>>(setup, gradient));
  return std::unique_ptr<Kernel>(std::make_unique<CtcKernel<float>>(setup, gradient));
}

}  // namespace leat
