#include <cmath>
#include <functional>

#include "devices/base/text.h"
#include "ops/cpu/conv_engine.h"
#include "ops/graph/gradients.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;

// A convolution with its attributes.
struct Case {
  std::string name;
  int64_t images, inputs, outputs, group;
  Ints spatial, kernel, strides, pads, dilations;

  Attrs attrs() const {
    return {{"group", group}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}};
  }
  Ints output() const {
    Ints sizes;
    for (size_t i = 0; i < spatial.size(); ++i) {
      const int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
      sizes.push_back((spatial[i] + pads[i] + pads[i + spatial.size()] - extent) / strides[i] + 1);
    }
    return sizes;
  }
  static Shape shape(int64_t a, int64_t b, const Ints& rest) {
    Shape s{a, b};
    for (int64_t size : rest) s.push_back(size);
    return s;
  }
  Shape x() const { return shape(images, inputs, spatial); }
  Shape w() const { return shape(outputs, inputs / group, kernel); }
  Shape y() const { return shape(images, outputs, output()); }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"3x3 same", 5, 16, 32, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"first layer", 3, 1, 32, 1, {12, 12}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"colours, 7x7 stride 2", 2, 3, 16, 1, {15, 14}, {7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}},
      {"1x1 stride 2", 3, 32, 16, 1, {8, 8}, {1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {"odd channels", 3, 5, 7, 1, {6, 5}, {3, 2}, {1, 2}, {1, 0, 0, 1}, {1, 1}},
      {"20 to 36", 2, 20, 36, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"dilated", 2, 16, 16, 1, {9, 10}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
      {"groups", 2, 8, 12, 4, {5, 5}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"groups of 16", 2, 32, 32, 2, {5, 5}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"depthwise", 3, 32, 32, 32, {7, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {"depthwise 7x7 over 2x2", 3, 32, 32, 32, {2, 2}, {7, 7}, {1, 1}, {3, 3, 3, 3}, {1, 1}},
      {"depthwise, dilated", 2, 48, 48, 48, {4, 3}, {5, 5}, {1, 1}, {4, 4, 4, 4}, {2, 2}},
      {"depthwise, uneven pads", 2, 16, 16, 16, {6, 3}, {4, 5}, {1, 1}, {0, 3, 2, 1}, {1, 1}},
      {"depthwise, wider pads", 2, 16, 16, 16, {2, 2}, {5, 5}, {1, 1}, {5, 6, 0, 0}, {1, 1}},
      {"depthwise, all of the input", 3, 16, 16, 16, {5, 4}, {5, 4}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {"1-D", 4, 6, 16, 1, {13}, {5}, {3}, {2, 1}, {1}},
      {"3-D", 2, 3, 5, 1, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {0, 1, 1, 1, 1, 0}, {1, 1, 2}},
      {"rest of the stride", 2, 16, 16, 1, {8, 11}, {2, 2}, {3, 3}, {0, 0, 0, 0}, {1, 1}},
      {"many weights", 5, 128, 256, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {"many 1x1 weights", 3, 1040, 288, 1, {5, 4}, {1, 1}, {2, 1}, {1, 0, 0, 1}, {1, 1}},
      {"1x1 of few pixels", 2, 2048, 32, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {"1x1 of few pixels, 1-D", 2, 2056, 32, 1, {9}, {1}, {2}, {1, 0}, {1}},
      {"few channels, wide", 4, 2, 48, 1, {5, 61}, {2, 3}, {1, 2}, {0, 1, 1, 2}, {1, 1}},
      {"few channels, dilated", 2, 1, 16, 1, {9, 40}, {3, 4}, {2, 1}, {2, 0, 2, 1}, {2, 1}},
  };
  return all;
}

// Calls f(x, w, y) with the indices of every product of the convolution, straight from the
// definition.
void for_products(const Case& c, const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const int64_t in_group = c.inputs / c.group, out_group = c.outputs / c.group;
  const Ints output = c.output();
  const size_t rank = c.spatial.size();
  const auto count = [](const Ints& sizes) {
    int64_t product = 1;
    for (int64_t size : sizes) product *= size;
    return product;
  };
  const int64_t x_area = count(c.spatial), y_area = count(output), k_area = count(c.kernel);
  for (int64_t o = 0; o < y_area; ++o) {
    for (int64_t k = 0; k < k_area; ++k) {
      int64_t at = 0, rest_o = o, rest_k = k, scale = 1;
      bool inside = true;
      for (size_t i = rank; i-- > 0;) {
        const int64_t position =
            rest_o % output[i] * c.strides[i] - c.pads[i] + rest_k % c.kernel[i] * c.dilations[i];
        rest_o /= output[i];
        rest_k /= c.kernel[i];
        inside = inside && position >= 0 && position < c.spatial[i];
        at += position * scale;
        scale *= c.spatial[i];
      }
      if (!inside) continue;
      for (int64_t n = 0; n < c.images; ++n) {
        for (int64_t m = 0; m < c.outputs; ++m) {
          for (int64_t ch = 0; ch < in_group; ++ch) {
            f((n * c.inputs + m / out_group * in_group + ch) * x_area + at,
              (m * in_group + ch) * k_area + k, (n * c.outputs + m) * y_area + o);
          }
        }
      }
    }
  }
}

struct Reference {
  Tensor x, w, b, dy;    // in the tested dtype
  Tensor y, dx, dw, db;  // f64
};

Reference reference(const Case& c, DType dtype) {
  Reference r;
  r.x = random_tensor(dtype, c.x(), 1);
  r.w = random_tensor(dtype, c.w(), 2);
  r.b = random_tensor(dtype, {c.outputs}, 3);
  r.dy = random_tensor(dtype, c.y(), 4);
  const Tensor x = r.x.cast(DType::f64), w = r.w.cast(DType::f64), dy = r.dy.cast(DType::f64);
  r.y = Tensor(DType::f64, c.y());
  r.dx = Tensor(DType::f64, c.x());
  r.dw = Tensor(DType::f64, c.w());
  r.db = Tensor(DType::f64, {c.outputs});
  const int64_t area = c.y().elements(2, c.y().rank());
  for (int64_t i = 0; i < r.y.elements(); ++i) {
    const int64_t channel = i / area % c.outputs;
    r.y.set(i, r.b.at(channel));
    r.db.set(channel, r.db.at(channel) + dy.at(i));
  }
  double *px = x.data<double>(), *pw = w.data<double>(), *py = dy.data<double>();
  double *y = r.y.data<double>(), *dx = r.dx.data<double>(), *dw = r.dw.data<double>();
  for_products(c, [&](int64_t ix, int64_t iw, int64_t iy) {
    y[iy] += px[ix] * pw[iw];
    dx[ix] += py[iy] * pw[iw];
    dw[iw] += py[iy] * px[ix];
  });
  return r;
}

Attrs with(Attrs attrs, std::string name, Attr value) {
  attrs[std::move(name)] = std::move(value);
  return attrs;
}

ConvSpec spec_of(const Case& c, ConvKind kind) {
  ConvSpec spec;
  spec.kind = kind;
  spec.images = c.images;
  spec.groups = c.group;
  spec.inputs = c.inputs;
  spec.outputs = c.outputs;
  Window& window = spec.window;
  window.rank = static_cast<int>(c.spatial.size());
  for (size_t i = 0; i < c.spatial.size(); ++i) {
    const size_t axis = i + 3 - c.spatial.size();
    window.input[axis] = c.spatial[i];
    window.output[axis] = c.output()[i];
    window.kernel[axis] = c.kernel[i];
    window.stride[axis] = c.strides[i];
    window.dilation[axis] = c.dilations[i];
    window.begin[axis] = c.pads[i];
    window.end[axis] = c.pads[i + c.spatial.size()];
  }
  return spec;
}

void check(const Tensor& actual, const Tensor& expected) {
  const bool exact = actual.dtype() == DType::f64;
  check_close(actual, expected.cast(actual.dtype()), exact ? 1e-11 : 1e-4, exact ? 1e-11 : 2e-4);
}

}  // namespace

TEST_CASE("convolutions and their gradients are those of the definition") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (const Case& c : cases()) {
    INFO(c.name << " in " << dtype);
    const Reference r = reference(c, dtype);
    check(run1("Conv", {r.x, r.w, r.b}, c.attrs()), r.y);
    check(run1("leat.ConvGradInput", {r.dy, r.w}, with(c.attrs(), "spatial", c.spatial)), r.dx);
    const auto grads =
        run("leat.ConvGradWeights", {r.x, r.dy}, with(c.attrs(), "kernel_shape", c.kernel), 2);
    check(grads[0], r.dw);
    check(grads[1], r.db);
    check(run1("leat.ConvGradWeights", {r.x, r.dy}, with(c.attrs(), "kernel_shape", c.kernel)),
          r.dw);
  }
}

TEST_CASE("convolutions of blocked operands equal those of plain ones") {
  int blocked = 0;
  for (const Case& c : cases()) {
    if (c.spatial.size() != 2 || (c.inputs % 16 != 0 && c.outputs % 16 != 0) ||
        c.name == "20 to 36")
      continue;
    INFO(c.name);
    const Reference r = reference(c, DType::f32);
    if (c.inputs % 16 == 0 || c.outputs % 16 == 0) {
      check_channels16("Conv", {r.x, r.w, r.b}, c.attrs(), 1, 1e-5, 1e-5);
      check_channels16("Conv", {r.x, r.w, r.b},
                       with(c.attrs(), "leat_activation", std::string("relu")), 1, 1e-5, 1e-5);
      check_channels16("leat.ConvGradInput", {r.dy, r.w}, with(c.attrs(), "spatial", c.spatial), 1,
                       1e-5, 1e-5);
      check_channels16("leat.ConvGradWeights", {r.x, r.dy},
                       with(c.attrs(), "kernel_shape", c.kernel), 2, 1e-5, 1e-5);
      ++blocked;
    }
  }
  CHECK(blocked >= 8);
}

TEST_CASE("channels that fill the last block of packed weights in part are convolved as others") {
  std::vector<Case> all;
  for (const int64_t outputs : {232, 328, 392, 408, 424, 440, 456, 1000}) {
    all.push_back({cat("1x1 to ", outputs),
                   2,
                   128,
                   outputs,
                   1,
                   {2, 3},
                   {1, 1},
                   {1, 1},
                   {0, 0, 0, 0},
                   {1, 1}});
  }
  // The last slice has less than a block.
  all.push_back({"2x2 to 142", 3, 20, 142, 1, {3, 3}, {2, 2}, {2, 3}, {1, 1, 1, 1}, {1, 1}});
  all.push_back({"2x2 to 129", 3, 20, 129, 1, {1, 4}, {2, 2}, {3, 1}, {1, 1, 1, 1}, {1, 1}});
  all.push_back(
      {"3-D to 33", 8, 10, 33, 1, {2, 4, 6}, {3, 3, 3}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}});
  all.push_back(
      {"7x7 depthwise", 1, 1000, 1000, 1000, {3, 3}, {7, 7}, {1, 1}, {3, 3, 3, 3}, {1, 1}});
  for (const Case& c : all) {
    INFO(c.name);
    const Reference r = reference(c, DType::f32);
    const Attrs attrs = c.attrs(), of_input = with(attrs, "spatial", c.spatial),
                of_weights = with(attrs, "kernel_shape", c.kernel);
    check(run1("Conv", {r.x, r.w, r.b}, attrs), r.y);
    check(run1("leat.ConvGradInput", {r.dy, r.w}, of_input), r.dx);
    check(run1("leat.ConvGradWeights", {r.x, r.dy}, of_weights), r.dw);
    for (const ConvKind kind :
         {ConvKind::forward, ConvKind::backward_data, ConvKind::backward_weights}) {
      CHECK(make_conv_engine(spec_of(c, kind))->note() == "");
    }
    if (c.inputs % 16 != 0 || c.group > 1) continue;
    check_channels16("Conv", {r.x, r.w, r.b}, attrs, 1, 1e-5, 1e-5);
    check_channels16("leat.ConvGradInput", {r.dy, r.w}, of_input, 1, 1e-5, 1e-5);
    check_channels16("leat.ConvGradWeights", {r.x, r.dy}, of_weights, 1, 1e-5, 1e-5);
  }
}

TEST_CASE("the plain loops take blocked operands and give the same bits") {
  for (const ConvKind kind :
       {ConvKind::forward, ConvKind::backward_data, ConvKind::backward_weights}) {
    ConvSpec spec;
    spec.kind = kind;
    spec.images = 2;
    spec.inputs = 32;
    spec.outputs = 48;
    spec.groups = 2;
    spec.window.rank = 2;
    spec.window.input = {1, 5, 4};
    spec.window.output = {1, 3, 3};
    spec.window.kernel = {1, 3, 2};
    spec.window.stride = {1, 2, 2};
    spec.window.begin = spec.window.end = {0, 1, 1};
    spec.relu = kind == ConvKind::forward;
    const Tensor x = random_tensor(DType::f32, {2, 32, 5, 4}, 1),
                 w = random_tensor(DType::f32, {48, 16, 3, 2}, 2),
                 y = random_tensor(DType::f32, {2, 48, 3, 3}, 3);
    const auto run_with = [&](bool x_blocked, bool y_blocked) {
      ConvSpec s = spec;
      s.x_layout = x_blocked ? Layout::channels16 : Layout::plain;
      s.y_layout = y_blocked ? Layout::channels16 : Layout::plain;
      const Tensor in = x_blocked ? to_channels16(x) : x.clone(),
                   out = y_blocked ? to_channels16(y) : y.clone(), weights = w.clone();
      REQUIRE(make_direct_conv(s)->run(in.raw(), weights.raw(), nullptr, out.raw(), nullptr));
      return std::vector<Tensor>{x_blocked ? from_channels16(in) : in, weights,
                                 y_blocked ? from_channels16(out) : out};
    };
    const auto plain = run_with(false, false);
    for (const auto& [of_x, of_y] : {std::pair{true, false}, {false, true}, {true, true}}) {
      const auto blocked = run_with(of_x, of_y);
      for (size_t i = 0; i < 3; ++i) check_identical(blocked[i], plain[i]);
    }
  }
}

TEST_CASE("convolutions do not depend on the order of their tiles") {
  InterpretOptions reverse;
  reverse.reverse_tiles = true;
  for (const Case& c : cases()) {
    if (c.images < 3) continue;
    INFO(c.name);
    const Reference r = reference(c, DType::f32);
    check_identical(run("Conv", {r.x, r.w, r.b}, c.attrs(), 1, reverse)[0],
                    run1("Conv", {r.x, r.w, r.b}, c.attrs()));
    const Attrs weights = with(c.attrs(), "kernel_shape", c.kernel),
                input = with(c.attrs(), "spatial", c.spatial);
    check_identical(run("leat.ConvGradInput", {r.dy, r.w}, input, 1, reverse)[0],
                    run1("leat.ConvGradInput", {r.dy, r.w}, input));
    const auto forward = run("leat.ConvGradWeights", {r.x, r.dy}, weights, 2),
               backward = run("leat.ConvGradWeights", {r.x, r.dy}, weights, 2, reverse);
    check_identical(backward[0], forward[0]);
    check_identical(backward[1], forward[1]);
  }
}

TEST_CASE("tiles of any number of images give the same images") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (const Case& c : cases()) {
    if (c.images < 4) continue;
    INFO(c.name << " in " << dtype);
    const Reference r = reference(c, dtype);
    check_tiles("Conv", {r.x, r.w, r.b}, c.attrs());
    check_tiles("leat.ConvGradInput", {r.dy, r.w}, with(c.attrs(), "spatial", c.spatial));
  }
}

TEST_CASE("partial sums of weights over tiles of any size are close") {
  const Case& c = cases()[0];
  const Reference r = reference(c, DType::f32);
  for (int64_t tile_rows : {1, 2, 3, 5}) {
    InterpretOptions options;
    options.tile_rows = tile_rows;
    const auto grads = run("leat.ConvGradWeights", {r.x, r.dy},
                           with(c.attrs(), "kernel_shape", c.kernel), 2, options);
    check(grads[0], r.dw);
    check(grads[1], r.db);
  }
}

TEST_CASE("16-bit floats convolve by way of float") {
  const auto dtype = GENERATE(DType::f16, DType::bf16);
  const Case& c = cases()[4];
  const Reference r = reference(c, dtype);
  const double tolerance = dtype == DType::f16 ? 2e-3 : 2e-2;
  check_close(run1("Conv", {r.x, r.w, r.b}, c.attrs()), r.y.cast(dtype), tolerance, tolerance);
  check_close(run1("leat.ConvGradInput", {r.dy, r.w}, with(c.attrs(), "spatial", c.spatial)),
              r.dx.cast(dtype), tolerance, tolerance);
  check_tiles("Conv", {r.x, r.w, r.b}, c.attrs());
  check_tiles("leat.ConvGradInput", {r.dy, r.w}, with(c.attrs(), "spatial", c.spatial));
}

TEST_CASE("a fused relu is applied after the bias of a convolution") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (size_t i : {size_t{0}, size_t{4}, size_t{7}}) {
    const Case& c = cases()[i];
    Reference r = reference(c, dtype);
    for (int64_t e = 0; e < r.y.elements(); ++e) r.y.set(e, std::max(0.0, r.y.at(e)));
    check(run1("Conv", {r.x, r.w, r.b}, with(c.attrs(), "leat_activation", std::string("relu"))),
          r.y);
  }
}

TEST_CASE("auto_pad keeps or shrinks the size") {
  const Tensor x = random_tensor(DType::f64, {1, 1, 5, 6}, 1),
               w = random_tensor(DType::f64, {1, 1, 2, 4}, 2);
  const auto pad = [&](std::string mode, Ints strides) {
    return run1("Conv", {x, w}, {{"auto_pad", std::move(mode)}, {"strides", std::move(strides)}});
  };
  const auto explicit_pads = [&](Ints pads, Ints strides) {
    return run1("Conv", {x, w}, {{"pads", std::move(pads)}, {"strides", std::move(strides)}});
  };
  check_identical(pad("SAME_UPPER", {1, 1}), explicit_pads({0, 1, 1, 2}, {1, 1}));
  check_identical(pad("SAME_LOWER", {1, 1}), explicit_pads({1, 2, 0, 1}, {1, 1}));
  check_identical(pad("VALID", {2, 1}), explicit_pads({0, 0, 0, 0}, {2, 1}));
  check_identical(pad("SAME_UPPER", {2, 3}), explicit_pads({0, 0, 1, 1}, {2, 3}));
}

TEST_CASE("ConvTranspose is the gradient of a convolution's input, plus bias") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (const Case& c : cases()) {
    if (c.name == "rest of the stride" || c.name == "1-D") continue;  // see output_padding
    INFO(c.name << " in " << dtype);
    const Reference r = reference(c, dtype);
    Ints padding;
    for (size_t i = 0; i < c.spatial.size(); ++i) {
      const int64_t full =
          (c.output()[i] - 1) * c.strides[i] + (c.kernel[i] - 1) * c.dilations[i] + 1;
      padding.push_back(c.spatial[i] + c.pads[i] + c.pads[i + c.spatial.size()] - full);
    }
    const Attrs attrs = with(c.attrs(), "output_padding", padding);
    check(run1("ConvTranspose", {r.dy, r.w}, attrs), r.dx);
    const Tensor bias = random_tensor(dtype, {c.inputs}, 9);
    Tensor expected = r.dx.clone();
    const int64_t area = c.x().elements(2, c.x().rank());
    for (int64_t i = 0; i < expected.elements(); ++i)
      expected.set(i, expected.at(i) + bias.at(i / area % c.inputs));
    check(run1("ConvTranspose", {r.dy, r.w, bias}, attrs), expected);
  }
}

TEST_CASE("ConvTranspose finds its pads from output_shape and auto_pad") {
  const Tensor x = random_tensor(DType::f64, {1, 1, 3, 3}, 1),
               w = random_tensor(DType::f64, {1, 2, 3, 3}, 2);
  const auto transpose = [&](Attrs attrs) { return run1("ConvTranspose", {x, w}, attrs); };
  CHECK(transpose({}).shape() == Shape{1, 2, 5, 5});
  CHECK(transpose({{"strides", Ints{3, 2}}}).shape() == Shape{1, 2, 9, 7});
  CHECK(transpose({{"strides", Ints{3, 2}}, {"output_padding", Ints{1, 1}}}).shape() ==
        Shape{1, 2, 10, 8});
  check_identical(transpose({{"strides", Ints{3, 2}}, {"output_padding", Ints{1, 1}}}),
                  transpose({{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}}));
  check_identical(transpose({{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}),
                  transpose({{"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}}));
  check_identical(transpose({{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}}),
                  transpose({{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}}));
}

TEST_CASE("gradients of convolutions agree with finite differences") {
  for (const Case& c : cases()) {
    if (c.x().elements() > 400 || c.w().elements() > 400) continue;
    INFO(c.name);
    const Tensor x = random_tensor(DType::f64, c.x(), 1), w = random_tensor(DType::f64, c.w(), 2);
    const Tensor b = random_tensor(DType::f64, {c.outputs}, 3),
                 dy = random_tensor(DType::f64, c.y(), 4);
    check_gradients("Conv", {x, w, b}, c.attrs(), {0, 1, 2});
    check_gradients("ConvTranspose", {dy, w, random_tensor(DType::f64, {c.inputs}, 5)}, c.attrs(),
                    {0, 1, 2});
    check_gradients("leat.ConvGradInput", {dy, w}, with(c.attrs(), "spatial", c.spatial), {0, 1});
    check_gradients("leat.ConvGradWeights", {x, dy}, with(c.attrs(), "kernel_shape", c.kernel),
                    {0, 1});
  }
  const Tensor x = random_tensor(DType::f64, {2, 2, 5, 4}, 1),
               w = random_tensor(DType::f64, {2, 2, 3, 2}, 2);
  check_gradients("Conv", {x, w},
                  {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 1}}}, {0, 1});
  check_gradients("ConvTranspose", {x, w},
                  {{"strides", Ints{2, 3}}, {"output_padding", Ints{1, 2}}}, {0, 1});
  check_gradients("ConvTranspose", {x, w, random_tensor(DType::f64, {2}, 3)},
                  {{"dilations", Ints{3, 2}}, {"output_padding", Ints{2, 1}}}, {0, 1, 2});
  check_gradients("ConvTranspose", {x, w},
                  {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}, {0, 1});
  check_gradients("ConvTranspose", {x, w}, {{"strides", Ints{2, 2}}, {"output_shape", Ints{9, 9}}},
                  {0, 1});
}

TEST_CASE("the gradient of a convolution keeps a symbolic batch") {
  Graph graph(test_catalogue());
  Inference inference(graph);
  const ValueId x = graph.add_input(
      "x", tensor_type(DType::f32,
                       {Dim::of_symbol(graph.symbol("N")), Dim::of(3), Dim::of(8), Dim::of(8)}));
  const ValueId w = graph.add_input("w", tensor_type(DType::f32, Shape{16, 3, 3, 3}));
  const NodeId conv = graph.add_node(*test_catalogue().find("Conv"), {x, w},
                                     {{"auto_pad", std::string("SAME_UPPER")}}, 1);
  REQUIRE(inference.run().ok());
  const ValueId xs[] = {x, w};
  const auto gradients = add_gradients(inference, graph.node(conv).outputs[0], xs);
  INFO(gradients.status());
  REQUIRE(gradients.ok());
  CHECK(graph.value((*gradients)[0]).type == graph.value(x).type);
  CHECK(graph.value((*gradients)[1]).type == graph.value(w).type);
}

TEST_CASE("an empty batch convolves to an empty batch and to zero gradients") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  const Tensor x(dtype, {0, 16, 4, 4}), w = random_tensor(dtype, {16, 16, 3, 3}, 1),
                                        dy(dtype, {0, 16, 2, 2});
  CHECK(run1("Conv", {x, w}).shape() == Shape{0, 16, 2, 2});
  CHECK(run1("leat.ConvGradInput", {dy, w}, {{"spatial", Ints{4, 4}}}).shape() ==
        Shape{0, 16, 4, 4});
  const auto grads = run("leat.ConvGradWeights", {x, dy}, {{"kernel_shape", Ints{3, 3}}}, 2);
  check_identical(grads[0], Tensor(dtype, {16, 16, 3, 3}));
  check_identical(grads[1], Tensor(dtype, {16}));
}

TEST_CASE("convolutions that do not fit are refused by name and size") {
  const Tensor x(DType::f32, {1, 4, 5, 5}), w(DType::f32, {6, 4, 3, 3});
  const auto message = [&](std::vector<Tensor> inputs, Attrs attrs) {
    return run_error("Conv", inputs, attrs).message();
  };
  CHECK(message({x, Tensor(DType::f32, {6, 3, 3, 3})}, {}) ==
        "Conv: channels differ, data is [1,4,5,5], weights are [6,3,3,3], group is 1");
  CHECK(message({x, w}, {{"group", int64_t{4}}}) ==
        "Conv: group: expected a divisor of 6, received 4");
  CHECK(message({x, Tensor(DType::f32, {6, 4, 7, 3})}, {}) ==
        "Conv: axis 0: expected a window of at most the padded size 5, it spans 7");
  CHECK(message({x, w}, {{"strides", Ints{1, 0}}}) ==
        "Conv: strides: expected values in [1, 1073741824], received 0");
  CHECK(message({x, w}, {{"pads", Ints{1, 1}}}) == "Conv: pads: expected 4 values, received 2");
  CHECK(message({x, w}, {{"auto_pad", std::string("SAME")}}) ==
        "Conv: auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, received 'SAME'");
  CHECK(message({x, w}, {{"kernel_shape", Ints{5, 5}}}) ==
        "Conv: kernel_shape: expected that of the weights, [3,3], received [5,5]");
  CHECK(message({x, w, Tensor(DType::f32, {4})}, {}) ==
        "Conv: bias: expected one value for each of 6 channels, received [4]");
  CHECK(message({Tensor(DType::f32, {4, 5}), w}, {}) ==
        "Conv: expected data and weights of the same rank 3, 4 or 5, received [4,5] and [6,4,3,3]");
  CHECK(run_error("leat.ConvGradInput", {Tensor(DType::f32, {1, 6, 4, 3}), w},
                  {{"spatial", Ints{5, 5}}})
            .message() == "leat.ConvGradInput: axis 0: expected dy of size 3, it is [1,6,4,3]");
}

TEST_CASE("a symbolic batch goes through convolutions") {
  const SymbolicShape x{Dim::of_symbol(7), Dim::of(3), Dim::of(8), Dim::of_symbol(9)};
  const auto outcome =
      infer("Conv", {tensor_type(DType::f32, x), tensor_type(DType::f32, Shape{16, 3, 3, 3})},
            {{"pads", Ints{1, 1, 1, 1}}});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape ==
        SymbolicShape{Dim::of_symbol(7), Dim::of(16), Dim::of(8), Dim::of_symbol(9)});
}

TEST_CASE("sharding rules of convolutions split batch, output and input channels") {
  const OpDef& op = *test_catalogue().find("Conv");
  const auto type = [](Shape shape) {
    return OperandType{DType::f32, shape, Layout::plain, ValueKind::tensor, true};
  };
  const auto rules = op.sharding({type({8, 4, 5, 5}), type({6, 4, 3, 3})}, {type({8, 6, 3, 3})},
                                 with_defaults(op, {}));
  REQUIRE(rules.size() == 3);
  CHECK(rules[0] == ShardingRule{{Spread::on(0), {}}, {Spread::on(0)}});
  CHECK(rules[1] == ShardingRule{{{}, Spread::on(0)}, {Spread::on(1)}});
  CHECK(rules[2] == ShardingRule{{Spread::on(1), Spread::on(1)}, {Spread::sum()}});
}

}  // namespace leat::testing
