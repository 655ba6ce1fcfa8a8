// Drawn calls of ops that compute each element by itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/definitions/quantize.h"
#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

// A function of one element, and of the node's attribute `attr` if it has one.
struct Unary {
  const char* op;
  DTypeSet types;
  double low, high;
  double (*f)(double x, double a);
  const char* attr = nullptr;
  double fallback = 0;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double elu(double x, double a) { return x < 0 ? a * std::expm1(x) : x; }
double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
constexpr double kSeluAlpha = 1.67326319217681884765625, kSeluGamma = 1.05070102214813232421875;

const std::vector<Unary>& unaries() {
  static const std::vector<Unary> kAll{
      {"Abs", kNumbers, -2, 2, [](double x, double) { return std::abs(x); }},
      {"Neg", kSigned, -2, 2, [](double x, double) { return -x; }},
      {"Sign", kNumbers, -2, 2, [](double x, double) { return sign(x); }},
      {"Ceil", kFloats, -2, 2, [](double x, double) { return std::ceil(x); }},
      {"Floor", kFloats, -2, 2, [](double x, double) { return std::floor(x); }},
      {"Round", kFloats, -2, 2, [](double x, double) { return std::nearbyint(x); }},
      {"Exp", kFloats, -3, 3, [](double x, double) { return std::exp(x); }},
      {"Log", kFloats, 0.3, 4, [](double x, double) { return std::log(x); }},
      {"Sqrt", kFloats, 0.3, 4, [](double x, double) { return std::sqrt(x); }},
      {"Reciprocal", kFloats, 0.4, 3, [](double x, double) { return 1 / x; }},
      {"Sin", kFloats, -4, 4, [](double x, double) { return std::sin(x); }},
      {"Cos", kFloats, -4, 4, [](double x, double) { return std::cos(x); }},
      {"Tan", kFloats, -1, 1, [](double x, double) { return std::tan(x); }},
      {"Asin", kFloats, -0.9, 0.9, [](double x, double) { return std::asin(x); }},
      {"Acos", kFloats, -0.9, 0.9, [](double x, double) { return std::acos(x); }},
      {"Atan", kFloats, -3, 3, [](double x, double) { return std::atan(x); }},
      {"Sinh", kFloats, -2, 2, [](double x, double) { return std::sinh(x); }},
      {"Cosh", kFloats, -2, 2, [](double x, double) { return std::cosh(x); }},
      {"Asinh", kFloats, -2, 2, [](double x, double) { return std::asinh(x); }},
      {"Acosh", kFloats, 1.3, 3, [](double x, double) { return std::acosh(x); }},
      {"Atanh", kFloats, -0.8, 0.8, [](double x, double) { return std::atanh(x); }},
      {"Erf", kFloats, -2, 2, [](double x, double) { return std::erf(x); }},
      {"Tanh", kFloats, -3, 3, [](double x, double) { return std::tanh(x); }},
      {"Sigmoid", kFloats, -4, 4, [](double x, double) { return sigmoid(x); }},
      {"Relu", kSigned, -2, 2, [](double x, double) { return x < 0 ? 0 : x; }},
      {"Softplus", kFloats, -4, 4, [](double x, double) { return softplus(x); }},
      {"Softsign", kFloats, -4, 4, [](double x, double) { return x / (1 + std::abs(x)); }},
      {"Elu", kFloats, -3, 3, elu, "alpha", 1},
      {"Celu", kFloats, -3, 3, [](double x, double a) { return x < 0 ? a * std::expm1(x / a) : x; },
       "alpha", 1},
      {"Selu", kFloats, -3, 3, [](double x, double) { return kSeluGamma * elu(x, kSeluAlpha); }},
      {"LeakyRelu", kFloats, -3, 3, [](double x, double a) { return x < 0 ? a * x : x; }, "alpha",
       0.01},
      {"HardSigmoid", kFloats, -4, 4,
       [](double x, double a) { return std::clamp(a * x + 0.5, 0.0, 1.0); }, "alpha", 0.2},
      {"HardSwish", kFloats, -4, 4,
       [](double x, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"Swish", kFloats, -4, 4, [](double x, double a) { return x * sigmoid(a * x); }, "alpha", 1},
      {"Mish", kFloats, -4, 4, [](double x, double) { return x * std::tanh(softplus(x)); }},
      {"ThresholdedRelu", kFloats, -2, 2, [](double x, double a) { return x > a ? x : 0.0; },
       "alpha", 1},
      {"Shrink", kFloats, -2, 2, [](double x, double a) { return std::abs(x) > a ? x : 0.0; },
       "lambd", 0.5},
      {"Gelu", kFloats, -3, 3,
       [](double x, double) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Identity", kAllTypes, -2, 2, [](double x, double) { return x; }},
      {"IsNaN", kFloats, -2, 2, [](double x, double) -> double { return std::isnan(x); }},
      {"IsInf", kFloats, -2, 2, [](double x, double) -> double { return std::isinf(x); }},
      {"Not", kBool, 0, 2, [](double x, double) -> double { return x == 0; }},
      {"BitwiseNot", kInts, -2, 2, [](double x, double) { return -x - 1; }},
  };
  return kAll;
}

void draw_unary(Drawer& draw, DrawnOp& op) {
  const auto& all = unaries();
  const auto& unary =
      *std::find_if(all.begin(), all.end(), [&](const Unary& u) { return op.op == u.op; });
  const DType dtype = draw.dtype(unary.types);
  Tensor x = draw.tensor(dtype, draw.shape(0, 5), unary.low, unary.high);
  // The neutral values of a float that need care. A product with 0 would turn an infinity into NaN.
  const bool simple = op.op != "HardSwish" && op.op != "Swish" && op.op != "Mish" &&
                      op.op != "Gelu" && op.op != "Softsign" && op.op != "Sign" &&
                      op.op != "HardSigmoid";
  if (simple && is_float(dtype) && !draw.trains() && x.elements() > 0 && draw.once_in(4)) {
    const double inf = std::numeric_limits<double>::infinity();
    x.set(draw.from(0, x.elements() - 1), draw.any_of<double>({inf, -inf, std::nan(""), -0.0}));
  }
  double a = unary.fallback;
  if (unary.attr != nullptr && draw.once_in(2)) {
    a = 0.125 * static_cast<double>(draw.from(1, 12));
    op.attrs[unary.attr] = a;
  }
  op.add(x, true);
  if (op.op == "IsNaN" || op.op == "IsInf") op.result = DType::boolean;
  if (draw.wrong(op)) {
    if (draw.once_in(2)) {
      op.attrs["no_such_attribute"] = int64_t{1};
    } else {
      op.add(x);
    }
  }
  op.slack = 16;
  op.returns([&unary, a](const std::vector<Tensor>& in) {
    const auto f = [&](const Sizes& i) { return unary.f(at(in[0], i), a); };
    const auto scale = [&](const Sizes& i) {
      const double x = std::abs(at(in[0], i));
      return std::isfinite(x) ? std::min(x, 1.0) : 0.0;
    };
    return PlainOutput{elements(in[0].shape(), f), elements(in[0].shape(), scale)};
  });
}

// --- two and more operands -----------------------------------------------------------------------

struct Binary {
  const char* op;
  DTypeSet types;
  double (*f)(double a, double b);
  bool predicate = false;
};

double remainder(double a, double b) { return a - b * std::floor(a / b); }

int64_t whole(double x) { return static_cast<int64_t>(x); }

const std::vector<Binary>& binaries() {
  static const std::vector<Binary> kAll{
      {"Add", kNumbers, [](double a, double b) { return a + b; }},
      {"Sub", kNumbers, [](double a, double b) { return a - b; }},
      {"Mul", kNumbers, [](double a, double b) { return a * b; }},
      {"Div", kNumbers, [](double a, double b) { return a / b; }},
      {"Max", kNumbers, [](double a, double b) { return std::max(a, b); }},
      {"Min", kNumbers, [](double a, double b) { return std::min(a, b); }},
      {"Pow", kFloats | DTypeSet::of(DType::i32, DType::i64),
       [](double a, double b) { return std::pow(a, b); }},
      {"Mod", kNumbers, [](double a, double b) { return std::fmod(a, b); }},
      {"Equal", kAllTypes, [](double a, double b) -> double { return a == b; }, true},
      {"Greater", kNumbers, [](double a, double b) -> double { return a > b; }, true},
      {"GreaterOrEqual", kNumbers, [](double a, double b) -> double { return a >= b; }, true},
      {"Less", kNumbers, [](double a, double b) -> double { return a < b; }, true},
      {"LessOrEqual", kNumbers, [](double a, double b) -> double { return a <= b; }, true},
      {"And", kBool, [](double a, double b) -> double { return a != 0 && b != 0; }, true},
      {"Or", kBool, [](double a, double b) -> double { return a != 0 || b != 0; }, true},
      {"Xor", kBool, [](double a, double b) -> double { return a != b; }, true},
      {"BitwiseAnd", kInts,
       [](double a, double b) { return static_cast<double>(whole(a) & whole(b)); }},
      {"BitwiseOr", kInts,
       [](double a, double b) { return static_cast<double>(whole(a) | whole(b)); }},
      {"BitwiseXor", kInts,
       [](double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); }},
      {"PRelu", kFloats, [](double a, double b) { return a < 0 ? a * b : a; }},
  };
  return kAll;
}

// Makes a shape that does not broadcast with `shape`. REQUIRES: a last axis of at least 2.
Shape unequal(Shape shape) {
  shape.set(shape.rank() - 1, shape[shape.rank() - 1] + 1);
  return shape;
}
bool has_long_axis(const Shape& shape) { return shape.rank() > 0 && shape[shape.rank() - 1] > 1; }

Tensor nonzero(Tensor x) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (std::abs(x.at(i)) < 0.4) x.set(i, 1.5 - (is_float(x.dtype()) ? 0.0 : 0.5));
  }
  return x;
}

void draw_binary(Drawer& draw, DrawnOp& op) {
  const auto& all = binaries();
  const auto& binary =
      *std::find_if(all.begin(), all.end(), [&](const Binary& b) { return op.op == b.op; });
  const DType dtype = draw.dtype(binary.types);
  const Shape whole_shape = draw.shape(0, 4);
  const bool to_first = op.op == "PRelu", power = op.op == "Pow", whole_numbers = !is_float(dtype);
  Shape a = to_first || draw.once_in(2) ? whole_shape : draw.broadcast(whole_shape);
  Shape b = draw.broadcast(whole_shape);
  if (has_long_axis(a) && draw.wrong(op)) b = unequal(a);
  const double low = power ? 0.5 : -2;
  op.add(draw.tensor(dtype, a, low, 2), true);
  Tensor second = draw.tensor(dtype, b, power && whole_numbers ? 0 : -2, 2);
  const bool divides = op.op == "Div" || op.op == "Mod";
  op.add(divides ? nonzero(std::move(second)) : std::move(second), true);
  if (op.op == "Mod" && !whole_numbers) op.attrs["fmod"] = int64_t{1};
  if (binary.predicate) op.result = DType::boolean;
  op.returns([&binary, divides, whole_numbers](const std::vector<Tensor>& in) {
    Shape out;
    const int ra = in[0].shape().rank(), rb = in[1].shape().rank(), rank = std::max(ra, rb);
    for (int i = 0; i < rank; ++i) {
      const int64_t of_a = i < rank - ra ? 1 : in[0].shape()[i - rank + ra],
                    of_b = i < rank - rb ? 1 : in[1].shape()[i - rank + rb];
      out.push_back(of_a == 1 ? of_b : of_a);
    }
    return PlainOutput{elements(out,
                                [&](const Sizes& i) {
                                  const double a = at(in[0], i), b = at(in[1], i);
                                  if (!divides || !whole_numbers) return binary.f(a, b);
                                  return binary.op[0] == 'M' ? remainder(a, b) : std::trunc(a / b);
                                }),
                       {}};
  });
}

void draw_variadic(Drawer& draw, DrawnOp& op) {
  const bool largest = op.op == "Max", smallest = op.op == "Min", mean = op.op == "Mean";
  const DType dtype = draw.dtype(largest || smallest ? kNumbers : kFloats);
  const Shape shape = draw.shape(0, 4);
  const int64_t count = draw.from(1, 4);
  op.add(draw.tensor(dtype, shape), true);
  for (int64_t i = 1; i < count; ++i) op.add(draw.tensor(dtype, draw.broadcast(shape)), true);
  if (count > 1 && draw.wrong(op)) {
    op.inputs[1].value = draw.tensor(dtype == DType::f32 ? DType::f64 : DType::f32, shape);
  }
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput out{Tensor(DType::f64, in[0].shape()), Tensor(DType::f64, in[0].shape())};
    int64_t to = 0;
    for_each_index(in[0].shape(), [&](const Sizes& i) {
      double value = at(in[0], i), scale = std::abs(value);
      for (size_t k = 1; k < in.size(); ++k) {
        const double next = at(in[k], i);
        scale += std::abs(next);
        value = largest ? std::max(value, next) : smallest ? std::min(value, next) : value + next;
      }
      out.value.set(to, mean ? value / static_cast<double>(in.size()) : value);
      out.scale.set(to++, largest || smallest ? 0 : scale);
    });
    return out;
  });
}

void draw_where(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kAllTypes);
  const Shape shape = draw.shape(0, 4);
  const bool wrong = has_long_axis(shape) && draw.wrong(op);
  op.add(draw.tensor(DType::boolean, draw.broadcast(shape)));
  op.add(draw.tensor(dtype, shape), true);
  op.add(draw.tensor(dtype, wrong ? unequal(shape) : draw.broadcast(shape)), true);
  op.result = dtype;
  op.returns([shape](const std::vector<Tensor>& in) {
    return PlainOutput{
        elements(shape, [&](const Sizes& i) { return at(at(in[0], i) != 0 ? in[1] : in[2], i); }),
        {}};
  });
}

void draw_clip(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kNumbers);
  const bool has_low = draw.once_in(2), has_high = draw.once_in(2);
  op.add(draw.tensor(dtype, draw.shape(0, 4)), true);
  if (has_low || has_high) {
    has_low ? op.add(draw.tensor(dtype, Shape(), -1, 0)) : op.add_absent();
  }
  if (has_high) op.add(draw.tensor(dtype, Shape(), 0.5, 1.5));
  if (has_high && draw.wrong(op)) op.inputs[2].value = draw.tensor(dtype, Shape{3});
  op.returns([](const std::vector<Tensor>& in) {
    return PlainOutput{elements(in[0].shape(),
                                [&](const Sizes& i) {
                                  double x = at(in[0], i);
                                  if (in.size() > 1 && in[1].valid()) x = std::max(x, in[1].at(0));
                                  if (in.size() > 2 && in[2].valid()) x = std::min(x, in[2].at(0));
                                  return x;
                                }),
                       {}};
  });
}

void draw_cast(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kAllTypes), to = draw.dtype(kAllTypes);
  // No float is below 0: its value as an unsigned integer is not defined.
  op.add(draw.tensor(dtype, draw.shape(0, 4), 0, 4), true);
  if (op.op == "CastLike") {
    op.add(draw.tensor(to, Shape{1}));
  } else {
    op.attrs["to"] = draw.wrong(op) ? int64_t{99} : int64_t{dtype_onnx_code(to)};
  }
  op.result = to;
  op.returns([to](const std::vector<Tensor>& in) {
    return PlainOutput{elements(in[0].shape(),
                                [&](const Sizes& i) {
                                  const double x = at(in[0], i);
                                  if (to == DType::boolean) return x != 0 ? 1.0 : 0.0;
                                  return is_float(to) ? x : std::trunc(x);
                                }),
                       {}};
  });
}

// Scales are powers of two, so that no quotient is rounded.
void draw_quantized(Drawer& draw, DrawnOp& op) {
  const bool back = op.op == "DequantizeLinear";
  constexpr DType kTypes[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::i4, DType::u4};
  const DType narrow = kTypes[draw.from(0, 5)];
  Shape shape = draw.shape(1, 4);
  const bool by_axis = draw.once_in(2);
  const int64_t axis = draw.axis(shape.rank());
  const Shape of{shape[static_cast<int>(positive(axis, shape.rank()))]};
  Tensor scale(DType::f32, by_axis ? of : Shape());
  for (int64_t i = 0; i < scale.elements(); ++i)
    scale.set(i, std::ldexp(1.0, static_cast<int>(draw.from(-4, 1))));
  const QuantizedRange range = quantized_range(narrow);
  const double least = std::max(range.least, -4.0);
  op.add(draw.tensor(back ? narrow : DType::f32, shape, back ? least : -4, 4));
  op.add(scale);
  op.add(draw.tensor(narrow, scale.shape(), std::max(least, -3.0), 3));
  if (by_axis) op.attrs["axis"] = axis;
  op.result = back ? DType::f32 : narrow;
  Shape spread;  // of the scale, for all axes
  for (int i = 0; i < shape.rank(); ++i)
    spread.push_back(by_axis && i == positive(axis, shape.rank()) ? shape[i] : 1);
  op.returns([=](const std::vector<Tensor>& in) {
    const Tensor scales = in[1].reshaped(spread), zeros = in[2].reshaped(spread);
    return PlainOutput{
        elements(shape,
                 [&](const Sizes& i) {
                   const double x = at(in[0], i), s = at(scales, i), z = at(zeros, i);
                   return back ? (x - z) * s
                               : std::clamp(std::nearbyint(x / s) + z, range.least, range.most);
                 }),
        {}};
  });
}

}  // namespace

std::vector<DrawnFamily> elementwise_families() {
  std::vector<DrawnFamily> all;
  for (const Unary& unary : unaries()) {
    const bool predicate = unary.f(0.5, 0) == 0 && std::string_view(unary.op).starts_with("Is");
    all.push_back({unary.op, draw_unary, unary.types.has(DType::f64) && !predicate});
  }
  for (const Binary& binary : binaries()) {
    const bool trains = binary.types.has(DType::f64) && !binary.predicate;
    all.push_back({binary.op, draw_binary, trains});
  }
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) all.push_back({op, draw_variadic, true});
  all.push_back({"Where", draw_where, true});
  all.push_back({"Clip", draw_clip, true});
  all.push_back({"Cast", draw_cast, true});
  all.push_back({"CastLike", draw_cast, true});
  all.push_back({"QuantizeLinear", draw_quantized});
  all.push_back({"DequantizeLinear", draw_quantized});
  return all;
}

}  // namespace leat
