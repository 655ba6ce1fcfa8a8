#include <algorithm>

#include "devices/base/text.h"
#include "devices/core/tensor.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/reduce_kernels.h"
#include "ops/definitions/reduce_shape.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

// Computes dx of a block of rows, line by line. Each line of x belongs to one result, or, element
// by element, to as many results. Max, min and prod first count the elements of each result that
// they depend on.
template <typename T>
class ReduceGradKernel final : public Kernel {
  using A = Compute<T>;

 public:
  ReduceGradKernel(const KernelSetup& setup, const ReduceShape& shape, Reduction reduction)
      : shape_(shape), reduction_(reduction) {
    // The gradient of max and min is shared equally by all elements that are equal to the result.
    const bool counts =
        reduction == Reduction::max || reduction == Reduction::min || reduction == Reduction::prod;
    counts_ = counts;
    // dx can be cut along dimension 0 of x even if that is reduced, unless a count spans it.
    if (!shape.has_rows && !counts && setup.input(1).shape.rank() > 0)
      split_reduced_rows(setup.input(1).shape);
    tile_rows_ =
        setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(shape_.rows, shape_.row_elements);
  }
  int tiles(int) const override { return tile_count(shape_.rows, tile_rows_); }
  size_t workspace_bytes() const override {
    return counts_ ? static_cast<size_t>(shape_.rows * shape_.row_results) *
                         (sizeof(A) + sizeof(int64_t))
                   : 0;
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t first = tile * tile_rows_, end = std::min(shape_.rows, first + tile_rows_);
    if (counts_) count(context, first, end);
    for (int64_t row = first; row < end; ++row) {
      each_line(row, [&](int64_t at, int64_t result) { write_line(context, at, result); });
    }
    return Progress::done;
  }

 private:
  // The rows become slices of the reduced axis 0: all of them share the results.
  void split_reduced_rows(const Shape& x) {
    Shape rest(x.dims().subspan(1));
    shape_.rows = x[0];
    shape_.row_elements = rest.elements();
    shared_results_ = true;
    if (x[0] <= 1) return;  // axis 0 was not merged
    // The outermost merged axis is reduced and starts with axis 0: this divides it by that size.
    if (shape_.reduced.count > 0) {
      shape_.reduced.sizes[0] /= x[0];
      shape_.reduced.total /= x[0];
    } else {
      shape_.line = shape_.row_elements;
    }
  }

  // Calls f(offset of the line in x, offset of its first result).
  template <typename F>
  void each_line(int64_t row, F&& f) const {
    const int64_t line_results = shape_.line_reduced ? 1 : shape_.line;
    const int64_t base = shared_results_ ? 0 : row * shape_.row_results;
    for (int64_t k = 0; k < shape_.kept.total; ++k) {
      const int64_t at = row * shape_.row_elements + shape_.kept.offset(k);
      for (int64_t r = 0; r < shape_.reduced.total; ++r) {
        f(at + shape_.reduced.offset(r), base + k * line_results);
      }
    }
  }

  // For each result, counts the elements that are equal to it; for prod, counts the zeros and
  // computes the product of the other elements.
  void count(KernelContext& context, int64_t first, int64_t end) const {
    A* rest = products(context);
    int64_t* hits = counters(context);
    // A tile owns the results of its rows: `counts` excludes rows that share results.
    const int64_t from = first * shape_.row_results, to = end * shape_.row_results;
    std::fill(rest + from, rest + to, A(1));
    std::fill(hits + from, hits + to, 0);
    const T *x = context.in<T>(1), *y = context.in<T>(2);
    for (int64_t row = first; row < end; ++row) {
      each_line(row, [&](int64_t at, int64_t result) {
        for (int64_t i = 0; i < shape_.line; ++i) {
          const int64_t g = shape_.line_reduced ? result : result + i;
          const A value = load_as_compute(x[at + i]);
          if (reduction_ != Reduction::prod)
            hits[g] += is_hit(value, load_as_compute(y[g]));
          else if (value == 0)
            ++hits[g];
          else
            rest[g] *= value;
        }
      });
    }
  }
  // The gradient of a NaN result goes to the NaN elements.
  static bool is_hit(A x, A y) { return x == y || (x != x && y != y); }
  int64_t* counters(KernelContext& context) const {
    return reinterpret_cast<int64_t*>(context.workspace);
  }
  A* products(KernelContext& context) const {
    return reinterpret_cast<A*>(counters(context) + shape_.rows * shape_.row_results);
  }

  // The gradient of a sum needs no x: it is copied to each element of the line.
  void write_line(KernelContext& context, int64_t at, int64_t result) const {
    const T* dy = context.in<T>(0);
    T* dx = context.out<T>(0) + at;
    if (reduction_ == Reduction::sum && shape_.line_reduced) {
      std::fill_n(dx, shape_.line, dy[result]);
    } else if (reduction_ == Reduction::sum) {
      std::copy_n(dy + result, shape_.line, dx);
    } else {
      const T* x = context.in<T>(1) + at;
      for (int64_t i = 0; i < shape_.line; ++i) {
        const int64_t g = shape_.line_reduced ? result : result + i;
        dx[i] = store_from_compute<T>(
            element(context, load_as_compute(x[i]), load_as_compute(dy[g]), g));
      }
    }
  }

  // dx of one element x, whose result has the index g and the gradient dy.
  A element(KernelContext& context, A x, A dy, int64_t g) const {
    switch (reduction_) {
      case Reduction::mean:
        return dy / static_cast<A>(count_of_mean());
      case Reduction::sum_square:
        return 2 * x * dy;
      case Reduction::l1:
        return x > 0 ? dy : x < 0 ? -dy : A(0);
      case Reduction::l2: {
        const A y = load_as_compute(context.in<T>(2)[g]);
        // The root has no derivative at 0; the gradient is defined as 0 there.
        return y == 0 ? A(0) : dy * (x / y);
      }
      case Reduction::max:
      case Reduction::min: {
        const bool hit = is_hit(x, load_as_compute(context.in<T>(2)[g]));
        return hit ? dy / static_cast<A>(counters(context)[g]) : A(0);
      }
      case Reduction::prod: {
        // The product of the others: with one zero, only that element has a gradient; with more,
        // none has.
        const int64_t zeros = counters(context)[g];
        if (zeros > 1 || (zeros == 1 && x != 0)) return 0;
        return dy * (x == 0 ? products(context)[g] : products(context)[g] / x);
      }
      default:
        return dy;
    }
  }
  int64_t count_of_mean() const { return shape_.folded; }

  ReduceShape shape_;
  Reduction reduction_;
  bool counts_ = false;
  bool shared_results_ = false;
  int64_t tile_rows_ = 1;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_reduce_grad_kernel(const KernelSetup& setup) {
  const std::string name = attr_string(setup.attrs(), "reduction");
  Reduction reduction = Reduction::sum;
  // Inference has checked the name, so the search ends.
  while (reduction_name(reduction) != name)
    reduction = static_cast<Reduction>(static_cast<int>(reduction) + 1);
  const Shape& x = setup.input(1).shape;
  const ReduceShape shape = make_reduce_shape(x, reduced_axes(setup, 3, x.rank()));
  // dy and y must have one element for each result. Inference may have seen symbols.
  for (int i : {0, 2}) {
    if (!setup.types.has_input(i)) continue;
    const int64_t expected = (shape.has_rows ? shape.rows : 1) * shape.row_results,
                  received = setup.input(i).shape.elements();
    if (expected != received) {
      return invalid_argument(cat(setup.subject, ": input ", i, ": expected ", expected,
                                  " results of the reduction, received ", received));
    }
  }
  return dispatch_float(setup.input(1).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<ReduceGradKernel<T>>(setup, shape, reduction);
  });
}

}  // namespace leat
