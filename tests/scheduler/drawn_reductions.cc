// Drawn calls of ops that combine the elements of some axes: reductions, softmax, normalizations.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The axes, of either sign, some of them or all.
Sizes some_axes(Drawer& draw, int rank, bool least_one) {
  Sizes axes;
  for (int i = 0; i < rank; ++i) {
    if (draw.once_in(2)) axes.push_back(draw.once_in(2) ? i : i - rank);
  }
  if (axes.empty() && least_one) axes.push_back(draw.from(-rank, rank - 1));
  return axes;
}

bool names(const Sizes& axes, int axis, int rank) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](int64_t a) { return positive(a, rank) == axis; });
}

// The shape without its axes: they are left out, or have size 1.
Shape without(const Shape& shape, const Sizes& axes, bool keep) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!names(axes, i, shape.rank())) {
      out.push_back(shape[i]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return out;
}

// The elements that differ only in `axes`: for each combination of the others, their places.
std::vector<Sizes> groups_of(const Shape& shape, const Sizes& axes) {
  const Shape kept = without(shape, axes, true);
  std::vector<Sizes> groups(static_cast<size_t>(kept.elements()));
  int64_t i = 0;
  for_each_index(shape, [&](const Sizes& index) {
    groups[static_cast<size_t>(place(kept, index))].push_back(i++);
  });
  return groups;
}

using Values = std::vector<double>;
Values values_of(const Tensor& x, const Sizes& places) {
  Values out;
  for (const int64_t i : places) out.push_back(x.at(i));
  return out;
}
template <typename F>
double sum_of(const Values& values, F&& f) {
  double sum = 0;
  for (const double x : values) sum += f(x);
  return sum;
}

struct Reduction {
  const char* op;
  DTypeSet types;
  double (*f)(const Values&);
};

double plain_sum(const Values& v) {
  return sum_of(v, [](double x) { return x; });
}
double squares(const Values& v) {
  return sum_of(v, [](double x) { return x * x; });
}
double largest_of(const Values& v) {
  return v.empty() ? -kInfinity : *std::max_element(v.begin(), v.end());
}
double smallest_of(const Values& v) {
  return v.empty() ? kInfinity : *std::min_element(v.begin(), v.end());
}
double product_of(const Values& v) {
  double product = 1;
  for (const double x : v) product *= x;
  return product;
}
double log_sum_exp(const Values& v) {
  const double most = largest_of(v);
  if (v.empty()) return -kInfinity;
  return most + std::log(sum_of(v, [&](double x) { return std::exp(x - most); }));
}

const std::vector<Reduction>& reductions() {
  static const std::vector<Reduction> kAll{
      {"ReduceSum", kNumbers, plain_sum},
      {"ReduceMean", kFloats,
       [](const Values& v) { return plain_sum(v) / static_cast<double>(v.size()); }},
      {"ReduceMax", kNumbers, largest_of},
      {"ReduceMin", kNumbers, smallest_of},
      {"ReduceProd", kFloats, product_of},
      {"ReduceSumSquare", kNumbers, squares},
      {"ReduceL1", kNumbers,
       [](const Values& v) { return sum_of(v, [](double x) { return std::abs(x); }); }},
      {"ReduceL2", kFloats, [](const Values& v) { return std::sqrt(squares(v)); }},
      {"ReduceLogSum", kFloats, [](const Values& v) { return std::log(plain_sum(v)); }},
      {"ReduceLogSumExp", kFloats, log_sum_exp},
  };
  return kAll;
}

// Bounds of what roundings of the terms may move.
double scale_of(const Values& v, bool product) {
  if (product) return std::abs(product_of(v)) * (1.0 + static_cast<double>(v.size()));
  return sum_of(v, [](double x) { return std::max(std::abs(x), x * x); });
}

void draw_reduction(Drawer& draw, DrawnOp& op) {
  const auto& table = reductions();
  const auto& r =
      *std::find_if(table.begin(), table.end(), [&](const Reduction& x) { return op.op == x.op; });
  const DType dtype = draw.dtype(r.types);
  const Shape shape = draw.shape(0, 5);
  Sizes axes = some_axes(draw, shape.rank(), false);
  const bool listed = draw.once_in(2) && shape.rank() > 0, keep = draw.once_in(2),
             noop = draw.once_in(4);
  if (!listed) axes.clear();
  const bool whole = op.op == "ReduceMax" || op.op == "ReduceMin";
  Shape drawn = shape;  // integers have no neutral value of these
  for (int i = 0; whole && !is_float(dtype) && i < drawn.rank(); ++i)
    drawn.set(i, std::max<int64_t>(drawn[i], 1));
  op.add(draw.tensor(dtype, drawn, op.op == "ReduceLogSum" ? 0.3 : -1.5, 1.5), true);
  if (draw.wrong(op)) {
    op.add_constant(i64s({draw.once_in(2) ? shape.rank() : -shape.rank() - 1}));
  } else if (listed) {
    op.add_constant(i64s(axes));
  }
  if (!keep || draw.once_in(2)) op.attrs["keepdims"] = int64_t{keep};
  if (noop) op.attrs["noop_with_empty_axes"] = int64_t{1};
  const bool nothing = axes.empty() && noop, product = op.op == "ReduceProd",
             logs = op.op.starts_with("ReduceLog");
  const bool all_axes = axes.empty() && !noop;
  for (int i = 0; all_axes && i < drawn.rank(); ++i) axes.push_back(i);
  op.same_bits = !logs;
  // Of no axes at all, these compute a function of each element, and the others nothing.
  op.returns([=, &r](const std::vector<Tensor>& in) {
    const Shape out = nothing ? drawn : without(drawn, axes, keep);
    PlainOutput y{Tensor(DType::f64, out), Tensor(DType::f64, out)};
    int64_t i = 0;
    for (const Sizes& group : groups_of(drawn, axes)) {
      const Values values = values_of(in[0], group);
      y.value.set(i, r.f(values));
      y.scale.set(i++, scale_of(values, product) + (logs ? 2 : 0));
    }
    return y;
  });
}

void draw_arg(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kNumbers);
  Shape shape = draw.shape(1, 4);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank(), &wrong);
  const int at_axis = wrong ? 0 : static_cast<int>(positive(axis, shape.rank()));
  shape.set(at_axis, std::max<int64_t>(shape[at_axis], 1));
  op.add(draw.tensor(dtype, shape));
  op.attrs["axis"] = axis;
  const bool keep = draw.once_in(2), last = draw.once_in(2), most = op.op == "ArgMax";
  if (!keep) op.attrs["keepdims"] = int64_t{0};
  if (last) op.attrs["select_last_index"] = int64_t{1};
  op.result = DType::i64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, without(shape, {at_axis}, keep)), {}};
    int64_t to = 0;
    for (const Sizes& group : groups_of(shape, {at_axis})) {
      const Values v = values_of(in[0], group);
      size_t best = 0;
      for (size_t i = 1; i < v.size(); ++i) {
        const bool better = most ? v[i] > v[best] : v[i] < v[best];
        if (better || (last && v[i] == v[best])) best = i;
      }
      y.value.set(to++, static_cast<double>(best));
    }
    return y;
  });
}

void draw_cumulative(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(op.op == "CumSum" ? kNumbers : kFloats);
  const Shape shape = draw.shape(1, 4);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank(), &wrong);
  const bool exclusive = draw.once_in(2), reverse = draw.once_in(2), sum = op.op == "CumSum";
  op.add(draw.tensor(dtype, shape, -1.5, 1.5), true);
  op.add_constant(Tensor::scalar<int64_t>(axis));
  if (exclusive) op.attrs["exclusive"] = int64_t{1};
  if (reverse) op.attrs["reverse"] = int64_t{1};
  op.slack = 40;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, shape), Tensor(DType::f64, shape)};
    for (Sizes group : groups_of(shape, {axis})) {
      if (reverse) std::reverse(group.begin(), group.end());
      double total = sum ? 0 : 1, scale = 0;
      for (const int64_t i : group) {
        const double next = sum ? total + in[0].at(i) : total * in[0].at(i);
        y.value.set(i, exclusive ? total : next);
        y.scale.set(i, scale += std::abs(sum ? in[0].at(i) : next));
        total = next;
      }
    }
    return y;
  });
}

void draw_top_k(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kNumbers);
  const Shape shape = draw.shape(1, 4);
  const int64_t axis = draw.axis(shape.rank());
  const int at_axis = static_cast<int>(positive(axis, shape.rank()));
  const bool wrong = draw.wrong(op), most = draw.once_in(2);
  const int64_t k = wrong ? shape[at_axis] + 1 : draw.from(0, shape[at_axis]);
  op.add(draw.tensor(dtype, shape), true);
  op.add_constant(i64s({k}));
  op.attrs["axis"] = axis;
  if (!most) op.attrs["largest"] = int64_t{0};
  op.outputs = 2;
  Shape out = shape;
  out.set(at_axis, k);
  op.plain = [=](const std::vector<Tensor>& in) {
    PlainOutput values{Tensor(DType::f64, out), {}}, indices{Tensor(DType::f64, out), {}};
    const auto from = groups_of(shape, {at_axis}), to = groups_of(out, {at_axis});
    for (size_t g = 0; g < to.size(); ++g) {
      Sizes order(from[g].size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      const Values v = values_of(in[0], from[g]);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const double x = v[static_cast<size_t>(a)], y = v[static_cast<size_t>(b)];
        return most ? x > y : x < y;
      });
      for (size_t i = 0; i < to[g].size(); ++i) {
        values.value.set(to[g][i], v[static_cast<size_t>(order[i])]);
        indices.value.set(to[g][i], static_cast<double>(order[i]));
      }
    }
    return std::vector{values, indices};
  };
}

// --- softmax and normalizations ------------------------------------------------------------------

void draw_softmax(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kFloats);
  Shape shape = draw.shape(1, 4);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank(), &wrong);
  const bool hard = op.op == "Hardmax", log = op.op == "LogSoftmax";
  if (hard && !wrong) {
    const int i = static_cast<int>(positive(axis, shape.rank()));
    shape.set(i, std::max<int64_t>(shape[i], 1));
  }
  op.add(draw.tensor(dtype, shape, -5, 5), !hard);
  op.attrs["axis"] = axis;
  op.slack = 16;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, shape), Tensor(DType::f64, shape)};
    for (const Sizes& group : groups_of(shape, {axis})) {
      const Values v = values_of(in[0], group);
      const double most = largest_of(v), sum = log_sum_exp(v);
      bool first = true;
      for (size_t i = 0; i < v.size(); ++i) {
        double value = log ? v[i] - sum : std::exp(v[i] - sum);
        if (hard) value = first && v[i] == most ? 1 : 0;
        if (v[i] == most) first = false;
        y.value.set(group[i], value);
        y.scale.set(group[i], hard ? 0 : log ? std::abs(sum) + std::abs(v[i]) : 0.1);
      }
    }
    return y;
  });
}

// (x - mean) / sqrt(variance + epsilon) of groups of places, and what roundings may move; without
// `centered`, x / sqrt(mean of squares + epsilon).
PlainOutput normalize(const Tensor& x, const std::vector<Sizes>& groups, double epsilon,
                      bool centered = true) {
  PlainOutput y{Tensor(DType::f64, x.shape()), Tensor(DType::f64, x.shape())};
  for (const Sizes& group : groups) {
    const Values v = values_of(x, group);
    const auto n = static_cast<double>(v.size());
    const double mean = centered ? plain_sum(v) / n : 0;
    const double variance = sum_of(v, [&](double a) { return (a - mean) * (a - mean); }) / n;
    const double root = std::sqrt(variance + epsilon);
    double most = 0;
    for (const double a : v) most = std::max(most, std::abs(a));
    for (size_t i = 0; i < v.size(); ++i) {
      y.value.set(group[i], (v[i] - mean) / root);
      y.scale.set(group[i], most / root * (1 + most * most / (variance + epsilon)));
    }
  }
  return y;
}

// Multiplies by the scale and adds the bias of each element; `of` gives their places.
void scale_and_shift(PlainOutput& y, const Tensor& scale, const Tensor& bias,
                     const std::function<int64_t(const Sizes&)>& of) {
  int64_t i = 0;
  for_each_index(y.value.shape(), [&](const Sizes& index) {
    const int64_t at = of(index);
    const double by = scale.at(at), plus = bias.valid() ? bias.at(at) : 0;
    y.value.set(i, y.value.at(i) * by + plus);
    y.scale.set(i, y.scale.at(i) * std::abs(by) + std::abs(plus));
    ++i;
  });
}

double draw_epsilon(Drawer& draw, DrawnOp& op) {
  if (!draw.trains() && draw.once_in(2)) return 1e-5;  // a small one bends the function
  op.attrs["epsilon"] = 0.125;
  return 0.125;
}

// Over the axes from `axis` on.
void draw_layer_norm(Drawer& draw, DrawnOp& op) {
  const bool rms = op.op == "RMSNormalization";
  const DType dtype = draw.dtype(kFloats);
  const Shape shape = draw.shape(1, 4);
  const int64_t axis = draw.axis(shape.rank());
  const int from = static_cast<int>(positive(axis, shape.rank()));
  Shape tail;
  for (int i = from; i < shape.rank(); ++i) tail.push_back(shape[i]);
  op.add(draw.tensor(dtype, shape), true);
  Shape other = tail;
  if (tail.elements() > 1 && tail[0] > 1 && draw.wrong(op)) other.set(0, other[0] + 1);
  op.add(draw.tensor(dtype, other), true);
  if (!rms && draw.once_in(2)) op.add(draw.tensor(dtype, tail), true);
  op.attrs["axis"] = axis;
  const double epsilon = draw_epsilon(draw, op);
  op.slack = 40;
  op.same_bits = !rms;
  op.returns([=](const std::vector<Tensor>& in) {
    Sizes axes;
    for (int i = from; i < shape.rank(); ++i) axes.push_back(i);
    PlainOutput y = normalize(in[0], groups_of(shape, axes), epsilon, !rms);
    scale_and_shift(y, in[1], in.size() > 2 ? in[2] : Tensor(),
                    [&](const Sizes& i) { return place(tail, i); });
    return y;
  });
}

// Over the groups of channels of [N, C, ...].
void draw_group_norm(Drawer& draw, DrawnOp& op) {
  const bool instance = op.op == "InstanceNormalization";
  const DType dtype = draw.dtype(kFloats);
  Shape shape = draw.shape(3, 5);
  const int64_t groups = draw.from(1, 3);
  shape.set(1, instance ? std::max<int64_t>(shape[1], 1) : groups * draw.from(1, 3));
  const int64_t channels = shape[1], parts = instance ? channels : groups;
  op.add(draw.tensor(dtype, shape), true);
  const bool wrong = draw.wrong(op);
  op.add(draw.tensor(dtype, Shape{wrong ? channels + 2 : channels}), true);
  op.add(draw.tensor(dtype, Shape{channels}), true);
  if (wrong && channels == 1) op.wrong = false, op.inputs[1].value = draw.tensor(dtype, Shape{1});
  if (!instance) op.attrs["num_groups"] = groups;
  const double epsilon = draw_epsilon(draw, op);
  op.slack = 40;
  op.same_bits = false;
  op.returns([=](const std::vector<Tensor>& in) {
    std::vector<Sizes> places(static_cast<size_t>(shape[0] * parts));
    int64_t at = 0;
    for_each_index(shape, [&](const Sizes& i) {
      places[static_cast<size_t>(i[0] * parts + i[1] / (channels / parts))].push_back(at++);
    });
    PlainOutput y = normalize(in[0], places, epsilon);
    scale_and_shift(y, in[1], in[2], [](const Sizes& i) { return i[1]; });
    return y;
  });
}

void draw_batch_norm(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kFloats);
  Shape shape = draw.shape(2, 5);
  const bool training = draw.once_in(2);
  for (int i = 0; training && i < shape.rank(); ++i) shape.set(i, std::max<int64_t>(shape[i], 1));
  const Shape channels{shape[1]};
  const bool wrong = draw.wrong(op);
  op.add(draw.tensor(dtype, shape), true);
  op.add(draw.tensor(dtype, wrong ? Shape{shape[1] + 1} : channels), true);
  op.add(draw.tensor(dtype, channels), true);
  op.add(draw.tensor(dtype, channels), !training);
  op.add(draw.tensor(dtype, channels, 0.5, 2), !training);
  const double epsilon = draw_epsilon(draw, op);
  if (training) op.attrs["training_mode"] = int64_t{1};
  op.slack = 40;
  op.returns([=](const std::vector<Tensor>& in) {
    Sizes axes{0};
    for (int i = 2; i < shape.rank(); ++i) axes.push_back(i);
    PlainOutput y = normalize(in[0], groups_of(shape, axes), epsilon);
    if (!training) {
      int64_t at = 0;
      for_each_index(shape, [&](const Sizes& i) {
        const double root = std::sqrt(in[4].at(i[1]) + epsilon);
        y.value.set(at, (in[0].at(at) - in[3].at(i[1])) / root);
        y.scale.set(at, (std::abs(in[0].at(at)) + std::abs(in[3].at(i[1]))) / root);
        ++at;
      });
    }
    scale_and_shift(y, in[1], in[2], [](const Sizes& i) { return i[1]; });
    return y;
  });
}

void draw_lp_norm(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kFloats);
  const Shape shape = draw.shape(1, 4);
  const int64_t p = draw.from(1, 2);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank(), &wrong);
  op.add(draw.tensor(dtype, shape), true);
  op.attrs["axis"] = axis;
  if (p == 1) op.attrs["p"] = p;
  op.slack = 40;
  op.same_bits = false;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, shape), {}};
    for (const Sizes& group : groups_of(shape, {axis})) {
      const Values v = values_of(in[0], group);
      const double norm =
          p == 2 ? std::sqrt(squares(v)) : sum_of(v, [](double x) { return std::abs(x); });
      for (const int64_t i : group) y.value.set(i, norm == 0 ? 0 : in[0].at(i) / norm);
    }
    return y;
  });
}

}  // namespace

std::vector<DrawnFamily> reduction_families() {
  std::vector<DrawnFamily> all;
  for (const Reduction& r : reductions()) all.push_back({r.op, draw_reduction, true});
  for (const char* op : {"ArgMax", "ArgMin"}) all.push_back({op, draw_arg});
  for (const char* op : {"CumSum", "CumProd"}) all.push_back({op, draw_cumulative, true});
  all.push_back({"TopK", draw_top_k, true});
  for (const char* op : {"Softmax", "LogSoftmax"}) all.push_back({op, draw_softmax, true});
  all.push_back({"Hardmax", draw_softmax});
  for (const char* op : {"LayerNormalization", "RMSNormalization"})
    all.push_back({op, draw_layer_norm, true});
  for (const char* op : {"GroupNormalization", "InstanceNormalization"})
    all.push_back({op, draw_group_norm, true});
  all.push_back({"BatchNormalization", draw_batch_norm, true});
  all.push_back({"LpNormalization", draw_lp_norm, true});
  return all;
}

}  // namespace leat
