// ONNX's ops on quantized values, of 8 and 16 bits, as casts and ops on floats and wider integers.
// A scale is one number, a vector along an axis, or has one number for each block along it.
//
// Source: ONNX's operator reference, QuantizeLinear-24, DequantizeLinear-24,
// DynamicQuantizeLinear-11, MatMulInteger-10, ConvInteger-10, QLinearMatMul-21, QLinearConv-10.
#include <algorithm>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

constexpr int64_t kFloat = 1, kUint8 = 2, kInt32 = 6, kDouble = 11;

DraftName cast(CompositeMaker& m, const DraftName& x, int64_t dtype) {
  return m.op("Cast", {x}, {{"to", Attr(dtype)}});
}

// A number, or a vector along `axis` of x, in a shape that broadcasts to x.
DraftName along(CompositeMaker& m, const DraftName& value, const DraftName& x, int64_t axis) {
  const DraftName rank = m.op("Squeeze", {m.op("Shape", {m.op("Shape", {x})}), m.ints({0})});
  const DraftName nothing = m.int_scalar(0), one = m.int_scalar(1);
  const DraftName axes = axis < 0 ? m.op("Range", {m.op("Neg", {rank}), nothing, one})
                                  : m.op("Range", {nothing, rank, one});
  const DraftName here = m.op("Equal", {axes, m.int_scalar(axis)});
  return m.op("Reshape", {value, m.op("Where", {here, m.int_scalar(-1), one})});
}

// The same with `block` > 0: a value of x's rank, each line of which is for so many of x's along
// `axis`.
DraftName spread(CompositeMaker& m, const DraftName& value, const DraftName& x, int64_t axis,
                 int64_t block) {
  if (block == 0) return along(m, value, x, axis);
  const DraftName size = m.op("Gather", {m.op("Shape", {x}), m.int_scalar(axis)});
  const DraftName lines = m.op("Range", {m.int_scalar(0), size, m.int_scalar(1)});
  return m.op("Gather", {value, m.op("Div", {lines, m.int_scalar(block)})}, {{"axis", Attr(axis)}});
}

// round(x / scale) + zero, held in the limits of the type of `zero`.
void quantize(CompositeMaker& m, const DraftName& x, const DraftName& scale,
              const DraftName& zero_along, int64_t saturate = 1) {
  m.op("leat.Quantize", {m.op("Div", {x, scale}), zero_along}, {{"saturate", Attr(saturate)}});
}

// x - zero as floats, or as integers of 32 bits; an absent zero is 0.
DraftName centered(CompositeMaker& m, const DraftName& x, int zero, int64_t axis, int64_t block = 0,
                   int64_t dtype = kFloat) {
  const CompositeMaker::Attributes to{{"to", Attr(dtype)}};
  if (!m.has(zero)) return m.op("leat.Dequantize", {x}, to);
  return m.op("leat.Dequantize", {x, spread(m, m.in(zero), x, axis, block)}, to);
}
DraftName centered_integers(CompositeMaker& m, const DraftName& x, int zero, int64_t axis) {
  const DraftName wide = cast(m, x, kInt32);
  if (!m.has(zero)) return wide;
  return m.op("Sub", {wide, cast(m, along(m, m.in(zero), x, axis), kInt32)});
}

// A scale of powers of two in 8 bits as float32; others as they are.
DraftName wide_scale(CompositeMaker& m, const DraftName& scale) {
  return m.op("leat.Widen", {scale}, {{"only_narrow", Attr(int64_t{1})}});
}

int64_t block_size(CompositeMaker& m) {
  const int64_t size = m.integer("block_size", 0);
  if (size < 0) m.fail(cat("block_size: expected 0 or more, received ", size));
  return std::max<int64_t>(0, size);
}

// The attributes of a convolution.
CompositeMaker::Attributes conv_attributes(CompositeMaker& m) {
  CompositeMaker::Attributes attrs{{"group", Attr(m.integer("group", 1))},
                                   {"auto_pad", Attr(m.text("auto_pad", "NOTSET"))}};
  for (const char* list : {"dilations", "pads", "strides", "kernel_shape"}) {
    const std::vector<int64_t> values = m.integers(list, {});
    if (!values.empty()) attrs.emplace(list, Attr(values));
  }
  return attrs;
}

// The convolution of integers, in doubles, which hold all sums of products of 8 bits.
DraftName integer_conv(CompositeMaker& m, const DraftName& x, const DraftName& w) {
  return m.op("Conv", {cast(m, x, kDouble), cast(m, w, kDouble)}, conv_attributes(m));
}

}  // namespace

void make_quantize_linear(CompositeMaker& m) {
  const int64_t block = block_size(m);
  const int64_t saturate = m.integer("saturate", 1);  // of floats of 8 bits alone
  const int64_t precision = m.integer("precision", 0);
  constexpr int64_t kPrecisions[] = {0, 1, 10, 11, 16};  // that of the scale, or a float type
  if (std::find(std::begin(kPrecisions), std::end(kPrecisions), precision) == std::end(kPrecisions))
    m.fail(cat("precision: expected 0, 1, 10, 11 or 16, received ", precision));
  const int64_t axis = m.integer("axis", 1), dtype = m.integer("output_dtype", 0);
  // The division has the type of the scale, unless `precision` names another one. x may have
  // integers.
  const DraftName step = precision == 0 ? wide_scale(m, m.in(1)) : cast(m, m.in(1), precision);
  const DraftName x = m.op("CastLike", {m.in(0), step});
  const DraftName zero =
      m.has(2) ? m.in(2)
               : cast(m, m.constant(Tensor::scalar<int32_t>(0)), dtype == 0 ? kUint8 : dtype);
  quantize(m, x, spread(m, step, x, axis, block), m.has(2) ? spread(m, zero, x, axis, block) : zero,
           saturate);
}

void make_dequantize_linear(CompositeMaker& m) {
  const int64_t block = block_size(m);
  const int64_t axis = m.integer("axis", 1), dtype = m.integer("output_dtype", 0);
  const DraftName x = m.in(0), scale = wide_scale(m, m.in(1));
  const DraftName wide = centered(m, x, 2, axis, block);
  const DraftName y = m.op("Mul", {wide, cast(m, spread(m, scale, x, axis, block), kFloat)});
  if (dtype == 0)
    m.op("CastLike", {y, scale});
  else
    cast(m, y, dtype);
}

// The scale and the zero follow from the smallest and the largest element, and 0. If all elements
// are 0 the scale is 1.
void make_dynamic_quantize_linear(CompositeMaker& m) {
  const DraftName x = m.in(0), nothing = m.scalar(0, x), most = m.scalar(255, x);
  const CompositeMaker::Attributes all{{"keepdims", Attr(int64_t{0})}};
  const DraftName high = m.op("Max", {m.op("ReduceMax", {x}, all), nothing});
  const DraftName low = m.op("Min", {m.op("ReduceMin", {x}, all), nothing});
  const DraftName scale = m.op("Where", {m.op("Equal", {high, low}), m.scalar(1, x),
                                         m.op("Div", {m.op("Sub", {high, low}), most})});
  const DraftName place = m.op("Div", {m.op("Neg", {low}), scale});
  const DraftName zero = cast(m, m.op("Round", {m.op("Clip", {place, nothing, most})}), kUint8);
  quantize(m, x, scale, zero);
  const DraftName y = m.last();
  m.set_output(0, y);
  m.set_output(1, scale);
  m.set_output(2, zero);
}

// A zero of A's rows is a vector, as one of B's columns is.
void make_mat_mul_integer(CompositeMaker& m) {
  m.op("MatMul", {centered_integers(m, m.in(0), 2, -2), centered_integers(m, m.in(1), 3, -1)});
}

void make_conv_integer(CompositeMaker& m) {
  const DraftName x = centered_integers(m, m.in(0), 2, 1), w = centered_integers(m, m.in(1), 3, 0);
  cast(m, integer_conv(m, x, w), kInt32);
}

// Inputs: a, its scale and zero, b, its scale and zero, the scale and zero of y. Those of a and y
// are numbers or vectors of their rows, those of b of its columns.
void make_q_linear_mat_mul(CompositeMaker& m) {
  const DraftName a = m.in(0), b = m.in(3);
  // Doubles hold all sums of products of 8 bits.
  const DraftName product =
      m.op("MatMul", {centered(m, a, 2, -2, 0, kDouble), centered(m, b, 5, -1, 0, kDouble)});
  const DraftName factor = m.op("Mul", {cast(m, along(m, m.in(1), a, -2), kFloat),
                                        cast(m, along(m, m.in(4), b, -1), kFloat)});
  const DraftName y = m.op("Mul", {cast(m, product, kFloat), factor});
  quantize(m, y, cast(m, along(m, m.in(6), y, -2), kFloat), along(m, m.in(7), y, -2));
}

// Inputs: x, its scale and zero, w, its scales and zeros by output, the scale and zero of y, and a
// bias in integers.
void make_q_linear_conv(CompositeMaker& m) {
  const DraftName x = centered_integers(m, m.in(0), 2, 1), w = centered_integers(m, m.in(3), 5, 0);
  DraftName sum = integer_conv(m, x, w);
  if (m.has(8)) sum = m.op("Add", {sum, m.op("CastLike", {along(m, m.in(8), sum, 1), sum})});
  const DraftName factor = m.op("Mul", {m.in(1), along(m, m.in(4), sum, 1)});
  const DraftName y = m.op("Mul", {cast(m, sum, kFloat), factor});
  quantize(m, y, m.in(6), m.in(7));
}

}  // namespace leat
