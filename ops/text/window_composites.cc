// ONNX's ops whose values follow from sizes: windows of a signal, and EyeLike; and those that sum
// over windows of a value: LRN, LpPool, GlobalLpPool; and ReverseSequence.
//
// Source: ONNX's operator reference.
#include <numbers>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

DraftName int_scalar(CompositeMaker& m, int64_t value) {
  return m.constant(Tensor::scalar<int64_t>(value));
}

DraftName double_scalar(CompositeMaker& m, double value) {
  return m.constant(Tensor::scalar<double>(value));
}

// 0, 1, ... up to a scalar.
DraftName count_to(CompositeMaker& m, const DraftName& limit) {
  return m.op("Range", {int_scalar(m, 0), limit, int_scalar(m, 1)});
}

// The size of axis `axis` of x, as a scalar.
DraftName size_of(CompositeMaker& m, const DraftName& x, int64_t axis) {
  return m.op("Gather", {m.op("Shape", {x}), int_scalar(m, axis)});
}

// The sum of a k cos(2 pi k n / N) over the weights a, for n from 0 to the size; N is the size, or
// one less if the window is not periodic.
void cosine_window(CompositeMaker& m, const std::vector<double>& weights) {
  const DraftName size = m.op("Cast", {m.in(0)}, {{"to", Attr(int64_t{7})}});
  const bool periodic = m.integer("periodic", 1) != 0;
  const int64_t dtype = m.integer("output_datatype", 1);
  const DraftName period = m.op("Cast", {periodic ? size : m.op("Sub", {size, int_scalar(m, 1)})},
                                {{"to", Attr(int64_t{11})}});
  const DraftName n = m.op("Cast", {count_to(m, size)}, {{"to", Attr(int64_t{11})}});
  const DraftName angle =
      m.op("Div", {m.op("Mul", {n, double_scalar(m, 2 * std::numbers::pi)}), period});
  DraftName sum = double_scalar(m, weights[0]);
  for (size_t k = 1; k < weights.size(); ++k) {
    const DraftName cosine =
        m.op("Cos", {m.op("Mul", {angle, double_scalar(m, static_cast<double>(k))})});
    sum = m.op("Add", {sum, m.op("Mul", {cosine, double_scalar(m, weights[k])})});
  }
  m.op("Cast", {sum}, {{"to", Attr(dtype)}});
}

// The p-th root of the sum of |x|^p, where `sum` makes the sum.
template <typename Sum>
void norm(CompositeMaker& m, const DraftName& x, int64_t p, Sum&& sum) {
  if (p < 1) return m.fail(cat("p: expected at least 1, received ", p));
  const DraftName size = m.op("Abs", {x});
  if (p == 1) return sum(size);
  const auto power = static_cast<double>(p);
  sum(m.op("Pow", {size, m.scalar(power, x)}));
  m.op("Pow", {m.last(), m.scalar(1 / power, x)});
}

}  // namespace

void make_hann_window(CompositeMaker& m) { cosine_window(m, {0.5, -0.5}); }
void make_hamming_window(CompositeMaker& m) { cosine_window(m, {25.0 / 46.0, -21.0 / 46.0}); }
void make_blackman_window(CompositeMaker& m) { cosine_window(m, {0.42, -0.5, 0.08}); }

// 1 where the column is the row plus k.
void make_eye_like(CompositeMaker& m) {
  const DraftName x = m.in(0), column = m.ints({1});
  const DraftName first = int_scalar(m, m.integer("k", 0));
  const int64_t dtype = m.integer("dtype", 0);
  const DraftName rows = m.op("Add", {count_to(m, size_of(m, x, 0)), first});
  const DraftName ones =
      m.op("Equal", {m.op("Unsqueeze", {rows, column}), count_to(m, size_of(m, x, 1))});
  if (dtype == 0)
    m.op("CastLike", {ones, x});
  else
    m.op("Cast", {ones}, {{"to", Attr(dtype)}});
}

// x / (bias + alpha / size * the sum of the squares of `size` channels around)^beta.
void make_lrn(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const int64_t size = m.integer("size", 0);
  const double alpha = m.number("alpha", 1e-4), beta = m.number("beta", 0.75),
               bias = m.number("bias", 1);
  if (size < 1) return m.fail(cat("size: expected at least 1, received ", size));
  // [N,C,S] as an image of one channel: its mean over windows, with the zeros around it.
  const DraftName flat = m.op("Reshape", {x, m.ints({0, 0, -1})});
  const DraftName image = m.op("Unsqueeze", {m.op("Mul", {flat, flat}), m.ints({1})});
  const std::vector<int64_t> window{size, 1},
      pads{(size - 1) / 2, 0, size / 2, 0};  // as many behind, or one more
  const DraftName means = m.op("AveragePool", {image},
                               {{"kernel_shape", Attr(window)},
                                {"pads", Attr(pads)},
                                {"count_include_pad", Attr(int64_t{1})}});
  const DraftName sums = m.op("Mul", {m.op("Squeeze", {means, m.ints({1})}), m.scalar(alpha, x)});
  const DraftName root = m.op("Pow", {m.op("Add", {sums, m.scalar(bias, x)}), m.scalar(beta, x)});
  m.reshaped(m.op("Div", {flat, root}), m.op("Shape", {x}));
}

// The mean over a window, with the zeros around the value, times the size of the window.
void make_lp_pool(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const std::vector<int64_t> window = m.integers("kernel_shape", {});
  if (m.integer("ceil_mode", 0) != 0)
    return m.fail("ceil_mode: expected 0, windows beyond the padding are not supported");
  CompositeMaker::Attributes attrs{{"kernel_shape", Attr(window)},
                                   {"count_include_pad", Attr(int64_t{1})},
                                   {"auto_pad", Attr(m.text("auto_pad", "NOTSET"))}};
  for (const char* list : {"dilations", "pads", "strides"}) {
    const std::vector<int64_t> values = m.integers(list, {});
    if (!values.empty()) attrs.emplace(list, Attr(values));
  }
  double elements = 1;
  for (const int64_t size : window) elements *= static_cast<double>(size);
  norm(m, x, m.integer("p", 2), [&](const DraftName& powers) {
    m.op("Mul", {m.op("AveragePool", {powers}, attrs), m.scalar(elements, x)});
  });
}

void make_global_lp_pool(CompositeMaker& m) {
  const DraftName x = m.in(0);
  // All axes from the third one on.
  const DraftName rank = m.op("Squeeze", {m.op("Shape", {m.op("Shape", {x})}), m.ints({0})});
  const DraftName axes = m.op("Range", {int_scalar(m, 2), rank, int_scalar(m, 1)});
  norm(m, x, m.integer("p", 2), [&](const DraftName& powers) {
    m.op("ReduceSum", {powers, axes}, {{"keepdims", Attr(int64_t{1})}});
  });
}

// The first elements of each sequence, as many as its length, in the opposite order.
void make_reverse_sequence(CompositeMaker& m) {
  const DraftName x = m.in(0);
  const int64_t batch = m.integer("batch_axis", 1), time = m.integer("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    return m.fail(
        cat("expected the axes 0 and 1, received batch_axis ", batch, " and time_axis ", time));
  const DraftName over_time = m.ints({1 - time}), over_batch = m.ints({1 - batch});
  const DraftName lengths =
      m.op("Unsqueeze", {m.op("Cast", {m.in(1)}, {{"to", Attr(int64_t{7})}}), over_batch});
  const DraftName step = m.op("Unsqueeze", {count_to(m, size_of(m, x, time)), over_time});
  const DraftName from = m.op("Sub", {m.op("Sub", {lengths, int_scalar(m, 1)}), step});
  const DraftName steps = m.op("Where", {m.op("Less", {step, lengths}), from, step});
  // Pairs of a step and a row, in the order of the axes.
  const DraftName row = m.op("Unsqueeze", {count_to(m, size_of(m, x, batch)), over_batch});
  const DraftName rows = m.op("Expand", {row, m.op("Shape", {steps})});
  const DraftName last = m.ints({2});
  const DraftName a = m.op("Unsqueeze", {time == 0 ? steps : rows, last}),
                  b = m.op("Unsqueeze", {time == 0 ? rows : steps, last});
  m.op("GatherND", {x, m.op("Concat", {a, b}, {{"axis", Attr(int64_t{2})}})});
}

}  // namespace leat
