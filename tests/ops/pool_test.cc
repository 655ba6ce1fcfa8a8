#include <cmath>
#include <functional>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;

struct PoolCase {
  std::string name;
  Shape x;
  Ints kernel, strides, pads, dilations;
  int64_t ceil_mode = 0;

  Attrs attrs() const {
    return {{"kernel_shape", kernel},
            {"strides", strides},
            {"pads", pads},
            {"dilations", dilations},
            {"ceil_mode", ceil_mode}};
  }
  Ints spatial() const { return Ints(x.begin() + 2, x.end()); }
};

const std::vector<PoolCase>& pool_cases() {
  static const std::vector<PoolCase> all{
      {"2x2 stride 2", {5, 16, 6, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {"3x3 stride 2 padded", {4, 32, 7, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {"overlapping", {4, 3, 5, 6}, {3, 2}, {1, 1}, {0, 1, 2, 0}, {1, 1}},
      {"dilated", {4, 16, 9, 9}, {2, 3}, {1, 2}, {1, 2, 1, 2}, {3, 2}},
      {"rounded up", {4, 16, 5, 8}, {2, 3}, {2, 3}, {0, 0, 0, 0}, {1, 1}, 1},
      {"rounded up and padded", {4, 2, 6, 5}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
      {"1-D", {4, 2, 11}, {4}, {3}, {1, 2}, {1}},
      {"3-D", {4, 2, 4, 5, 6}, {2, 2, 3}, {2, 1, 3}, {0, 1, 0, 0, 0, 2}, {1, 1, 1}},
  };
  return all;
}

// Calls f(output, k, input) for each output element and each element k of its window, straight from
// the definition. The input is -1 in the padding and -2 beyond it.
struct Windows {
  Ints output;
  void each(const PoolCase& c, const std::function<void(int64_t, int64_t, int64_t)>& f) {
    const size_t rank = c.kernel.size();
    output.clear();
    int64_t out_area = 1, in_area = 1, kernel_area = 1;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t size = c.spatial()[i], padded = size + c.pads[i] + c.pads[i + rank];
      const int64_t room = padded - ((c.kernel[i] - 1) * c.dilations[i] + 1);
      int64_t count = room / c.strides[i] + 1;
      if (c.ceil_mode && room % c.strides[i] != 0 && count * c.strides[i] < size + c.pads[i])
        ++count;
      output.push_back(count);
      out_area *= count, in_area *= size, kernel_area *= c.kernel[i];
    }
    for (int64_t plane = 0; plane < c.x[0] * c.x[1]; ++plane) {
      for (int64_t o = 0; o < out_area; ++o) {
        for (int64_t k = 0; k < kernel_area; ++k) {
          int64_t at = 0, scale = 1, rest_o = o, rest_k = k, kind = 0;
          for (size_t i = rank; i-- > 0;) {
            const int64_t position = rest_o % output[i] * c.strides[i] - c.pads[i] +
                                     rest_k % c.kernel[i] * c.dilations[i];
            rest_o /= output[i], rest_k /= c.kernel[i];
            if (position >= c.spatial()[i] + c.pads[i + rank])
              kind = -2;
            else if ((position < 0 || position >= c.spatial()[i]) && kind == 0)
              kind = -1;
            at += position * scale;
            scale *= c.spatial()[i];
          }
          f(plane * out_area + o, k, kind < 0 ? kind : plane * in_area + at);
        }
      }
    }
  }
  Shape shape(const PoolCase& c) const {
    Shape s{c.x[0], c.x[1]};
    for (int64_t size : output) s.push_back(size);
    return s;
  }
};

Attrs with_attr(Attrs attrs, std::string name, Attr value) {
  attrs[std::move(name)] = std::move(value);
  return attrs;
}

}  // namespace

TEST_CASE("MaxPool and its gradient are those of the definition") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (const PoolCase& c : pool_cases()) {
    INFO(c.name << " in " << dtype);
    const Tensor x = random_tensor(dtype, c.x, 1);
    Windows windows;
    windows.each(c, [](int64_t, int64_t, int64_t) {});
    const Shape shape = windows.shape(c);
    Tensor y(dtype, shape), indices(DType::i64, shape), argmax(DType::u8, shape), dx(dtype, c.x);
    for (int64_t i = 0; i < y.elements(); ++i) y.set(i, -INFINITY);
    windows.each(c, [&](int64_t o, int64_t k, int64_t in) {
      if (in < 0 || !(x.at(in) > y.at(o))) return;
      y.set(o, x.at(in));
      indices.data<int64_t>()[o] = in;
      argmax.data<uint8_t>()[o] = static_cast<uint8_t>(k);
    });
    const auto received = run("MaxPool", {x}, c.attrs(), 3);
    check_identical(received[0], y);
    check_identical(received[1], indices);
    check_identical(received[2], argmax);
    const Tensor dy = random_tensor(dtype, shape, 2);
    for (int64_t o = 0; o < dy.elements(); ++o) {
      const int64_t in = indices.data<int64_t>()[o];
      dx.set(in, dx.at(in) + dy.at(o));
    }
    check_close(
        run1("leat.MaxPoolGrad", {dy, argmax}, with_attr(c.attrs(), "spatial", c.spatial())), dx);
  }
}

TEST_CASE("AveragePool and its gradient are those of the definition") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  const int64_t count_pads = GENERATE(0, 1);
  for (const PoolCase& c : pool_cases()) {
    INFO(c.name << " in " << dtype << ", count_include_pad " << count_pads);
    const Tensor x = random_tensor(dtype, c.x, 1);
    Windows windows;
    windows.each(c, [](int64_t, int64_t, int64_t) {});
    const Shape shape = windows.shape(c);
    Tensor y(DType::f64, shape), count(DType::f64, shape), dx(DType::f64, c.x);
    windows.each(c, [&](int64_t o, int64_t, int64_t in) {
      if (in >= 0) y.set(o, y.at(o) + x.at(in));
      if (in >= 0 || (count_pads && in == -1)) count.set(o, count.at(o) + 1);
    });
    const Tensor dy = random_tensor(dtype, shape, 2);
    windows.each(c, [&](int64_t o, int64_t, int64_t in) {
      if (in >= 0) dx.set(in, dx.at(in) + dy.at(o) / count.at(o));
    });
    for (int64_t i = 0; i < y.elements(); ++i) y.set(i, y.at(i) / std::max(1.0, count.at(i)));
    const Attrs attrs = with_attr(c.attrs(), "count_include_pad", count_pads);
    check_close(run1("AveragePool", {x}, attrs), y.cast(dtype));
    check_close(run1("leat.AveragePoolGrad", {dy}, with_attr(attrs, "spatial", c.spatial())),
                dx.cast(dtype));
  }
}

TEST_CASE("pools of blocked operands equal those of plain ones to the bit") {
  for (const PoolCase& c : pool_cases()) {
    if (c.x.rank() != 4 || c.x[1] % 16 != 0) continue;
    INFO(c.name);
    const Tensor x = random_tensor(DType::f32, c.x, 1);
    const auto pooled = run("MaxPool", {x}, c.attrs(), 3);
    const Tensor dy = random_tensor(DType::f32, pooled[0].shape(), 2);
    check_channels16("MaxPool", {x}, c.attrs());
    check_channels16("leat.MaxPoolGrad", {dy, pooled[2]},
                     with_attr(c.attrs(), "spatial", c.spatial()));
    check_channels16("AveragePool", {x}, c.attrs());
    check_channels16("leat.AveragePoolGrad", {dy}, with_attr(c.attrs(), "spatial", c.spatial()));
    check_channels16("GlobalAveragePool", {x});
    check_channels16("GlobalMaxPool", {x}, {}, 2);
  }
}

TEST_CASE("pools do not depend on how they are cut into images") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  for (const PoolCase& c : pool_cases()) {
    INFO(c.name << " in " << dtype);
    const Tensor x = random_tensor(dtype, c.x, 1);
    const auto pooled = run("MaxPool", {x}, c.attrs(), 3);
    const Tensor dy = random_tensor(dtype, pooled[0].shape(), 2);
    check_tiles("MaxPool", {x}, c.attrs(), 3);
    check_tiles("leat.MaxPoolGrad", {dy, pooled[2]}, with_attr(c.attrs(), "spatial", c.spatial()));
    check_tiles("AveragePool", {x}, c.attrs());
    check_tiles("leat.AveragePoolGrad", {dy}, with_attr(c.attrs(), "spatial", c.spatial()));
    check_tiles("GlobalAveragePool", {x});
  }
}

TEST_CASE("gradients of pools agree with finite differences") {
  for (const PoolCase& c : pool_cases()) {
    if (c.x.elements() > 500) continue;
    INFO(c.name);
    const Tensor x = random_tensor(DType::f64, c.x, 1);
    check_gradients("MaxPool", {x}, c.attrs(), {0});
    check_gradients("AveragePool", {x}, c.attrs(), {0});
    check_gradients("AveragePool", {x}, with_attr(c.attrs(), "count_include_pad", int64_t{1}), {0});
    check_gradients("GlobalAveragePool", {x}, {}, {0});
    check_gradients("GlobalMaxPool", {x}, {}, {0});
  }
  const Tensor x = random_tensor(DType::f64, {2, 1, 5, 5}, 1),
               dy = random_tensor(DType::f64, {2, 1, 3, 3}, 2);
  const Attrs window{{"kernel_shape", Ints{3, 3}}};
  check_gradients("MaxPool", {x}, with_attr(window, "auto_pad", std::string("SAME_UPPER")), {0});
  check_gradients("leat.AveragePoolGrad", {dy}, with_attr(window, "spatial", Ints{5, 5}), {0});
}

TEST_CASE("global pools reduce all spatial axes") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::f16);
  const Tensor x = Tensor::of<float>({1, 2, 2, 2}, {1, 2, 3, 6, -1, -5, -3, -7}).cast(dtype);
  check_identical(run1("GlobalAveragePool", {x}),
                  Tensor::of<float>({1, 2, 1, 1}, {3, -4}).cast(dtype));
  const auto max = run("GlobalMaxPool", {x}, {}, 2);
  check_identical(max[0], Tensor::of<float>({1, 2, 1, 1}, {6, -1}).cast(dtype));
  check_identical(max[1], Tensor::of<uint8_t>({1, 2, 1, 1}, {3, 0}));
}

TEST_CASE("the first of equal maxima counts, a NaN is the largest, and minus infinity may win") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = Tensor::of<float>({1, 1, 3, 4}, {2, 2, 1, nan, -inf, -inf, nan, 9, 0, -1, 5, 5});
  const auto pooled =
      run("MaxPool", {x}, {{"kernel_shape", Ints{1, 2}}, {"strides", Ints{1, 2}}}, 3);
  check_close(pooled[0], Tensor::of<float>({1, 1, 3, 2}, {2, nan, -inf, nan, 0, 5}));
  check_identical(pooled[2], Tensor::of<uint8_t>({1, 1, 3, 2}, {0, 1, 0, 0, 0, 0}));
}

// The loops for 2x2 windows of floats have the bits of the general loops, which doubles use.
TEST_CASE("2x2 windows side by side treat zeros, infinities and NaN as all windows do") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float values[] = {0, -0.0f, 1, 1, -1, inf, -inf, nan, 0.5f, -0.5f, 2};
  for (const Shape& shape : {Shape{2, 3, 5, 9}, Shape{1, 16, 6, 7}, Shape{1, 2, 4, 530}}) {
    const Shape pooled{shape[0], shape[1], shape[2] / 2, shape[3] / 2};
    Tensor x(DType::f32, shape), dy(DType::f32, pooled);
    uint32_t random = 7;
    for (Tensor* t : {&x, &dy}) {
      for (int64_t i = 0; i < t->elements(); ++i) {
        random = random * 1664525 + 1013904223;
        t->data<float>()[i] = values[(random >> 20) % std::size(values)];
      }
    }
    const Attrs window{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
    const Attrs grad = with_attr(window, "spatial", Ints{shape[2], shape[3]});
    const auto fast = run("MaxPool", {x}, window, 3),
               slow = run("MaxPool", {x.cast(DType::f64)}, window, 3);
    check_identical(fast[0], slow[0].cast(DType::f32));
    check_identical(fast[1], slow[1]);
    check_identical(fast[2], slow[2]);
    check_identical(
        run1("leat.MaxPoolGrad", {dy, fast[2]}, grad),
        run1("leat.MaxPoolGrad", {dy.cast(DType::f64), fast[2]}, grad).cast(DType::f32));
    if (shape[1] % 16 == 0) {
      check_channels16("MaxPool", {x}, window);
      check_channels16("leat.MaxPoolGrad", {dy, fast[2]}, grad);
    }
  }
}

TEST_CASE("MaxPool of integers has no infinity to start from") {
  const Tensor x = Tensor::of<int8_t>({1, 1, 1, 4}, {-128, -128, 3, -4});
  const auto pooled =
      run("MaxPool", {x}, {{"kernel_shape", Ints{1, 2}}, {"strides", Ints{1, 2}}}, 2);
  check_identical(pooled[0], Tensor::of<int8_t>({1, 1, 1, 2}, {-128, 3}));
  check_identical(pooled[1], Tensor::of<int64_t>({1, 1, 1, 2}, {0, 2}));
}

TEST_CASE("MaxPool counts indices by columns when told to") {
  const Tensor x = Tensor::of<float>({1, 1, 2, 3}, {1, 2, 3, 6, 5, 4});
  const auto pooled =
      run("MaxPool", {x}, {{"kernel_shape", Ints{2, 1}}, {"storage_order", int64_t{1}}}, 2);
  check_identical(pooled[1], Tensor::of<int64_t>({1, 1, 1, 3}, {1, 3, 5}));
}

TEST_CASE("a window of more than 256 elements keeps its argmax in 32 bits") {
  const Tensor x = random_tensor(DType::f32, {4, 16, 17, 17}, 1);
  const auto pooled = run("GlobalMaxPool", {x}, {}, 2);
  REQUIRE(pooled[1].dtype() == DType::i32);
  for (int64_t plane = 0; plane < 64; ++plane) {
    CHECK(x.at(plane * 289 + pooled[1].int_at(plane)) == pooled[0].at(plane));
  }
  check_channels16("GlobalMaxPool", {x}, {}, 2);
}

TEST_CASE("auto_pad pads pools") {
  const Tensor x = random_tensor(DType::f64, {1, 2, 5, 5}, 1);
  const Attrs window{{"kernel_shape", Ints{2, 3}}, {"strides", Ints{1, 2}}};
  check_identical(run1("MaxPool", {x}, with_attr(window, "auto_pad", std::string("SAME_UPPER"))),
                  run1("MaxPool", {x}, with_attr(window, "pads", Ints{0, 1, 1, 1})));
  check_identical(
      run1("AveragePool", {x}, with_attr(window, "auto_pad", std::string("SAME_LOWER"))),
      run1("AveragePool", {x}, with_attr(window, "pads", Ints{1, 1, 0, 1})));
}

TEST_CASE("an empty batch pools to an empty batch") {
  const Tensor x(DType::f32, {0, 16, 4, 4});
  CHECK(run1("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}}).shape() == Shape{0, 16, 3, 3});
  CHECK(run1("GlobalAveragePool", {x}).shape() == Shape{0, 16, 1, 1});
}

TEST_CASE("pools that do not fit are refused by name and size") {
  const Tensor x(DType::f32, {1, 2, 4, 4});
  const auto message = [&](Attrs attrs) { return run_error("MaxPool", {x}, attrs).message(); };
  CHECK(
      message({{"kernel_shape", Ints{2}}}) ==
      "MaxPool: expected data of rank 3, 4 or 5 and its kernel_shape, received rank 4 and 1 sizes");
  CHECK(message({{"kernel_shape", Ints{5, 2}}}) ==
        "MaxPool: axis 0: expected a window of at most the padded size 4, it spans 5");
  CHECK(message({{"kernel_shape", Ints{0, 2}}}) ==
        "MaxPool: kernel_shape: expected sizes in [1, 1073741824], received 0");
  CHECK(message({}) == "MaxPool: attribute 'kernel_shape' (ints) is missing");
  CHECK(run_error("leat.MaxPoolGrad", {x, Tensor(DType::i32, {1, 2, 4, 4})},
                  {{"kernel_shape", Ints{1, 1}}, {"spatial", Ints{4, 4}}})
            .message() ==
        "leat.MaxPoolGrad: argmax: expected uint8 for this window, received int32");
  CHECK(run_error("leat.AveragePoolGrad", {x},
                  {{"kernel_shape", Ints{2, 2}}, {"spatial", Ints{4, 4}}})
            .message() == "leat.AveragePoolGrad: axis 0: expected dy of size 3, it is [1,2,4,4]");
}

TEST_CASE("pools split by images and channels, but not where indices are wanted") {
  const OpDef& op = *test_catalogue().find("MaxPool");
  const OperandType data{DType::f32, Shape{4, 16, 4, 4}, Layout::plain, ValueKind::tensor, true};
  OperandType indices = data;
  indices.dtype = DType::i64;
  const auto rules = op.sharding({data}, {data}, {});
  REQUIRE(rules.size() == 2);
  CHECK(rules[0] == ShardingRule{{Spread::on(0)}, {Spread::on(0)}});
  CHECK(rules[1] == ShardingRule{{Spread::on(1)}, {Spread::on(1)}});
  CHECK(op.sharding({data}, {data, indices}, {}).empty());
}

}  // namespace leat::testing
