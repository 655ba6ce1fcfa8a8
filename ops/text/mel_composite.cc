// ONNX's MelWeightMatrix: the weights of frequencies in triangles along the mel scale.
//
// Source: ONNX's operator reference, MelWeightMatrix-17, and its reference implementation.
#include <numbers>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

constexpr int64_t kInt64Code = 7, kDoubleCode = 11;
constexpr double kMelsOfLog = 2595 / std::numbers::ln10;  // mel(f) = kMelsOfLog log(1 + f / 700)

DraftName real(CompositeMaker& m, double value) {
  return m.constant(Tensor::scalar<double>(value));
}

DraftName as_double(CompositeMaker& m, const DraftName& value) {
  return m.op("Cast", {value}, {{"to", Attr(kDoubleCode)}});
}

DraftName mels_of(CompositeMaker& m, const DraftName& hertz) {
  const DraftName part = m.op("Div", {as_double(m, hertz), real(m, 700)});
  return m.op("Mul", {m.op("Log", {m.op("Add", {part, real(m, 1)})}), real(m, kMelsOfLog)});
}

DraftName hertz_of(CompositeMaker& m, const DraftName& mels) {
  const DraftName power = m.op("Exp", {m.op("Div", {mels, real(m, kMelsOfLog)})});
  return m.op("Mul", {m.op("Sub", {power, real(m, 1)}), real(m, 700)});
}

DraftName numbers_below(CompositeMaker& m, const DraftName& limit) {
  return as_double(m, m.op("Range", {m.int_scalar(0), limit, m.int_scalar(1)}));
}

// a / b, where b is a whole number; a if b is 0.
DraftName quotient(CompositeMaker& m, const DraftName& a, const DraftName& b) {
  return m.op("Div", {a, m.op("Max", {b, real(m, 1)})});
}

DraftName both(CompositeMaker& m, const DraftName& a, const DraftName& b) {
  return m.op("And", {a, b});
}

}  // namespace

// Inputs: the number of triangles, the length of the Fourier transform, the sampling rate, the
// lowest and the highest frequency. Triangle i begins at frequency i of n + 2, which are evenly
// apart in mels and rounded down to those of the transform. It is 1 at the next one, and ends at
// the one behind that.
void make_mel_weight_matrix(CompositeMaker& m) {
  const DraftName count = m.op("Cast", {m.in(0)}, {{"to", Attr(kInt64Code)}}),
                  length = m.op("Cast", {m.in(1)}, {{"to", Attr(kInt64Code)}});
  const int64_t dtype = m.integer("output_datatype", 1);
  const DraftName one = m.int_scalar(1), two = m.int_scalar(2);
  const DraftName corners = m.op("Add", {count, two});
  const DraftName low = mels_of(m, m.in(3)), high = mels_of(m, m.in(4));
  const DraftName step = m.op("Div", {m.op("Sub", {high, low}), as_double(m, corners)});
  const DraftName mels = m.op("Add", {m.op("Mul", {numbers_below(m, corners), step}), low});
  const DraftName scaled =
      m.op("Mul", {hertz_of(m, mels), as_double(m, m.op("Add", {length, one}))});
  const DraftName bins = m.op("Floor", {m.op("Div", {scaled, as_double(m, m.in(2))})});
  const DraftName size = m.op("Reshape", {count, m.ints({1})});
  const auto corner = [&](int64_t i) {
    return m.op("Slice", {bins, m.ints({i}), m.op("Add", {size, m.ints({i})})});
  };
  const DraftName begin = corner(0), peak = corner(1), end = corner(2);
  const DraftName rows = m.op("Add", {m.op("Div", {length, two}), one});
  const DraftName k = m.op("Unsqueeze", {numbers_below(m, rows), m.ints({1})});

  const DraftName rising = quotient(m, m.op("Sub", {k, begin}), m.op("Sub", {peak, begin}));
  const DraftName falling = quotient(m, m.op("Sub", {end, k}), m.op("Sub", {end, peak}));
  const DraftName before = both(m, m.op("GreaterOrEqual", {k, begin}), m.op("Less", {k, peak}));
  const DraftName behind = both(m, m.op("Greater", {k, peak}), m.op("Less", {k, end}));
  const DraftName zero = real(m, 0), top = real(m, 1);
  const DraftName slopes = m.op("Where", {before, rising, m.op("Where", {behind, falling, zero})});
  m.op("Cast", {m.op("Where", {m.op("Equal", {k, peak}), top, slopes})}, {{"to", Attr(dtype)}});
}

}  // namespace leat
