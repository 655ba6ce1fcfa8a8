// Neg, Abs, Sign, Sqrt, Exp, Log, the roundings, trigonometry, the ops on bits, and copies that
// broadcast.
#include "ops/cuda/pointwise.cuh"
#include "ops/elements/bitwise.h"
#include "ops/elements/trigonometry.h"
#include "ops/elements/unary.h"

namespace leat::cuda {
namespace {

using namespace elementwise;  // NOLINT: the functors

constexpr PointwiseEntry kTable[] = {
    {"Neg", for_signed<Unary, NegOf>},
    {"Abs", for_numbers<Unary, AbsOf>},
    {"Sign", for_numbers<Unary, SignOf>},
    {"Reciprocal", for_floats<Unary, ReciprocalOf>},
    {"Sqrt", for_floats<Unary, SqrtOf>},
    {"Exp", for_floats<Unary, ExpOf>},
    {"Log", for_floats<Unary, LogOf>},
    {"Sin", for_floats<Unary, SinOf>},
    {"Cos", for_floats<Unary, CosOf>},
    {"Erf", for_floats<Unary, ErfOf>},
    {"Floor", for_floats<Unary, FloorOf>},
    {"Ceil", for_floats<Unary, CeilOf>},
    {"Round", for_floats<Unary, RoundOf>},
    {"Tan", for_floats<Unary, TanOf>},
    {"Asin", for_floats<Unary, AsinOf>},
    {"Acos", for_floats<Unary, AcosOf>},
    {"Atan", for_floats<Unary, AtanOf>},
    {"Sinh", for_floats<Unary, SinhOf>},
    {"Cosh", for_floats<Unary, CoshOf>},
    {"Asinh", for_floats<Unary, AsinhOf>},
    {"Acosh", for_floats<Unary, AcoshOf>},
    {"Atanh", for_floats<Unary, AtanhOf>},
    {"BitwiseAnd", for_ints<Binary, BitwiseAndOf>},
    {"BitwiseOr", for_ints<Binary, BitwiseOrOf>},
    {"BitwiseXor", for_ints<Binary, BitwiseXorOf>},
    {"BitwiseNot", for_ints<Unary, BitwiseNotOf>},
    {"BitShift.LEFT", for_ints<Binary, ShiftOf<true>>},
    {"BitShift.RIGHT", for_ints<Binary, ShiftOf<false>>},
};

}  // namespace

PointwiseLaunch find_unary(std::string_view op, DType dtype) { return find_in(kTable, op, dtype); }

}  // namespace leat::cuda
