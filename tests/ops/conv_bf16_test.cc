#include <cstring>

#include "ops/cpu/conv_kernel.h"
#include "ops/cpu/conv_weights_bf16.h"
#include "ops/cpu/onednn.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using namespace testing;

// Convolutions of bf16 whose engines are the library's, whatever the processor: 3x3, in images of 8
// by 8. `outputs` is large enough for a cut by channels in one of them.
struct Bf16Conv {
  int64_t images, inputs, outputs;
  int64_t stride;
  Layout layout;

  ConvSpec spec(ConvKind kind) const {
    ConvSpec s;
    s.kind = kind;
    s.dtype = DType::bf16;
    s.window.rank = 2;
    s.window.input = {1, 8, 8};
    s.window.output = {1, 8 / stride, 8 / stride};
    s.window.kernel = {1, 3, 3};
    s.window.begin = s.window.end = {0, 1, 1};
    s.window.stride = {1, stride, stride};
    s.images = images;
    s.inputs = inputs;
    s.outputs = outputs;
    s.x_layout = s.y_layout = layout;
    s.bias = kind != ConvKind::backward_data;
    return s;
  }
  Shape x() const { return {images, inputs, 8, 8}; }
  Shape w() const { return {outputs, inputs, 3, 3}; }
  Shape y() const { return {images, outputs, 8 / stride, 8 / stride}; }
};

// The operands, computed in f32 from the same values.
struct Bf16Reference {
  explicit Bf16Reference(const Bf16Conv& c)
      : x(random_tensor(DType::bf16, c.x(), 1)),
        w(random_tensor(DType::bf16, c.w(), 2)),
        dy(random_tensor(DType::bf16, c.y(), 3)),
        bias(random_tensor(DType::f32, {c.outputs}, 4)) {
    const Attrs window{{"pads", std::vector<int64_t>(4, 1)},
                       {"strides", std::vector<int64_t>(2, c.stride)}};
    const auto wide = [](const Tensor& t) { return t.cast(DType::f32); };
    Attrs spatial = window, kernel = window;
    spatial["spatial"] = std::vector<int64_t>{8, 8};
    kernel["kernel_shape"] = std::vector<int64_t>{3, 3};
    y = run1("Conv", {wide(x), wide(w), bias}, window);
    dx = run1("leat.ConvGradInput", {wide(dy), wide(w)}, spatial);
    auto grads = run("leat.ConvGradWeights", {wide(x), wide(dy)}, kernel, 2);
    dw = grads[0];
    dbias = grads[1];
  }
  Tensor x, w, dy, bias, y, dx, dw, dbias;
};

// A tensor in the layout of the case, and back.
Tensor laid_out(const Bf16Conv& c, const Tensor& t) {
  return c.layout == Layout::plain ? t : to_channels16(t);
}
Tensor as_plain(const Bf16Conv& c, const Tensor& t) {
  return c.layout == Layout::plain ? t : from_channels16(t);
}

Result<std::unique_ptr<Kernel>> rows_kernel(const Bf16Conv& c, ConvKind kind, int64_t tile_rows) {
  KernelSetup setup;
  setup.tile_rows = tile_rows;
  return make_conv_rows_kernel(setup, c.spec(kind), {.x = 0, .w = 1, .bias = 2, .y = 0});
}

const Bf16Conv kBf16Convs[] = {{5, 32, 48, 1, Layout::channels16},
                               {3, 16, 32, 2, Layout::plain},
                               {2, 128, 256, 1, Layout::channels16}};

bool library_convolves() {
  return onednn::make_conv(kBf16Convs[0].spec(ConvKind::forward), nullptr).ok();
}

TEST_CASE("the library's convolutions of bf16 are those of f32, rounded once") {
  if (!library_convolves()) return;  // no AVX-512
  for (const Bf16Conv& c : kBf16Convs) {
    INFO(c.inputs << " to " << c.outputs);
    const Bf16Reference r(c);
    auto forward = rows_kernel(c, ConvKind::forward, 0);
    REQUIRE(forward.status().message() == "");
    Tensor x = laid_out(c, r.x), dy = laid_out(c, r.dy), w = r.w;
    Tensor y(DType::bf16, c.y()), dx(DType::bf16, c.x());
    run_kernel(**forward, {x.raw(), w.raw(), r.bias.raw()}, {y.raw()});
    check_close(as_plain(c, y), r.y.cast(DType::bf16), 2e-2, 2e-2);

    auto data = rows_kernel(c, ConvKind::backward_data, 0);
    REQUIRE(data.status().message() == "");
    run_kernel(**data, {dy.raw(), w.raw(), nullptr}, {dx.raw()});
    check_close(as_plain(c, dx), r.dx.cast(DType::bf16), 2e-2, 2e-2);

    auto weights = make_conv_weights_kernel(KernelSetup(), c.spec(ConvKind::backward_weights),
                                            {.x = 0, .w = 0, .bias = 1, .y = 1});
    REQUIRE(weights.status().message() == "");
    Tensor dw(DType::f32, c.w()), dbias(DType::f32, {c.outputs});
    run_kernel(**weights, {x.raw(), dy.raw()}, {dw.raw(), dbias.raw()});
    check_close(dw, r.dw, 1e-4, 1e-3);
    check_close(dbias, r.dbias, 1e-4, 1e-3);
  }
}

TEST_CASE("a gradient of weights as one product of bf16 is that of f32") {
  if (!library_convolves()) return;  // no AVX-512
  const Bf16Conv cases[] = {{2, 128, 256, 1, Layout::channels16},
                            {3, 80, 96, 2, Layout::channels16},
                            {1, 16, 32, 1, Layout::channels16}};
  for (const Bf16Conv& c : cases) {
    for (const bool bias : {true, false}) {
      INFO(c.inputs << " to " << c.outputs << ", bias " << bias);
      const Bf16Reference r(c);
      ConvSpec spec = c.spec(ConvKind::backward_weights);
      spec.bias = bias;
      REQUIRE(conv_weights_product_fits(spec));
      auto kernel = make_conv_weights_product(spec, {.x = 0, .w = 0, .bias = 1, .y = 1});
      REQUIRE(kernel.status().message() == "");
      Tensor x = laid_out(c, r.x), dy = laid_out(c, r.dy);
      Tensor dw(DType::f32, c.w()), dbias(DType::f32, {c.outputs});
      run_kernel(**kernel, {x.raw(), dy.raw()}, {dw.raw(), bias ? dbias.raw() : nullptr});
      check_close(dw, r.dw, 1e-4, 1e-3);
      if (bias) check_close(dbias, r.dbias, 1e-4, 1e-3);
    }
  }
}

TEST_CASE("a gradient of weights as one product has any window") {
  if (!library_convolves()) return;  // no AVX-512
  struct WindowCase {
    std::array<int64_t, 3> input, output, kernel, begin, end, stride, dilation;
  };
  const WindowCase cases[] = {
      {{1, 7, 9}, {1, 6, 5}, {1, 2, 3}, {0, 0, 1}, {0, 1, 2}, {1, 1, 2}, {1, 2, 1}},
      {{1, 7, 7}, {1, 7, 7}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
      {{1, 9, 9}, {1, 3, 3}, {1, 7, 7}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}}};
  for (const WindowCase& w : cases) {
    INFO("a kernel of " << w.kernel[1] << " by " << w.kernel[2]);
    ConvSpec spec;
    spec.kind = ConvKind::backward_weights;
    spec.dtype = DType::bf16;
    spec.window = {.rank = 2,
                   .input = w.input,
                   .output = w.output,
                   .kernel = w.kernel,
                   .stride = w.stride,
                   .dilation = w.dilation,
                   .begin = w.begin,
                   .end = w.end};
    spec.images = 1;
    spec.inputs = 48;
    spec.outputs = 64;
    spec.x_layout = spec.y_layout = Layout::channels16;
    REQUIRE(conv_weights_product_fits(spec));
    const Tensor x = random_tensor(DType::bf16, {1, 48, w.input[1], w.input[2]}, 1),
                 dy = random_tensor(DType::bf16, {1, 64, w.output[1], w.output[2]}, 2);
    const auto pair = [](const std::array<int64_t, 3>& of) {
      return std::vector<int64_t>{of[1], of[2]};
    };
    const Tensor expected =
        run("leat.ConvGradWeights", {x.cast(DType::f32), dy.cast(DType::f32)},
            {{"kernel_shape", pair(w.kernel)},
             {"strides", pair(w.stride)},
             {"dilations", pair(w.dilation)},
             {"pads", std::vector<int64_t>{w.begin[1], w.begin[2], w.end[1], w.end[2]}}},
            1)[0];
    auto kernel = make_conv_weights_product(spec, {.x = 0, .w = 0, .bias = -1, .y = 1});
    REQUIRE(kernel.status().message() == "");
    Tensor blocked_x = to_channels16(x), blocked_dy = to_channels16(dy);
    Tensor dw(DType::f32, {64, 48, w.kernel[1], w.kernel[2]});
    run_kernel(**kernel, {blocked_x.raw(), blocked_dy.raw()}, {dw.raw()});
    check_close(dw, expected, 1e-4, 1e-3);
  }
}

TEST_CASE("a gradient of weights is one product only where that fits") {
  const Bf16Conv c{2, 128, 256, 1, Layout::channels16};
  const ConvSpec fits = c.spec(ConvKind::backward_weights);
  CHECK(conv_weights_product_fits(fits));
  const auto changed = [&](auto change) {
    ConvSpec spec = fits;
    change(spec);
    return conv_weights_product_fits(spec);
  };
  CHECK(!changed([](ConvSpec& s) { s.kind = ConvKind::forward; }));
  CHECK(!changed([](ConvSpec& s) { s.dtype = DType::f32; }));
  CHECK(!changed([](ConvSpec& s) { s.groups = 2; }));
  CHECK(!changed([](ConvSpec& s) { s.x_layout = Layout::plain; }));
  CHECK(!changed([](ConvSpec& s) { s.y_layout = Layout::plain; }));
  CHECK(!changed([](ConvSpec& s) { s.inputs = 120; }));
  CHECK(!changed([](ConvSpec& s) { s.outputs = 240; }));
  CHECK(!changed([](ConvSpec& s) { s.images = 0; }));
  CHECK(!changed([](ConvSpec& s) { s.images = 100; }));  // too many pixels
}

TEST_CASE("the library's convolutions of bf16 do not depend on the images of a tile") {
  if (!library_convolves()) return;  // no AVX-512
  const Bf16Conv& c = kBf16Convs[0];
  const Bf16Reference r(c);
  Tensor x = laid_out(c, r.x), dy = laid_out(c, r.dy), w = r.w;
  std::vector<Tensor> ys, dxs;
  for (int64_t images : {1, 2, 5}) {
    ys.emplace_back(DType::bf16, c.y());
    dxs.emplace_back(DType::bf16, c.x());
    run_kernel(**rows_kernel(c, ConvKind::forward, images), {x.raw(), w.raw(), r.bias.raw()},
               {ys.back().raw()});
    run_kernel(**rows_kernel(c, ConvKind::backward_data, images), {dy.raw(), w.raw(), nullptr},
               {dxs.back().raw()});
    check_identical(ys.back(), ys.front());
    check_identical(dxs.back(), dxs.front());
  }
}

TEST_CASE("a relu fused to the library's convolution of bf16 keeps NaN") {
  if (!library_convolves()) return;  // no AVX-512
  const Bf16Conv& c = kBf16Convs[0];
  Bf16Reference r(c);
  ConvSpec spec = c.spec(ConvKind::forward);
  spec.relu = true;
  r.bias.set(1, NAN);
  auto kernel = make_conv_rows_kernel(KernelSetup(), spec, {.x = 0, .w = 1, .bias = 2, .y = 0});
  REQUIRE(kernel.ok());
  Tensor x = laid_out(c, r.x), y(DType::bf16, c.y());
  run_kernel(**kernel, {x.raw(), r.w.raw(), r.bias.raw()}, {y.raw()});
  y = as_plain(c, y);
  int64_t wrong = 0, zeros = 0;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const bool nan = i / 64 % c.outputs == 1;
    wrong += nan ? y.at(i) == y.at(i) : !(y.at(i) >= 0);
    zeros += y.at(i) == 0;
  }
  CHECK(wrong == 0);
  CHECK(zeros > 0);
}

}  // namespace
}  // namespace leat
