// Drawn calls of losses, determinants, Fourier transforms, caches, sampled images and regions.
#include <algorithm>
#include <cmath>

#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

// [N,C,...] scores, classes of [N,...], and weights of C.
void draw_class_loss(Drawer& draw, DrawnOp& op) {
  const bool softmax = op.op == "SoftmaxCrossEntropyLoss";
  const DType dtype = draw.dtype(kFloats);
  Shape shape = draw.shape(2, 4), of;
  shape.set(1, std::max<int64_t>(shape[1], 1));
  const std::string how = draw.any_of<std::string>({"none", "sum", "mean"});
  for (int i = 0; how == "mean" && i < shape.rank(); ++i)  // no mean of nothing
    shape.set(i, std::max<int64_t>(shape[i], 1));
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != 1) of.push_back(shape[i]);
  }
  const int64_t classes = shape[1], ignored = draw.from(-1, classes - 1);
  const bool ignores = how != "mean" && draw.once_in(2), weighted = draw.once_in(2);
  Tensor targets(DType::i64, of);
  for (int64_t i = 0; i < targets.elements(); ++i)
    targets.set(i, static_cast<double>(draw.from(0, classes - 1)));
  if (targets.elements() > 0 && draw.wrong(op)) targets.set(0, static_cast<double>(classes));
  op.add(draw.tensor(dtype, shape), true);
  op.add(targets);
  if (weighted) op.add(draw.tensor(dtype, Shape{classes}, 0.5, 1.5));
  if (how != "mean" || draw.once_in(2)) op.attrs["reduction"] = how;
  if (ignores) op.attrs["ignore_index"] = ignored;
  op.slack = 40;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, of), {}};
    double sum = 0, weights = 0, magnitude = 0;
    int64_t at_target = 0;
    for_each_index(of, [&](const Sizes& index) {
      const auto target = static_cast<int64_t>(in[1].at(at_target));
      double score = 0, all = 0;
      for (int64_t c = 0; c < classes; ++c) {
        Sizes full = index;
        full.insert(full.begin() + 1, c);
        const double value = at(in[0], full);
        all += std::exp(value);
        if (c == target) score = value;
      }
      const double weight = ignores && target == ignored ? 0 : weighted ? in[2].at(target) : 1.0;
      const double loss = weight * (softmax ? std::log(all) - score : -score);
      y.value.set(at_target++, loss);
      sum += loss;
      weights += weight;
      magnitude += std::abs(loss) + weight;
    });
    if (how == "none") {
      y.scale = elements(of, [](const Sizes&) { return 3.0; });
      return y;
    }
    const double by = how == "mean" ? weights : 1;
    return PlainOutput{Tensor::scalar(sum / by), Tensor::scalar(magnitude / by)};
  });
}

// By the first row.
double determinant(const std::vector<double>& a, int64_t n) {
  if (n == 0) return 1;
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) {
    std::vector<double> minor;
    for (int64_t i = n; i < n * n; ++i) {
      if (i % n != c) minor.push_back(a[static_cast<size_t>(i)]);
    }
    sum += (c % 2 == 0 ? 1 : -1) * a[static_cast<size_t>(c)] * determinant(minor, n - 1);
  }
  return sum;
}

void draw_determinant(Drawer& draw, DrawnOp& op) {
  const int64_t n = draw.from(1, 4);
  Shape shape = draw.shape(0, 2);
  const Shape out = shape;
  shape.push_back(n);
  shape.push_back(n);
  if (draw.wrong(op)) shape.set(shape.rank() - 1, n + 1);
  op.add(draw.tensor(draw.dtype(kFloats), shape), true);
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{Tensor(DType::f64, out), elements(out, [](const Sizes&) { return 16.0; })};
    for (int64_t i = 0; i < out.elements(); ++i) {
      std::vector<double> matrix;
      for (int64_t j = 0; j < n * n; ++j) matrix.push_back(in[0].at(i * n * n + j));
      y.value.set(i, determinant(matrix, n));
    }
    return y;
  });
}

// [N, n, 1 or 2] along axis 1.
void draw_fourier(Drawer& draw, DrawnOp& op) {
  const int64_t batch = draw.once_in(12) ? 0 : draw.from(1, 3), n = draw.from(1, 12),
                parts = draw.from(1, 2), length = draw.once_in(2) ? n : draw.from(1, 12);
  const bool inverse = draw.once_in(2), half = !inverse && parts == 1 && draw.once_in(2);
  op.add(draw.tensor(draw.dtype(kFloats), Shape{batch, n, parts}), true);
  if (length != n) op.add_constant(Tensor::scalar<int64_t>(length));
  if (inverse) op.attrs["inverse"] = int64_t{1};
  if (half) op.attrs["onesided"] = int64_t{1};
  if (draw.wrong(op)) op.inputs[0].value = draw.tensor(DType::f32, Shape{batch, n, 3});
  const Shape out{batch, half ? length / 2 + 1 : length, 2};
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    const auto value = [&](const Sizes& index) {
      double sum = 0;
      for (int64_t t = 0; t < std::min(n, length); ++t) {
        const double turn = (inverse ? 2 : -2) * std::acos(-1.0) *
                            static_cast<double>(t * index[1] % length) /
                            static_cast<double>(length);
        const double real = in[0].at((index[0] * n + t) * parts),
                     imaginary = parts == 2 ? in[0].at((index[0] * n + t) * 2 + 1) : 0;
        sum += index[2] == 0 ? real * std::cos(turn) - imaginary * std::sin(turn)
                             : real * std::sin(turn) + imaginary * std::cos(turn);
      }
      return inverse ? sum / static_cast<double>(length) : sum;
    };
    return PlainOutput{elements(out, value), elements(out, [](const Sizes&) { return 8.0; })};
  });
}

// Writes steps of [N, T, D] into a cache of [N, S, D] from a place of each row on.
void draw_cache(Drawer& draw, DrawnOp& op) {
  const int64_t n = draw.once_in(12) ? 0 : draw.from(1, 3), s = draw.from(1, 5),
                t = draw.from(1, s), d = draw.from(0, 3);
  const bool circular = draw.once_in(2);
  const DType dtype = draw.dtype(kAllTypes);
  Tensor places(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i)
    places.set(i, static_cast<double>(draw.from(0, circular ? s - 1 : s - t)));
  op.add(draw.tensor(dtype, Shape{n, s, d}), true);
  op.add(draw.tensor(dtype, draw.wrong(op) ? Shape{n, s + 1, d} : Shape{n, t, d}), true);
  op.add(places);
  op.attrs["axis"] = draw.once_in(2) ? int64_t{1} : int64_t{-2};
  if (circular) op.attrs["mode"] = std::string("circular");
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y{in[0].clone(), {}};
    for_each_index({n, t, d}, [&](const Sizes& i) {
      const int64_t to = (static_cast<int64_t>(in[2].at(i[0])) + i[1]) % s;
      y.value.set((i[0] * s + to) * d + i[2], in[1].at((i[0] * t + i[1]) * d + i[2]));
    });
    return y;
  });
}

// Bilinear samples of [N,C,H,W] at [N,h,w,2].
void draw_grid_sample(Drawer& draw, DrawnOp& op) {
  const int64_t n = draw.once_in(12) ? 0 : draw.from(1, 2), c = draw.from(1, 3),
                h = draw.from(1, 4), w = draw.from(1, 4), rows = draw.from(1, 3),
                columns = draw.from(1, 3);
  const bool corners = draw.once_in(2), border = draw.once_in(2);
  const DType dtype = draw.dtype(DTypeSet::of(DType::f32, DType::f64));
  const Shape out{n, c, rows, columns};
  op.add(draw.tensor(dtype, Shape{n, c, h, w}), true);
  op.add(draw.tensor(dtype, Shape{n, rows, columns, draw.wrong(op) ? 3 : 2}, -1.3, 1.3), true);
  if (corners) op.attrs["align_corners"] = int64_t{1};
  if (border) op.attrs["padding_mode"] = std::string("border");
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    const auto place_of = [&](double x, int64_t size) {
      const auto last = static_cast<double>(size - 1);
      const double at = corners ? (x + 1) / 2 * last : ((x + 1) * (last + 1) - 1) / 2;
      return border ? std::clamp(at, 0.0, last) : at;
    };
    const auto value = [&](const Sizes& i) {
      const int64_t point = ((i[0] * rows + i[2]) * columns + i[3]) * 2;
      const double x = place_of(in[1].at(point), w), y = place_of(in[1].at(point + 1), h);
      double sum = 0;
      for (int64_t r = 0; r < h; ++r) {
        for (int64_t k = 0; k < w; ++k) {
          const double by = std::max(0.0, 1 - std::abs(y - static_cast<double>(r))) *
                            std::max(0.0, 1 - std::abs(x - static_cast<double>(k)));
          sum += by * in[0].at(((i[0] * c + i[1]) * h + r) * w + k);
        }
      }
      return sum;
    };
    return PlainOutput{elements(out, value), elements(out, [](const Sizes&) { return 8.0; })};
  });
}

// Without a past, S becomes S + k^T v, and y is q S times the scale.
void draw_linear_attention(Drawer& draw, DrawnOp& op) {
  const int64_t n = draw.once_in(12) ? 0 : draw.from(1, 2), steps = draw.from(1, 4),
                heads = draw.from(1, 2), k = draw.from(1, 3), v = draw.from(1, 3);
  const DType dtype = draw.dtype(DTypeSet::of(DType::f32, DType::f64));
  op.add(draw.tensor(dtype, Shape{n, steps, heads * k}), true);
  op.add(draw.tensor(dtype, Shape{n, draw.wrong(op) ? steps + 1 : steps, heads * k}, -1, 1), true);
  op.add(draw.tensor(dtype, Shape{n, steps, heads * v}), true);
  op.attrs["update_rule"] = std::string("linear");
  op.attrs["q_num_heads"] = heads;
  op.attrs["kv_num_heads"] = heads;
  op.attrs["scale"] = 0.5;
  op.outputs = 2;
  op.slack = 64;
  op.plain = [=](const std::vector<Tensor>& in) {
    // Element `d` of row t of a head.
    const auto part = [&](size_t i, int64_t b, int64_t t, int64_t head, int64_t size, int64_t d) {
      return in[i].at(((b * steps + t) * heads + head) * size + d);
    };
    const auto state = [&](const Sizes& i) {
      double sum = 0;
      for (int64_t t = 0; t < steps; ++t)
        sum += part(1, i[0], t, i[1], k, i[2]) * part(2, i[0], t, i[1], v, i[3]);
      return sum;
    };
    const auto value = [&](const Sizes& i) {
      const int64_t head = i[2] / v;
      double sum = 0;
      for (int64_t t = 0; t <= i[1]; ++t) {
        for (int64_t d = 0; d < k; ++d) {
          sum += 0.5 * part(0, i[0], i[1], head, k, d) * part(1, i[0], t, head, k, d) *
                 part(2, i[0], t, head, v, i[2] % v);
        }
      }
      return sum;
    };
    const auto eight = [](const Sizes&) { return 8.0; };
    const Shape y{n, steps, heads * v}, last{n, heads, k, v};
    return std::vector<PlainOutput>{{elements(y, value), elements(y, eight)},
                                    {elements(last, state), elements(last, eight)}};
  };
}

}  // namespace

std::vector<DrawnFamily> more_families() {
  return {{"SoftmaxCrossEntropyLoss", draw_class_loss, true},
          {"NegativeLogLikelihoodLoss", draw_class_loss, true},
          {"Det", draw_determinant, true},
          {"DFT", draw_fourier, true},
          {"TensorScatter", draw_cache, true},
          {"GridSample", draw_grid_sample, true},
          {"LinearAttention", draw_linear_attention, true}};
}

}  // namespace leat
