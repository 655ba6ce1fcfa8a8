// CPU kernels of ops/definitions/scatter.cc.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/indexing.h"
#include "ops/definitions/range.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

using elementwise::load;
using elementwise::store;

enum class Scatter { none, add, mul, min, max };

Scatter scatter_of(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "reduction", "none");
  return name == "add"   ? Scatter::add
         : name == "mul" ? Scatter::mul
         : name == "min" ? Scatter::min
         : name == "max" ? Scatter::max
                         : Scatter::none;
}

// The element after the update. Booleans add as `or` and multiply as `and`.
template <typename T>
T scattered(Scatter how, T was, T update) {
  if (how == Scatter::none) return update;
  if constexpr (std::is_same_v<T, bool>) {
    return how == Scatter::mul || how == Scatter::min ? was && update : was || update;
  } else {
    const auto a = load(was), b = load(update);
    using C = std::remove_const_t<decltype(a)>;
    switch (how) {
      case Scatter::add:
        return store<T>(static_cast<C>(a + b));
      case Scatter::mul:
        return store<T>(static_cast<C>(a * b));
      case Scatter::min:
        return store<T>(std::min(a, b));
      default:
        return store<T>(std::max(a, b));
    }
  }
}

// One tile: several updates of one element are done in the order of the indices.
Result<std::unique_ptr<Kernel>> make_scatter_elements(const KernelSetup& setup) {
  const Shape data = setup.input(0).shape, indices = setup.input(1).shape;
  const DType dtype = setup.output(0).dtype;
  const int axis = gather_axis(setup.attrs(), data.rank());
  const Scatter how = scatter_of(setup.attrs());
  return make_kernel([=, at = Indexing(setup, data, 1)](KernelContext& context) {
    const bool ok = dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      T* y = context.out<T>(0);
      std::copy_n(context.in<T>(0), data.elements(), y);
      return each_element(context, at, data, indices, axis, [&](int64_t j, int64_t offset) {
        y[offset] = scattered(how, y[offset], context.in<T>(2)[j]);
      });
    });
    return ok ? Progress::done : Progress::failed;
  });
}

// Tuples of indices into data of the shape [batch..., indexed..., line...].
class Tuples {
 public:
  Tuples(const KernelSetup& setup, const Shape& data, const Shape& indices, int batch_dims)
      : subject_(setup.subject), length_(static_cast<int>(indices[indices.rank() - 1])) {
    batches_ = data.elements(0, batch_dims);
    count_ = indices.elements(0, indices.rank() - 1);
    line_ = data.elements(batch_dims + length_, data.rank());
    for (int d = 0; d < length_; ++d) sizes_.push_back(data[batch_dims + d]);
    rows_ = std::accumulate(sizes_.begin(), sizes_.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t count() const { return count_; }
  int64_t line() const { return line_; }  // elements
  int64_t elements() const { return batches_ * rows_ * line_; }

  // The first element of the line that tuple j names; -1 after failing the step if a number is out
  // of range.
  int64_t at(const KernelContext& context, const int64_t* indices, int64_t j) const {
    int64_t row = 0;
    for (int d = 0; d < length_; ++d) {
      const int64_t size = sizes_[static_cast<size_t>(d)], given = indices[j * length_ + d];
      const int64_t index = given < 0 ? given + size : given;
      if (index < 0 || index >= size) {
        context.step->fail(context.instruction,
                           invalid_argument(cat(subject_, ": expected an index in [", -size, ", ",
                                                size - 1, "], received ", given, " in tuple ", j)));
        return -1;
      }
      row = row * size + index;
    }
    // Tuples are in the order of the batch: each part of it has equally many.
    const int64_t batch = batches_ == 0 ? 0 : j / std::max<int64_t>(1, count_ / batches_);
    return (batch * rows_ + row) * line_;
  }

 private:
  std::string subject_;
  int length_;
  int64_t batches_ = 1, count_ = 1, rows_ = 1, line_ = 1;
  std::vector<int64_t> sizes_;
};

Result<std::unique_ptr<Kernel>> make_scatter_nd(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  const Scatter how = scatter_of(setup.attrs());
  const Tuples tuples(setup, setup.input(0).shape, setup.input(1).shape, 0);
  return make_kernel([=](KernelContext& context) {
    const bool ok = dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      T* y = context.out<T>(0);
      std::copy_n(context.in<T>(0), tuples.elements(), y);
      for (int64_t j = 0; j < tuples.count(); ++j) {
        const int64_t at = tuples.at(context, context.in<int64_t>(1), j);
        if (at < 0) return false;
        const T* update = context.in<T>(2) + j * tuples.line();
        for (int64_t i = 0; i < tuples.line(); ++i)
          y[at + i] = scattered(how, y[at + i], update[i]);
      }
      return true;
    });
    return ok ? Progress::done : Progress::failed;
  });
}

Result<std::unique_ptr<Kernel>> make_gather_nd(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  const auto batch_dims = static_cast<int>(attr_int(setup.attrs(), "batch_dims"));
  const Tuples tuples(setup, setup.input(0).shape, setup.input(1).shape, batch_dims);
  return make_kernel([=](KernelContext& context) {
    const size_t line = static_cast<size_t>(tuples.line()) * dtype_size(dtype);
    for (int64_t j = 0; j < tuples.count(); ++j) {
      const int64_t at = tuples.at(context, context.in<int64_t>(1), j);
      if (at < 0) return Progress::failed;
      const size_t from = static_cast<size_t>(at) * dtype_size(dtype);
      if (line > 0)
        std::memcpy(context.out<std::byte>(0) + static_cast<size_t>(j) * line,
                    context.in<std::byte>(0) + from, line);
    }
    return Progress::done;
  });
}

// One tile, because several tuples may name one line of dx: its sum is in their order.
Result<std::unique_ptr<Kernel>> make_gather_nd_grad(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  const auto batch_dims = static_cast<int>(attr_int(setup.attrs(), "batch_dims"));
  const Tuples tuples(setup, setup.output(0).shape, setup.input(1).shape, batch_dims);
  return make_kernel([=](KernelContext& context) {
    const bool ok = dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      T* dx = context.out<T>(0);
      std::fill_n(dx, tuples.elements(), T{});
      for (int64_t j = 0; j < tuples.count(); ++j) {
        const int64_t at = tuples.at(context, context.in<int64_t>(1), j);
        if (at < 0) return false;
        const T* dy = context.in<T>(0) + j * tuples.line();
        for (int64_t i = 0; i < tuples.line(); ++i)
          dx[at + i] = scattered(Scatter::add, dx[at + i], dy[i]);
      }
      return true;
    });
    return ok ? Progress::done : Progress::failed;
  });
}

// The shape is known when the kernel is made: the numbers of the step must give it.
Result<std::unique_ptr<Kernel>> make_range(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  const int64_t length = setup.output(0).shape[0];
  return make_kernel([=, subject = setup.subject](KernelContext& context) {
    const auto operand = [&](int i) {
      Tensor value(dtype, Shape({1}));
      std::memcpy(value.raw(), context.in<std::byte>(i), dtype_size(dtype));
      return value;
    };
    const Tensor start = operand(0), delta = operand(2);
    const auto count = range_length(start, operand(1), delta);
    if (count != length) {
      context.step->fail(
          context.instruction,
          invalid_argument(cat(subject, ": expected ", length, " numbers, received ", start.at(0),
                               " to ", operand(1).at(0), " in steps of ", delta.at(0))));
      return Progress::failed;
    }
    Tensor out = Tensor::wrap(dtype, Shape({length}), context.out<std::byte>(0), nullptr);
    fill_range(out, start, delta);
    return Progress::done;
  });
}

// Row i of a matrix keeps its elements from i + k on (upper), or up to i + k.
Result<std::unique_ptr<Kernel>> make_trilu(const KernelSetup& setup) {
  const Shape& shape = setup.output(0).shape;
  const int rank = shape.rank();
  const int64_t rows = shape[rank - 2], columns = shape[rank - 1],
                matrices = shape.elements(0, rank - 2);
  const bool upper = attr_int(setup.attrs(), "upper", 1) != 0,
             has_k = setup.types.inputs.size() > 1;
  const DType dtype = setup.output(0).dtype;
  return make_kernel([=](KernelContext& context) {
    // Any k beyond the matrix means the same as one at its edge.
    const int64_t given = has_k && context.inputs[1] ? *context.in<int64_t>(1) : 0;
    const int64_t k = std::clamp(given, -rows - 1, columns + 1);
    dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      const T* x = context.in<T>(0);
      T* y = context.out<T>(0);
      for (int64_t line = 0; line < matrices * rows; ++line) {
        const int64_t edge = std::clamp<int64_t>(line % rows + k + (upper ? 0 : 1), 0, columns);
        const T* from = x + line * columns;
        T* to = y + line * columns;
        for (int64_t c = 0; c < columns; ++c) to[c] = (c >= edge) == upper ? from[c] : T{};
      }
    });
    return Progress::done;
  });
}

// The lines of a tensor along the axis that input 1 tells when the step runs, and the order of
// their elements.
class Cumulative {
 public:
  explicit Cumulative(const KernelSetup& setup)
      : shape_(setup.output(0).shape),
        axis_dtype_(setup.input(1).dtype),
        subject_(setup.subject),
        reverse_(attr_int(setup.attrs(), "reverse") != 0),
        exclusive_(attr_int(setup.attrs(), "exclusive") != 0) {}

  // Whether an element does not count in its own result.
  bool exclusive() const { return exclusive_; }

  // Calls visit(place, size) for each line: place(n) is the index of its element n in the order of
  // the fold. Fails the step if there is no such axis.
  template <typename Visit>
  Progress each_line(KernelContext& context, const Visit& visit) const {
    const int64_t given = int_at(context.inputs[1], axis_dtype_, 0), rank = shape_.rank();
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) {
      context.step->fail(context.instruction,
                         invalid_argument(cat(subject_, ": axis: expected in [", -rank, ", ",
                                              rank - 1, "], received ", given)));
      return Progress::failed;
    }
    const auto at = static_cast<int>(axis);
    const int64_t outer = shape_.elements(0, at), size = shape_[at],
                  inner = shape_.elements(at + 1, shape_.rank());
    for (int64_t line = 0; line < outer * inner; ++line) {
      const int64_t first = line / inner * size * inner + line % inner;
      const auto place = [&](int64_t n) { return first + (reverse_ ? size - 1 - n : n) * inner; };
      visit(place, size);
    }
    return Progress::done;
  }

 private:
  Shape shape_;
  DType axis_dtype_;
  std::string subject_;
  bool reverse_, exclusive_;
};

struct CumSumStep {
  static constexpr int kFirst = 0;
  template <typename C>
  static C apply(C sum, C x) {
    return static_cast<C>(sum + x);
  }
};
struct CumProdStep {
  static constexpr int kFirst = 1;
  template <typename C>
  static C apply(C product, C x) {
    return static_cast<C>(product * x);
  }
};

// The fold runs along the axis in its order, in the compute type: f16 and bf16 round each result
// once.
template <typename Step>
Result<std::unique_ptr<Kernel>> make_cumulative(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  return make_kernel([dtype, lines = Cumulative(setup)](KernelContext& context) {
    return dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_same_v<T, bool>) {
        return Progress::done;
      } else {
        const T* x = context.in<T>(0);
        T* y = context.out<T>(0);
        return lines.each_line(context, [&](const auto& place, int64_t size) {
          using C = decltype(load(T{}));
          C fold = static_cast<C>(Step::kFirst);
          for (int64_t n = 0; n < size; ++n) {
            const int64_t i = place(n);
            const C before = fold;
            fold = Step::apply(fold, load(x[i]));
            y[i] = store<T>(lines.exclusive() ? before : fold);
          }
        });
      }
    });
  });
}

// dx[i] is the product of the elements before i, times the sum of what each result from i on gets
// of its gradient: dy[j] and the product of the elements between i and j. Nothing is divided, so
// zeros need no care.
template <typename T>
void cum_prod_gradient_of_line(const T* x, const T* dy, T* dx, const auto& place, int64_t size,
                               bool exclusive) {
  T sum = 0;  // of the results behind element n, times the elements up to it
  for (int64_t n = size; n-- > 0;) {
    const int64_t i = place(n);
    if (!exclusive) sum += dy[i];
    dx[i] = sum;
    sum *= x[i];
    if (exclusive) sum += dy[i];
  }
  T before = 1;
  for (int64_t n = 0; n < size; ++n) {
    const int64_t i = place(n);
    dx[i] *= before;
    before *= x[i];
  }
}

Result<std::unique_ptr<Kernel>> make_cum_prod_grad(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  if (is_16bit_float(dtype)) return compute_in_f32(setup, make_cum_prod_grad);
  return make_kernel([dtype, lines = Cumulative(setup)](KernelContext& context) {
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      return lines.each_line(context, [&](const auto& place, int64_t size) {
        cum_prod_gradient_of_line(context.in<T>(0), context.in<T>(2), context.out<T>(0), place,
                                  size, lines.exclusive());
      });
    };
    return dtype == DType::f64 ? run(0.0) : run(0.0f);
  });
}

// Orders the places of a line by their elements. NaN counts as the largest number, and of equal
// elements the first place comes first.
template <typename T>
bool comes_before(const T* x, int64_t inner, int64_t a, int64_t b, bool largest) {
  const auto left = load(x[a * inner]), right = load(x[b * inner]);
  const bool left_nan = left != left, right_nan = right != right;
  if (left_nan || right_nan) {
    if (left_nan && right_nan) return a < b;
    return left_nan == largest;
  }
  if (left == right) return a < b;
  return largest ? left > right : left < right;
}

// The places are sorted whatever `sorted` says: that order is one of those that it leaves open.
class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const KernelSetup& setup)
      : dtype_(setup.output(0).dtype), largest_(attr_int(setup.attrs(), "largest", 1) != 0) {
    const Shape &x = setup.input(0).shape, &y = setup.output(0).shape;
    const int64_t given = attr_int(setup.attrs(), "axis", -1);
    const auto axis = static_cast<int>(given < 0 ? given + x.rank() : given);
    size_ = x[axis];
    k_ = y[axis];
    inner_ = x.elements(axis + 1, x.rank());
    lines_ = x.elements(0, axis) * inner_;
    values_ = setup.types.outputs.size() > 0;
    indices_ = setup.types.outputs.size() > 1;
    places_.resize(static_cast<size_t>(size_));
  }
  int tiles(int) const override { return 1; }

  Progress run(KernelContext& context, int, int) override {
    dispatch_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (!std::is_same_v<T, bool>) {
        for (int64_t line = 0; line < lines_; ++line) one_line<T>(context, line);
      }
    });
    return Progress::done;
  }

 private:
  template <typename T>
  void one_line(KernelContext& context, int64_t line) {
    const int64_t outer = line / inner_, in = line % inner_;
    const T* x = context.in<T>(0) + outer * size_ * inner_ + in;
    std::iota(places_.begin(), places_.end(), int64_t{0});
    std::partial_sort(
        places_.begin(), places_.begin() + k_, places_.end(),
        [&](int64_t a, int64_t b) { return comes_before(x, inner_, a, b, largest_); });
    for (int64_t n = 0; n < k_; ++n) {
      const int64_t to = (outer * k_ + n) * inner_ + in, place = places_[static_cast<size_t>(n)];
      if (values_ && context.outputs[0]) context.out<T>(0)[to] = x[place * inner_];
      if (indices_ && context.outputs[1]) context.out<int64_t>(1)[to] = place;
    }
  }

  const DType dtype_;
  const bool largest_;
  int64_t size_ = 1, k_ = 1, inner_ = 1, lines_ = 1;
  bool values_ = true, indices_ = true;  // the outputs that the node has
  std::vector<int64_t> places_;          // scratch: there is one tile
};

Result<std::unique_ptr<Kernel>> make_top_k(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<TopKKernel>(setup));
}

}  // namespace

void add_scatter_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("ScatterElements", "cpu", make_scatter_elements);
  catalogue.add_kernel("ScatterND", "cpu", make_scatter_nd);
  catalogue.add_kernel("GatherND", "cpu", make_gather_nd);
  catalogue.add_kernel("leat.GatherNDGrad", "cpu", make_gather_nd_grad);
  catalogue.add_kernel("Range", "cpu", make_range);
  catalogue.add_kernel("Trilu", "cpu", make_trilu);
  catalogue.add_kernel("CumSum", "cpu", make_cumulative<CumSumStep>);
  catalogue.add_kernel("CumProd", "cpu", make_cumulative<CumProdStep>);
  catalogue.add_kernel("leat.CumProdGrad", "cpu", make_cum_prod_grad);
  catalogue.add_kernel("TopK", "cpu", make_top_k);
}

}  // namespace leat
