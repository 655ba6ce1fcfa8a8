// Drawn calls of ops that read or write by index, of ranges, and of Resize.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

// Indices of either sign into `n` elements. With `wrong` one of them is out of range.
Tensor draw_indices(Drawer& draw, const Shape& shape, int64_t n, bool wrong = false) {
  Tensor out(draw.once_in(2) ? DType::i64 : DType::i32, shape);
  for (int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>(draw.from(-n, n - 1)));
  if (wrong) out.set(draw.from(0, out.elements() - 1), static_cast<double>(n));
  return out;
}

int64_t index_at(const Tensor& indices, int64_t i, int64_t n) {
  const auto index = static_cast<int64_t>(indices.at(i));
  return index < 0 ? index + n : index;
}

void draw_gather(Drawer& draw, DrawnOp& op) {
  Shape shape = draw.shape(1, 4);
  const int64_t axis = draw.axis(shape.rank());
  const int at_axis = static_cast<int>(positive(axis, shape.rank()));
  const bool by_element = op.op == "GatherElements";
  shape.set(at_axis, std::max<int64_t>(shape[at_axis], 1));
  Shape of = by_element ? shape : draw.shape(0, 2);
  if (by_element) of.set(at_axis, draw.size());
  const bool wrong = of.elements() > 0 && draw.wrong(op);
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  op.add(draw_indices(draw, of, shape[at_axis], wrong));
  op.attrs["axis"] = axis;
  Shape out;
  for (int i = 0; i < at_axis; ++i) out.push_back(shape[i]);
  for (const int64_t size : of) out.push_back(size);
  for (int i = at_axis + 1; i < shape.rank(); ++i) out.push_back(shape[i]);
  if (by_element) out = of;
  op.returns([=](const std::vector<Tensor>& in) {
    const auto value = [&](const Sizes& index) {
      Sizes from = index, into = index;
      if (!by_element) {
        into.assign(index.begin() + at_axis, index.begin() + at_axis + of.rank());
        from.assign(index.begin(), index.begin() + at_axis);
        from.push_back(0);
        from.insert(from.end(), index.begin() + at_axis + of.rank(), index.end());
      }
      from[static_cast<size_t>(at_axis)] = index_at(in[1], place(of, into), shape[at_axis]);
      int64_t flat = 0;
      for (int i = 0; i < shape.rank(); ++i) flat = flat * shape[i] + from[static_cast<size_t>(i)];
      return in[0].at(flat);
    };
    return PlainOutput{elements(out, value), {}};
  });
}

double reduced(const std::string& how, double old, double update) {
  if (how == "add") return old + update;
  if (how == "mul") return old * update;
  if (how == "max") return std::max(old, update);
  if (how == "min") return std::min(old, update);
  return update;
}

std::string draw_reduction_of(Drawer& draw, DrawnOp& op, DType dtype) {
  std::string how = "none";
  // Gradients exist for these two.
  if (draw.trains()) {
    how = draw.any_of<std::string>({"none", "add"});
  } else if (dtype != DType::boolean) {
    how = draw.any_of<std::string>({"none", "add", "mul", "max", "min"});
  }
  if (how != "none" || draw.once_in(2)) op.attrs["reduction"] = how;
  return how;
}

void draw_scatter_elements(Drawer& draw, DrawnOp& op) {
  Shape shape = draw.shape(1, 4);
  const int64_t axis = draw.axis(shape.rank());
  const int at_axis = static_cast<int>(positive(axis, shape.rank()));
  shape.set(at_axis, std::max<int64_t>(shape[at_axis], 1));
  Shape of = shape;
  for (int i = 0; i < of.rank(); ++i) of.set(i, draw.from(of[i] > 1, of[i]));
  const DType dtype = draw.dtype(kAllTypes);
  const std::string how = draw_reduction_of(draw, op, dtype);
  const bool wrong = of.elements() > 0 && draw.wrong(op);
  Tensor indices = draw_indices(draw, of, shape[at_axis], wrong);
  // Which of several updates counts is open, so each index is drawn once.
  if (how == "none" && !wrong) {
    const int64_t first = draw.from(0, shape[at_axis] - 1);
    int64_t i = 0;
    for_each_index(of, [&](const Sizes& index) {
      indices.set(
          i++, static_cast<double>((first + index[static_cast<size_t>(at_axis)]) % shape[at_axis]));
    });
  }
  op.add(draw.tensor(dtype, shape, -1.5, 1.5), true);
  op.add(indices);
  op.add(draw.tensor(dtype, of, -1.5, 1.5), true);
  op.attrs["axis"] = axis;
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{in[0].clone(), in[0].clone()};
    for (int64_t i = 0; i < y.scale.elements(); ++i) y.scale.set(i, 4);
    int64_t i = 0;
    for_each_index(of, [&](Sizes index) {
      index[static_cast<size_t>(at_axis)] = index_at(in[1], i, shape[at_axis]);
      int64_t flat = 0;
      for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + index[static_cast<size_t>(d)];
      y.value.set(flat, reduced(how, y.value.at(flat), in[2].at(i++)));
    });
    return y;
  });
}

// Tuples of indices into the first axes, after `batch` shared ones, with the rest as slices.
struct Tuples {
  Shape shape, of, out;
  int batch = 0;
  int64_t depth = 0;
  int64_t slice() const { return shape.elements(batch + static_cast<int>(depth), shape.rank()); }
  // The first element of the slice that tuple i names.
  int64_t first(const Tensor& indices, int64_t i) const {
    const int64_t tuples = of.elements(batch, of.rank() - 1);
    int64_t flat = tuples == 0 ? 0 : i / tuples;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t n = shape[batch + static_cast<int>(d)];
      flat = flat * n + index_at(indices, i * depth + d, n);
    }
    return flat * slice();
  }
};

Tuples draw_tuples(Drawer& draw, int batch) {
  Tuples t;
  t.shape = draw.shape(1 + batch, 4);
  for (int i = 0; i < t.shape.rank(); ++i) t.shape.set(i, std::max<int64_t>(t.shape[i], 1));
  t.batch = batch;
  t.depth = draw.from(1, t.shape.rank() - batch);
  for (int i = 0; i < batch; ++i) t.of.push_back(t.shape[i]);
  const int64_t axes = draw.from(0, 2);
  for (int64_t i = 0; i < axes; ++i) t.of.push_back(draw.from(0, 3));
  t.out = t.of;
  t.of.push_back(t.depth);
  for (int i = batch + static_cast<int>(t.depth); i < t.shape.rank(); ++i)
    t.out.push_back(t.shape[i]);
  return t;
}

Tensor draw_tuple_indices(Drawer& draw, const Tuples& t, bool wrong) {
  Tensor out(DType::i64, t.of);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const int64_t n = t.shape[t.batch + static_cast<int>(i % t.depth)];
    out.set(i, static_cast<double>(wrong && i == 0 ? n : draw.from(-n, n - 1)));
  }
  return out;
}

void draw_gather_nd(Drawer& draw, DrawnOp& op) {
  const Tuples t = draw_tuples(draw, static_cast<int>(draw.from(0, 1)));
  const bool wrong = t.of.elements() > 0 && draw.wrong(op);
  op.add(draw.tensor(draw.dtype(kAllTypes), t.shape), true);
  op.add(draw_tuple_indices(draw, t, wrong));
  if (t.batch > 0) op.attrs["batch_dims"] = int64_t{t.batch};
  op.returns([t](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, t.out), {}};
    const int64_t slice = t.slice();
    for (int64_t i = 0; i < y.value.elements(); ++i)
      y.value.set(i, in[0].at(t.first(in[1], i / slice) + i % slice));
    return y;
  });
}

void draw_scatter_nd(Drawer& draw, DrawnOp& op) {
  Tuples t = draw_tuples(draw, 0);
  const DType dtype = draw.dtype(kAllTypes);
  const std::string how = draw_reduction_of(draw, op, dtype);
  if (how == "none") {  // no place twice
    t.of = Shape{1, t.depth};
    t.out = Shape{1};
    for (int i = static_cast<int>(t.depth); i < t.shape.rank(); ++i) t.out.push_back(t.shape[i]);
  }
  const bool wrong = t.of.elements() > 0 && draw.wrong(op);
  op.add(draw.tensor(dtype, t.shape, -1.5, 1.5), true);
  op.add(draw_tuple_indices(draw, t, wrong));
  op.add(draw.tensor(dtype, t.out, -1.5, 1.5), true);
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{in[0].clone(), in[0].clone()};
    for (int64_t i = 0; i < y.scale.elements(); ++i) y.scale.set(i, 4);
    const int64_t slice = t.slice();
    for (int64_t i = 0; i < in[2].elements(); ++i) {
      const int64_t to = t.first(in[1], i / slice) + i % slice;
      y.value.set(to, reduced(how, y.value.at(to), in[2].at(i)));
    }
    return y;
  });
}

void draw_one_hot(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(0, 3);
  const int64_t depth = draw.from(0, 5);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank() + 1, &wrong);
  Tensor indices(draw.any_of<DType>({DType::i64, DType::i32, DType::f32}), shape);
  for (int64_t i = 0; i < indices.elements(); ++i)  // beyond the depth nothing is on
    indices.set(i, static_cast<double>(draw.from(-depth - 1, depth)));
  op.add(indices);
  op.add_constant(draw.once_in(2) ? Tensor::scalar<int64_t>(depth)
                                  : Tensor::scalar<float>(static_cast<float>(depth)));
  op.add(draw.tensor(draw.dtype(kAllTypes), Shape{2}), true);
  op.attrs["axis"] = axis;
  op.result = op.inputs[2].value.dtype();
  const int at_axis = wrong ? 0 : static_cast<int>(positive(axis, shape.rank() + 1));
  Shape out;
  for (int i = 0; i <= shape.rank(); ++i)
    out.push_back(i == at_axis ? depth : shape[i < at_axis ? i : i - 1]);
  op.returns([=](const std::vector<Tensor>& in) {
    return PlainOutput{elements(out,
                                [&](Sizes index) {
                                  const int64_t i = index[static_cast<size_t>(at_axis)];
                                  index.erase(index.begin() + at_axis);
                                  const auto on = static_cast<int64_t>(at(in[0], index));
                                  return in[2].at((on < 0 ? on + depth : on) == i ? 1 : 0);
                                }),
                       {}};
  });
}

void draw_range(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.any_of<DType>({DType::i64, DType::i32, DType::f32, DType::f64});
  const double unit = is_float(dtype) ? 0.25 : 1;
  const double start = unit * static_cast<double>(draw.from(-8, 8)),
               limit = unit * static_cast<double>(draw.from(-12, 12));
  double step = unit * static_cast<double>(draw.any_of({1, 2, 3, -1, -3}));
  if (draw.wrong(op)) step = 0;
  for (const double value : {start, limit, step}) op.add_constant(Tensor::scalar_of(dtype, value));
  op.returns([=](const std::vector<Tensor>&) {
    const auto n = std::max<int64_t>(0, static_cast<int64_t>(std::ceil((limit - start) / step)));
    return PlainOutput{
        elements(Shape{n},
                 [&](const Sizes& i) { return start + step * static_cast<double>(i[0]); }),
        {}};
  });
}

// --- Resize: the weights of the inputs of each output, by axis -----------------------------------

using Taps = std::vector<std::pair<int64_t, double>>;

// As in ONNX's own cases, the length of the output is the one before it was rounded.
double source_of(const std::string& mode, int64_t i, double scale, int64_t from) {
  const auto x = static_cast<double>(i), length = static_cast<double>(from), to = scale * length;
  if (mode == "asymmetric") return x / scale;
  if (mode == "align_corners") return to == 1 ? 0 : x * (length - 1) / (to - 1);
  if (mode == "pytorch_half_pixel" && to == 1) return 0;
  return (x + 0.5) / scale - 0.5;
}

Taps taps_of(const std::string& mode, const std::string& nearest, double x, int64_t n) {
  const double below = std::floor(x), part = x - below;
  const auto first = static_cast<int64_t>(below);
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, n - 1); };
  if (mode == "linear") return {{clamped(first), 1 - part}, {clamped(first + 1), part}};
  if (mode == "cubic") {
    constexpr double a = -0.75;
    const auto near = [](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
    const auto far = [](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
    return {{clamped(first - 1), far(part + 1)},
            {clamped(first), near(part)},
            {clamped(first + 1), near(1 - part)},
            {clamped(first + 2), far(2 - part)}};
  }
  const double at = nearest == "floor"               ? below
                    : nearest == "ceil"              ? std::ceil(x)
                    : nearest == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                     : std::ceil(x - 0.5);
  return {{clamped(static_cast<int64_t>(at)), 1.0}};
}

// The factors are those of each axis.
struct Resized {
  std::string mode, where, nearest;
  Shape shape, out;
  std::vector<double> factors;

  double value(const Tensor& x, const Sizes& index) const {
    std::vector<Taps> taps;
    for (int i = 2; i < shape.rank(); ++i) {
      const auto d = static_cast<size_t>(i);
      const bool same = shape[i] == out[i] && factors[d] == 1;
      const double from =
          same ? static_cast<double>(index[d]) : source_of(where, index[d], factors[d], shape[i]);
      taps.push_back(taps_of(mode, nearest, from, shape[i]));
    }
    double sum = 0;
    for (const auto& [row, of_row] : taps[0]) {
      if (taps.size() == 1) {
        sum += of_row * at(x, {index[0], index[1], row});
        continue;
      }
      for (const auto& [column, of_column] : taps[1])
        sum += of_row * of_column * at(x, {index[0], index[1], row, column});
    }
    return sum;
  }
};

void draw_resize(Drawer& draw, DrawnOp& op) {
  const std::string mode = draw.any_of<std::string>({"nearest", "linear", "cubic"});
  const std::string where =
      draw.any_of<std::string>({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"});
  const std::string nearest =
      draw.any_of<std::string>({"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"});
  const int64_t spatial = draw.from(1, 2);
  Shape shape{draw.from(0, 3), draw.from(1, 3)}, out = shape;
  Tensor scales(DType::f32, {2 + spatial});
  scales.set(0, 1), scales.set(1, 1);
  std::vector<double> factors{1, 1};
  const bool by_sizes = draw.once_in(2);
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t from = draw.from(1, 5);
    // Powers of two, so that places are the same in each precision.
    const double factor = draw.any_of<double>({1, 2, 4, 0.5});
    const auto to = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(from) * factor));
    shape.push_back(from);
    out.push_back(to);
    factors.push_back(by_sizes ? static_cast<double>(to) / static_cast<double>(from) : factor);
    scales.set(2 + i, factor);
    if (!by_sizes && static_cast<double>(from) * factor < 1)
      scales.set(2 + i, 1), out.set(static_cast<int>(2 + i), from), factors.back() = 1;
  }
  op.add(draw.tensor(draw.dtype(kFloats), shape), true);
  op.add_absent();
  const bool wrong = draw.wrong(op);
  if (by_sizes) {
    op.add_absent();
    Sizes sizes = sizes_of(out);
    if (wrong) sizes.push_back(3);
    op.add_constant(i64s(sizes));
  } else {
    op.add_constant(wrong ? Tensor::of<float>({1}, {2}) : scales);
  }
  op.attrs["mode"] = mode;
  op.attrs["coordinate_transformation_mode"] = where;
  if (mode == "nearest") op.attrs["nearest_mode"] = nearest;
  op.slack = 64;
  const Resized resized{mode, where, nearest, shape, out, factors};
  op.returns([resized](const std::vector<Tensor>& in) {
    return PlainOutput{
        elements(resized.out, [&](const Sizes& index) { return resized.value(in[0], index); }),
        elements(resized.out, [](const Sizes&) { return 2.0; })};
  });
}

}  // namespace

std::vector<DrawnFamily> indexing_families() {
  return {{"Gather", draw_gather, true},
          {"GatherElements", draw_gather, true},
          {"GatherND", draw_gather_nd, true},
          {"ScatterElements", draw_scatter_elements, true},
          {"ScatterND", draw_scatter_nd, true},
          {"OneHot", draw_one_hot, true},
          {"Range", draw_range},
          {"Resize", draw_resize, true}};
}

}  // namespace leat
