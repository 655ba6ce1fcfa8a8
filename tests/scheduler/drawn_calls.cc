#include "tests/scheduler/drawn_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "tests/scheduler/draw.h"

namespace leat {
namespace {

// Draws the size of a dimension that libraries split into blocks: small, a multiple of a block, or
// next to one.
int64_t draw_channels(Draw& draw) {
  switch (draw.from(0, 5)) {
    case 0:
    case 1:
      return draw.from(1, 20);
    case 2:
      return 16 * draw.from(1, 16);
    case 3:
      return 8 * draw.from(1, 66);
    case 4:
      return 16 * draw.from(1, 20) + draw.from(-1, 1);
    default:
      return draw.from(1, 300);
  }
}

Sizes draw_list(Draw& draw, size_t count, int64_t low, int64_t high) {
  Sizes list;
  for (size_t i = 0; i < count; ++i) list.push_back(draw.from(low, high));
  return list;
}

// Spatial axes, kernel sizes, and the attributes that convolutions and pools share.
struct DrawnWindow {
  Sizes kernel, spatial;
};
DrawnWindow draw_window(Draw& draw, bool small, Attrs& attrs) {
  const auto rank = static_cast<size_t>(draw.any_of({1, 2, 2, 2, 2, 2, 3}));
  DrawnWindow window;
  const bool square = !draw.once_in(4);
  window.kernel = draw_list(draw, rank, 1, 5);
  if (square) window.kernel.assign(rank, draw.any_of({1, 1, 3, 3, 3, 5, 7, 2}));
  window.spatial = draw_list(draw, rank, 1, small ? 6 : rank == 3 ? 8 : 20);
  if (draw.once_in(2)) attrs["strides"] = draw_list(draw, rank, 1, 3);
  if (draw.once_in(5)) attrs["dilations"] = draw_list(draw, rank, 1, 3);
  if (draw.once_in(4)) {
    static const std::array<const char*, 3> kModes{"SAME_UPPER", "SAME_LOWER", "VALID"};
    attrs["auto_pad"] = std::string(kModes[static_cast<size_t>(draw.from(0, 2))]);
  } else if (!draw.once_in(3)) {
    Sizes pads = draw_list(draw, 2 * rank, 0, 2);
    for (size_t i = 0; square && i < 2 * rank; ++i) pads[i] = window.kernel[0] / 2;
    attrs["pads"] = pads;
  }
  return window;
}

Shape shape_of(Sizes sizes, const Sizes& spatial) {
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return Shape(sizes);
}

void draw_convolution(Draw& draw, bool transposed, DrawnCall& call) {
  const int64_t images = draw.once_in(12) ? 0 : draw.any_of({1, 2, 3, 5, 8, 8, 16, 17, 33});
  int64_t groups = 1, inputs = draw_channels(draw), outputs = draw_channels(draw);
  if (draw.once_in(6)) {
    groups = inputs;  // depthwise, at times with several outputs for each input
    outputs = inputs * draw.any_of({1, 1, 1, 2, 3});
  } else if (draw.once_in(6)) {
    groups = draw.from(2, 8);
    inputs = groups * (inputs / groups + 1);
    outputs = groups * (outputs / groups + 1);
  }
  const DrawnWindow window = draw_window(draw, inputs * outputs / groups > 2000, call.attrs);
  if (groups > 1 || draw.once_in(4)) call.attrs["group"] = groups;
  if (draw.once_in(2)) call.attrs["kernel_shape"] = window.kernel;
  if (transposed && draw.once_in(3)) {
    call.attrs["output_padding"] = draw_list(draw, window.kernel.size(), 0, 1);
  }
  call.inputs.push_back(shape_of({images, inputs}, window.spatial));
  call.inputs.push_back(transposed ? shape_of({inputs, outputs / groups}, window.kernel)
                                   : shape_of({outputs, inputs / groups}, window.kernel));
  if (draw.once_in(2)) call.inputs.push_back(Shape{outputs});
}

void draw_gemm(Draw& draw, DrawnCall& call) {
  const int64_t m = draw.any_of({1, 2, 8, 15, 16, 17, 64, 65, draw.from(1, 300)});
  const int64_t k = draw_channels(draw), n = draw_channels(draw);
  const bool trans_a = draw.once_in(3), trans_b = draw.once_in(2);
  if (trans_a) call.attrs["transA"] = int64_t{1};
  if (trans_b) call.attrs["transB"] = int64_t{1};
  if (draw.once_in(3)) call.attrs["alpha"] = 0.5;
  if (draw.once_in(3)) call.attrs["beta"] = 0.25;
  call.inputs = {trans_a ? Shape{k, m} : Shape{m, k}, trans_b ? Shape{n, k} : Shape{k, n}};
  const std::array<Shape, 6> kBiases{Shape{n},    Shape{1, n}, Shape{m, 1},
                                     Shape{m, n}, Shape{1},    Shape{}};
  if (draw.once_in(2)) call.inputs.push_back(kBiases[static_cast<size_t>(draw.from(0, 5))]);
}

void draw_matmul(Draw& draw, DrawnCall& call) {
  const int64_t m = draw.any_of({1, 2, 7, 16, 33, draw.from(1, 150)}), k = draw_channels(draw),
                n = draw.once_in(8) ? 1 : draw_channels(draw);
  const Sizes batch = draw_list(draw, static_cast<size_t>(draw.any_of({0, 0, 1, 1, 2})), 1, 4);
  Sizes a = batch, b = batch;
  if (draw.once_in(3)) b.clear();
  if (draw.once_in(4)) a.clear();
  for (int64_t& size : b) size = draw.once_in(4) ? 1 : size;
  a.insert(a.end(), {m, k});
  b.insert(b.end(), {k, n});
  if (draw.once_in(12)) a = {k};
  if (draw.once_in(12)) b = {k};
  call.inputs = {Shape(a), Shape(b)};
}

void draw_pool(Draw& draw, DrawnCall& call) {
  const DrawnWindow window = draw_window(draw, false, call.attrs);
  call.inputs.push_back(shape_of({draw.any_of({0, 1, 1, 2, 2, 3, 3, 8, 8, 17, 17}),
                                  draw.once_in(2) ? draw.from(1, 20) : 16 * draw.from(1, 4)},
                                 window.spatial));
  if (call.op.starts_with("Global")) {
    call.attrs.clear();
    return;
  }
  call.attrs["kernel_shape"] = window.kernel;
  if (draw.once_in(3)) call.attrs["ceil_mode"] = int64_t{1};
  if (call.op == "AveragePool" && draw.once_in(2)) call.attrs["count_include_pad"] = int64_t{1};
}

// --- the plain loops -----------------------------------------------------------------------------

// One spatial axis: output o meets input o * stride - begin + k * dilation.
struct Axis {
  int64_t input = 1, output = 1, kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;

  int64_t reach(int64_t o, int64_t k) const { return o * stride - begin + k * dilation; }
};

int64_t attr_at(const Attrs& attrs, const char* name, size_t i, int64_t fallback) {
  const Sizes list = attr_ints(attrs, name);
  return i < list.size() ? list[i] : fallback;
}

// The axes of a window that slides over `input`. The pads at the end follow from the sizes if
// auto_pad says so; they count only for averages.
std::array<Axis, 3> axes_of(const DrawnCall& call, const Shape& input, const Shape& output,
                            const Sizes& kernel) {
  std::array<Axis, 3> axes;
  const auto rank = static_cast<size_t>(input.rank() - 2);
  const std::string mode = attr_string(call.attrs, "auto_pad");
  for (size_t i = 0; i < rank; ++i) {
    Axis& axis = axes[i + 3 - rank];
    axis.input = input[static_cast<int>(i) + 2];
    axis.output = output[static_cast<int>(i) + 2];
    axis.kernel = kernel[i];
    axis.stride = attr_at(call.attrs, "strides", i, 1);
    axis.dilation = attr_at(call.attrs, "dilations", i, 1);
    axis.begin = attr_at(call.attrs, "pads", i, 0);
    axis.end = attr_at(call.attrs, "pads", i + rank, 0);
    if (!mode.starts_with("SAME")) continue;
    // The convolution that a ConvTranspose transposes has `output` outputs, and keeps the padding
    // at the end.
    const int64_t spanned = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation +
                            attr_at(call.attrs, "output_padding", i, 0) + 1;
    const int64_t total = std::max<int64_t>(0, spanned - axis.input), half = total / 2;
    axis.begin = mode == "SAME_UPPER" ? half : total - half;
    axis.end = total - axis.begin;
  }
  return axes;
}

// Calls f with the positions in the output, in the kernel, and in the input (-1 in the padding).
template <typename F>
void for_window(const std::array<Axis, 3>& axes, F&& f) {
  const auto& [d, h, w] = axes;
  for (int64_t o = 0; o < d.output * h.output * w.output; ++o) {
    const int64_t od = o / (h.output * w.output), oh = o / w.output % h.output, ow = o % w.output;
    for (int64_t k = 0; k < d.kernel * h.kernel * w.kernel; ++k) {
      const int64_t i = d.reach(od, k / (h.kernel * w.kernel)),
                    j = h.reach(oh, k / w.kernel % h.kernel), l = w.reach(ow, k % w.kernel);
      const bool inside = i >= 0 && i < d.input && j >= 0 && j < h.input && l >= 0 && l < w.input;
      f(o, k, inside ? (i * h.input + j) * w.input + l : -1);
    }
  }
}

int64_t area_of(const Shape& shape) { return shape.elements(2, shape.rank()); }

using Visit = std::function<void(int64_t x, int64_t w, int64_t y)>;

// Visits each product of a data element and a weight, with the output to which it is added.
void visit_convolution(const DrawnCall& call, const Shape& output, const Visit& visit) {
  const bool transposed = call.op == "ConvTranspose";
  const Shape &x = call.inputs[0], &w = call.inputs[1];
  // The shapes of the convolution, or of the one that is transposed.
  const Shape &from = transposed ? output : x, &to = transposed ? x : output;
  const int64_t groups = attr_int(call.attrs, "group", 1);
  const int64_t inputs = from[1] / groups, outputs = to[1] / groups;
  const auto axes = axes_of(call, from, to, Sizes(w.dims().begin() + 2, w.dims().end()));
  for (int64_t image = 0; image < x[0]; ++image) {
    for (int64_t c = 0; c < to[1]; ++c) {
      for (int64_t i = 0; i < inputs; ++i) {
        const int64_t in_plane = image * from[1] + c / outputs * inputs + i;
        for_window(axes, [&](int64_t o, int64_t k, int64_t at) {
          if (at < 0) return;
          const int64_t a = in_plane * area_of(from) + at,
                        b = (image * to[1] + c) * area_of(to) + o;
          const int64_t weight = (c * inputs + i) * area_of(w) + k;
          transposed ? visit(b, weight, a) : visit(a, weight, b);
        });
      }
    }
  }
}

void visit_gemm(const DrawnCall& call, const Shape& y, const Visit& visit) {
  const Shape &a = call.inputs[0], &b = call.inputs[1];
  const bool trans_a = attr_int(call.attrs, "transA", 0) != 0,
             trans_b = attr_int(call.attrs, "transB", 0) != 0;
  const int64_t depth = a[trans_a ? 0 : 1];
  for (int64_t i = 0; i < y[0]; ++i) {
    for (int64_t j = 0; j < y[1]; ++j) {
      for (int64_t k = 0; k < depth; ++k) {
        visit(trans_a ? k * a[1] + i : i * a[1] + k, trans_b ? j * b[1] + k : k * b[1] + j,
              i * y[1] + j);
      }
    }
  }
}

// Returns the index of the operand's matrix that item `item` of the batch multiplies.
int64_t matrix_of(const Shape& own, const Sizes& batch, int64_t item) {
  int64_t index = 0, stride = 1;
  for (size_t back = 0; back < batch.size(); ++back) {
    const int64_t position = item % batch[batch.size() - 1 - back];
    item /= batch[batch.size() - 1 - back];
    const int axis = own.rank() - 3 - static_cast<int>(back);
    if (axis < 0) break;
    if (own[axis] != 1) index += position * stride;
    stride *= own[axis];
  }
  return index;
}

void visit_matmul(const DrawnCall& call, const Shape& y, const Visit& visit) {
  const Shape &a = call.inputs[0], &b = call.inputs[1];
  const int64_t depth = a[a.rank() - 1], rows = a.rank() == 1 ? 1 : a[a.rank() - 2],
                columns = b.rank() == 1 ? 1 : b[b.rank() - 1];
  const int matrix_axes = (a.rank() > 1) + (b.rank() > 1);
  const Sizes batch(y.dims().begin(), y.dims().end() - matrix_axes);
  int64_t items = 1;
  for (const int64_t size : batch) items *= size;
  for (int64_t item = 0; item < items; ++item) {
    const int64_t in_a = matrix_of(a, batch, item) * rows * depth,
                  in_b = matrix_of(b, batch, item) * depth * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = 0; k < depth; ++k) {
          visit(in_a + i * depth + k, in_b + k * columns + j, (item * rows + i) * columns + j);
        }
      }
    }
  }
}

Sums zeros(int64_t count) {
  return {std::vector<double>(static_cast<size_t>(count)),
          std::vector<double>(static_cast<size_t>(count))};
}
void add(Sums& sums, int64_t at, double value) {
  sums.sum[static_cast<size_t>(at)] += value;
  sums.magnitude[static_cast<size_t>(at)] += std::abs(value);
}

// Returns the index of the bias that broadcasts to element `at` of y.
int64_t bias_of(const DrawnCall& call, const Shape& bias, const Shape& y, int64_t at) {
  if (call.op != "Gemm") return at / area_of(y) % y[1];
  const int64_t rows = bias.rank() < 2 ? 1 : bias[0],
                columns = bias.rank() < 1 ? 1 : bias[bias.rank() - 1];
  return (rows == 1 ? 0 : at / y[1]) * columns + (columns == 1 ? 0 : at % y[1]);
}

Expected compute_products(const DrawnCall& call, const std::vector<Tensor>& inputs,
                          const Tensor& dy) {
  const double *x = inputs[0].data<double>(), *w = inputs[1].data<double>(), *g = dy.data<double>();
  const double alpha = attr_float(call.attrs, "alpha", 1), beta = attr_float(call.attrs, "beta", 1);
  Expected expected{zeros(dy.elements()), {}};
  for (const Tensor& input : inputs) expected.gradients.push_back(zeros(input.elements()));
  Sums &dx = expected.gradients[0], &dw = expected.gradients[1];
  const Visit visit = [&](int64_t i, int64_t j, int64_t o) {
    add(expected.y, o, alpha * x[i] * w[j]);
    add(dx, i, alpha * w[j] * g[o]);
    add(dw, j, alpha * x[i] * g[o]);
  };
  if (call.op == "Gemm") {
    visit_gemm(call, dy.shape(), visit);
  } else if (call.op == "MatMul") {
    visit_matmul(call, dy.shape(), visit);
  } else {
    visit_convolution(call, dy.shape(), visit);
  }
  for (int64_t o = 0; inputs.size() > 2 && o < dy.elements(); ++o) {
    const int64_t at = bias_of(call, call.inputs[2], dy.shape(), o);
    add(expected.y, o, beta * inputs[2].data<double>()[at]);
    add(expected.gradients[2], at, beta * g[o]);
  }
  return expected;
}

// Computes one plane of a pool.
void pool_plane(const DrawnCall& call, const std::array<Axis, 3>& axes, const double* x,
                const double* dy, const std::function<void(int64_t, double)>& set_y,
                const std::function<void(int64_t, double)>& add_dx) {
  const int64_t outputs = axes[0].output * axes[1].output * axes[2].output;
  std::vector<Sizes> seen(static_cast<size_t>(outputs));
  for_window(axes, [&](int64_t o, int64_t, int64_t at) {
    if (at >= 0) seen[static_cast<size_t>(o)].push_back(at);
  });
  const bool average = call.op.ends_with("AveragePool");
  const bool counts_pads = attr_int(call.attrs, "count_include_pad", 0) != 0;
  for (int64_t o = 0; o < outputs; ++o) {
    const Sizes& window = seen[static_cast<size_t>(o)];
    if (!average) {
      int64_t best = -1;
      for (const int64_t at : window) best = best < 0 || x[at] > x[best] ? at : best;
      set_y(o, best < 0 ? -std::numeric_limits<double>::infinity() : x[best]);
      if (best >= 0) add_dx(best, dy[o]);
      continue;
    }
    int64_t count = static_cast<int64_t>(window.size());
    if (counts_pads) {
      const std::array<int64_t, 3> at{o / (axes[1].output * axes[2].output),
                                      o / axes[2].output % axes[1].output, o % axes[2].output};
      count = 1;
      for (size_t i = 0; i < 3; ++i) {
        int64_t taps = 0;  // before the end of the padding
        for (int64_t k = 0; k < axes[i].kernel; ++k)
          taps += axes[i].reach(at[i], k) < axes[i].input + axes[i].end;
        count *= taps;
      }
    }
    double sum = 0;
    for (const int64_t in : window) {
      sum += x[in];
      add_dx(in, dy[o] / static_cast<double>(count));
    }
    set_y(o, window.empty() ? 0 : sum / static_cast<double>(count));
  }
}

Expected compute_pool(const DrawnCall& call, const Tensor& x, const Tensor& dy) {
  Sizes kernel = attr_ints(call.attrs, "kernel_shape");
  if (kernel.empty()) kernel.assign(x.shape().dims().begin() + 2, x.shape().dims().end());
  const auto axes = axes_of(call, x.shape(), dy.shape(), kernel);
  Expected expected{zeros(dy.elements()), {zeros(x.elements())}};
  const int64_t in = area_of(x.shape()), out = area_of(dy.shape());
  for (int64_t plane = 0; plane < x.shape()[0] * x.shape()[1]; ++plane) {
    pool_plane(
        call, axes, x.data<double>() + plane * in, dy.data<double>() + plane * out,
        [&](int64_t o, double value) { add(expected.y, plane * out + o, value); },
        [&](int64_t i, double value) { add(expected.gradients[0], plane * in + i, value); });
  }
  return expected;
}

std::string text_of(const Attr& attr) {
  if (const auto* ints = std::get_if<Sizes>(&attr)) return cat("[", join(*ints, ","), "]");
  if (const auto* one = std::get_if<int64_t>(&attr)) return std::to_string(*one);
  if (const auto* real = std::get_if<double>(&attr)) return shortest(*real);
  if (const auto* string = std::get_if<std::string>(&attr)) return *string;
  return "?";
}

}  // namespace

DrawnCall draw_call(uint64_t seed) {
  static const std::array<const char*, 12> kOps{
      "Conv", "Conv",   "Conv",    "Conv",        "ConvTranspose",     "ConvTranspose",
      "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"};
  Draw draw(seed);
  DrawnCall call;
  call.op = kOps[static_cast<size_t>(draw.from(0, 11))];
  call.dtype = draw.once_in(8) ? DType::f64 : draw.once_in(12) ? DType::bf16 : DType::f32;
  call.relu = draw.once_in(6);
  if (call.op.starts_with("Conv")) draw_convolution(draw, call.op == "ConvTranspose", call);
  if (call.op == "Gemm") draw_gemm(draw, call);
  if (call.op == "MatMul") draw_matmul(draw, call);
  if (call.op.ends_with("Pool")) draw_pool(draw, call);
  return call;
}

std::string text_of(const DrawnCall& call) {
  std::vector<std::string> attrs, inputs;
  for (const auto& [name, attr] : call.attrs) attrs.push_back(cat(name, " = ", text_of(attr)));
  for (const Shape& shape : call.inputs) inputs.push_back(cat(call.dtype, shape));
  return cat(call.op, " <", join(attrs, ", "), "> (", join(inputs, ", "), ")",
             call.relu ? " and Relu" : "");
}

Expected compute_plainly(const DrawnCall& call, const std::vector<Tensor>& inputs,
                         const Tensor& dy) {
  if (call.op.ends_with("Pool")) return compute_pool(call, inputs[0], dy);
  return compute_products(call, inputs, dy);
}

double products_of(const DrawnCall& call, const Shape& output) {
  const Shape& x = call.inputs[0];
  const auto outputs = static_cast<double>(output.elements());
  if (call.op == "Gemm") {
    return outputs * static_cast<double>(x[attr_int(call.attrs, "transA", 0) != 0 ? 0 : 1]);
  }
  if (call.op == "MatMul") return outputs * static_cast<double>(x[x.rank() - 1]);
  if (call.op == "ConvTranspose" || call.op == "Conv") {
    const auto walked = static_cast<double>(call.op == "Conv" ? output.elements() : x.elements());
    return walked * static_cast<double>(call.inputs[1].elements(1, call.inputs[1].rank()));
  }
  double kernel = 1;
  for (const int64_t size : attr_ints(call.attrs, "kernel_shape"))
    kernel *= static_cast<double>(size);
  return kernel * static_cast<double>(std::max(output.elements(), x.elements()));
}

}  // namespace leat
