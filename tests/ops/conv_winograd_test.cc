#include "ops/cpu/conv_winograd.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

struct WinogradCase {
  int64_t images, inputs, outputs;
  std::array<int64_t, 2> size, begin, end;  // the image's size and its pads

  ConvSpec spec(ConvKind kind, DType dtype = DType::f32) const {
    ConvSpec spec;
    spec.kind = kind;
    spec.dtype = dtype;
    spec.images = images;
    spec.inputs = inputs;
    spec.outputs = outputs;
    spec.window.rank = 2;
    for (size_t i = 0; i < 2; ++i) {
      spec.window.input[i + 1] = size[i];
      spec.window.output[i + 1] = size[i] + begin[i] + end[i] - 2;
      spec.window.kernel[i + 1] = 3;
      spec.window.begin[i + 1] = begin[i];
      spec.window.end[i + 1] = end[i];
    }
    spec.bias = kind != ConvKind::backward_data;
    return spec;
  }
  Shape x() const { return {images, inputs, size[0], size[1]}; }
  Shape w() const { return {outputs, inputs, 3, 3}; }
  Shape y() const {
    const Window window = spec(ConvKind::forward).window;
    return {images, outputs, window.output[1], window.output[2]};
  }
};

const WinogradCase kCases[] = {
    {3, 32, 64, {14, 14}, {1, 1}, {1, 1}}, {2, 48, 16, {7, 9}, {0, 0}, {0, 0}},
    {2, 16, 112, {5, 6}, {2, 0}, {0, 3}},  {1, 16, 80, {3, 13}, {1, 4}, {3, 1}},
    {5, 64, 48, {8, 8}, {1, 1}, {1, 1}},   {200, 16, 32, {4, 4}, {1, 1}, {1, 1}},
};

// The operands of a convolution. The initial content of its output is arbitrary.
struct Operands {
  Tensor x, w, b, y;

  Operands(const WinogradCase& c, DType dtype)
      : x(random_tensor(DType::f32, c.x(), 1).cast(dtype)),
        w(random_tensor(DType::f32, c.w(), 2).cast(dtype)),
        b(random_tensor(DType::f32, {c.outputs}, 3).cast(dtype)),
        y(random_tensor(DType::f32, c.y(), 4).cast(dtype)) {}

  const Tensor& result(ConvKind kind) const {
    return kind == ConvKind::forward ? y : kind == ConvKind::backward_data ? x : w;
  }
  void use(const ConvSpec& spec) {
    if (spec.x_layout == Layout::channels16) x = to_channels16(x);
    if (spec.y_layout == Layout::channels16) y = to_channels16(y);
  }
};

Tensor bytes(size_t size) { return Tensor(DType::u8, {static_cast<int64_t>(size)}); }

void run_engine(const ConvEngine& engine, ConvKind kind, Operands& o) {
  const bool gradient = kind == ConvKind::backward_weights;
  const Tensor packed = bytes(engine.packed_bytes()), scratch = bytes(engine.scratch_bytes());
  for (int i = 0; i < engine.slices() && !gradient; ++i)
    REQUIRE(engine.pack(o.w.raw(), packed.raw(), i));
  REQUIRE(engine.run(o.x.raw(), packed.raw(), o.b.raw(), o.y.raw(),
                     static_cast<std::byte*>(scratch.raw())));
  for (int i = 0; i < engine.slices() && gradient; ++i)
    REQUIRE(engine.unpack(packed.raw(), o.w.raw(), i));
}

Operands by_winograd(const WinogradCase& c, ConvSpec spec, Operands o) {
  REQUIRE(winograd_fits(spec));
  o.use(spec);
  run_engine(*make_winograd_conv(spec), spec.kind, o);
  if (spec.x_layout == Layout::channels16) o.x = from_channels16(o.x);
  if (spec.y_layout == Layout::channels16) o.y = from_channels16(o.y);
  CHECK(o.x.shape() == c.x());
  return o;
}
Operands by_definition(const WinogradCase& c, const ConvSpec& spec) {
  ConvSpec exact = spec;
  exact.dtype = DType::f64;
  Operands o(c, DType::f64);
  run_engine(*make_direct_conv(exact), spec.kind, o);
  return o;
}

double largest(const Tensor& t) {
  double most = 0;
  for (int64_t i = 0; i < t.elements(); ++i) most = std::max(most, std::abs(t.at(i)));
  return most;
}
// The largest difference, relative to the largest element.
double error(const Tensor& actual, const Tensor& exact) {
  double most = 0;
  for (int64_t i = 0; i < exact.elements(); ++i)
    most = std::max(most, std::abs(actual.at(i) - exact.at(i)));
  return most / largest(exact);
}

bool here() {
  const bool can = winograd_fits(kCases[0].spec(ConvKind::forward));
  if (!can) WARN("this processor has no AVX-512");
  return can;
}

}  // namespace

TEST_CASE("Winograd's convolutions are exact to a few millionths of the largest output") {
  if (!here()) return;
  const auto kind =
      GENERATE(ConvKind::forward, ConvKind::backward_data, ConvKind::backward_weights);
  const bool relu = kind == ConvKind::forward && GENERATE(false, true);
  for (const WinogradCase& c : kCases) {
    INFO(c.inputs << " to " << c.outputs << ", kind " << static_cast<int>(kind));
    ConvSpec spec = c.spec(kind);
    spec.relu = relu;
    spec.x_layout = spec.y_layout = Layout::channels16;
    const Operands expected = by_definition(c, spec);
    const Operands received = by_winograd(c, spec, Operands(c, DType::f32));
    CHECK(error(received.result(kind), expected.result(kind)) < 3e-6);
    CHECK(error(received.b, expected.b) < 3e-6);
  }
}

TEST_CASE("the bits of a Winograd convolution do not depend on layouts") {
  if (!here()) return;
  const auto kind =
      GENERATE(ConvKind::forward, ConvKind::backward_data, ConvKind::backward_weights);
  for (const WinogradCase& c : kCases) {
    INFO(c.inputs << " to " << c.outputs << ", kind " << static_cast<int>(kind));
    ConvSpec spec = c.spec(kind);
    const Operands plain = by_winograd(c, spec, Operands(c, DType::f32));
    spec.x_layout = Layout::channels16;
    check_identical(by_winograd(c, spec, Operands(c, DType::f32)).result(kind), plain.result(kind));
    spec.y_layout = Layout::channels16;
    check_identical(by_winograd(c, spec, Operands(c, DType::f32)).result(kind), plain.result(kind));
  }
}

TEST_CASE("the bits of an image do not depend on the images convolved with it") {
  if (!here()) return;
  const auto kind = GENERATE(ConvKind::forward, ConvKind::backward_data);
  const WinogradCase all{11, 32, 48, {9, 10}, {1, 1}, {1, 1}};
  const Operands operands(all, DType::f32);
  const Tensor expected = by_winograd(all, all.spec(kind), operands).result(kind);
  for (int64_t images : {1, 4, 7}) {
    WinogradCase some = all;
    some.images = images;
    Operands few = operands;
    few.x = Tensor(DType::f32, some.x());
    few.y = Tensor(DType::f32, some.y());
    const int64_t first = all.images - images;
    const auto tail = [&](const Tensor& whole, Tensor& part) {
      const int64_t skipped = first * (whole.elements() / all.images);
      for (int64_t i = 0; i < part.elements(); ++i) part.set(i, whole.at(skipped + i));
      return part;
    };
    tail(operands.x, few.x);
    tail(operands.y, few.y);
    Tensor result(DType::f32, kind == ConvKind::forward ? some.y() : some.x());
    check_identical(by_winograd(some, some.spec(kind), few).result(kind), tail(expected, result));
  }
}

TEST_CASE("Winograd's algorithm is for convolutions of 3x3, step 1 and channels by sixteens") {
  if (!here()) return;
  const ConvSpec spec = kCases[0].spec(ConvKind::forward);
  CHECK(winograd_fits(spec));
  const auto fits = [&](auto change) {
    ConvSpec other = spec;
    change(other);
    return winograd_fits(other);
  };
  CHECK(!fits([](ConvSpec& s) { s.dtype = DType::f64; }));
  CHECK(!fits([](ConvSpec& s) { s.inputs = 20; }));
  CHECK(!fits([](ConvSpec& s) { s.outputs = 8; }));
  CHECK(!fits([](ConvSpec& s) { s.groups = 2; }));
  CHECK(!fits([](ConvSpec& s) { s.window.rank = 3; }));
  CHECK(!fits([](ConvSpec& s) { s.window.kernel[1] = 5; }));
  CHECK(!fits([](ConvSpec& s) { s.window.stride[2] = 2; }));
  CHECK(!fits([](ConvSpec& s) { s.window.dilation[1] = 2; }));
  CHECK(!fits([](ConvSpec& s) { s.images = 0; }));
}

TEST_CASE("Winograd's algorithm is chosen for many tiles that are mostly full") {
  if (!here()) return;
  const auto faster = [](int64_t images, int64_t channels, int64_t size) {
    const WinogradCase c{images, channels, channels, {size, size}, {1, 1}, {1, 1}};
    return winograd_is_faster(c.spec(ConvKind::forward));
  };
  CHECK(faster(128, 32, 14));
  CHECK(faster(1, 64, 28));
  CHECK(faster(64, 512, 4));
  CHECK(!faster(63, 512, 4));
  CHECK(!faster(128, 64, 5));
  CHECK(!faster(128, 16, 14));
  CHECK(!faster(0, 64, 28));
}

}  // namespace leat::testing
