// The cases of the conformance suite, at least one for each op. They are small, so that every
// condition can be tried. If the tile or the algorithm depends on the size, there is a larger case,
// too.
#include "tests/ops/conformance.h"
#include "tests/ops/conformance_more_cases.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Cases = std::vector<ConformanceCase>;

uint64_t next_seed = 0;  // from 1 in each table

// Returns values in [low, high) that no other tensor of the table has.
Tensor f(const Shape& shape, double low = -2, double high = 2) {
  return random_tensor(DType::f32, shape, ++next_seed, low, high);
}
Tensor bools(const Shape& shape) { return random_tensor(DType::boolean, shape, 41); }
Tensor flag(bool value) { return Tensor::scalar<bool>(value); }
Tensor indices(const Shape& shape, int64_t below) {
  return random_tensor(DType::i64, shape, 43, 0, static_cast<double>(below));
}
Attr list(std::vector<int64_t> values) { return Attr(std::move(values)); }
Attr number(int64_t value) { return Attr(value); }

void add_elementwise(Cases& cases) {
  for (const char* op : {"Ceil", "Floor", "Round", "Sign"}) {
    cases.push_back({op, {f({kBatch, 16, 3, 2})}});
  }
  for (const char* op : {"Abs", "Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "LeakyRelu",
                         "Neg", "Relu", "Sigmoid", "Sin", "Softplus", "Tanh"}) {
    cases.push_back(ConformanceCase{op, {f({kBatch, 3, 2})}}.grad({0}));
    cases.push_back({op, {f({kBatch, 32, 15, 15})}});
  }
  for (const char* op : {"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh"})
    cases.push_back(ConformanceCase{op, {f({kBatch, 16, 3, 2}, -0.8, 0.8)}}.grad({0}));
  cases.push_back(ConformanceCase{"Acosh", {f({kBatch, 16, 3, 2}, 1.5, 3)}}.grad({0}));
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    cases.push_back({op, {indices({kBatch, 3, 2}, 1000), indices({3, 1}, 1000)}});
  cases.push_back({"BitwiseNot", {indices({kBatch, 3, 2}, 1000)}});
  for (const char* direction : {"LEFT", "RIGHT"}) {
    cases.push_back({"BitShift",
                     {indices({kBatch, 3}, 200).cast(DType::u8), indices({3}, 9).cast(DType::u8)},
                     {{"direction", std::string(direction)}}});
  }
  for (const char* op : {"Log", "Reciprocal", "Sqrt"}) {
    cases.push_back(ConformanceCase{op, {f({kBatch, 3, 2}, 0.5, 3)}}.grad({0}));
    cases.push_back({op, {f({kBatch, 32, 15, 15}, 0.5, 3)}});
  }
  for (const char* op : {"IsInf", "IsNaN"}) cases.push_back({op, {f({kBatch, 16, 3, 2})}});
  cases.push_back({"Not", {bools({kBatch, 16, 3, 2})}});
  for (const char* op : {"EluGrad", "GeluGrad", "HardSigmoidGrad", "LeakyReluGrad", "ReluGrad",
                         "SigmoidGrad", "TanhGrad"}) {
    cases.push_back(
        {"leat." + std::string(op), {f({kBatch, 16, 3, 2}), f({kBatch, 16, 3, 2}, -1, 1)}});
    cases.push_back(
        {"leat." + std::string(op), {f({kBatch, 32, 15, 15}), f({kBatch, 32, 15, 15}, -1, 1)}});
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    cases.push_back(
        ConformanceCase{op, {f({kBatch, 3, 2}), f({kBatch, 3, 2}, 0.5, 2)}}.grad({0, 1}));
    cases.push_back(ConformanceCase{op, {f({kBatch, 3, 2}), f({3, 1}, 0.5, 2)}}.grad({0, 1}));
    cases.push_back({op, {f({kBatch, 1, 3}), f({5, 1}, 0.5, 2)}});
    cases.push_back({op, {f({kBatch, 32, 15, 15}), f({1}, 0.5, 2)}});
    cases.push_back({op, {f({kBatch, 32, 15, 15}), f({kBatch, 32, 15, 15}, 0.5, 2)}});
  }
  for (const char* op : {"Max", "Min", "Sum"}) {
    cases.push_back(ConformanceCase{op, {f({kBatch, 3}), f({kBatch, 3}), f({3})}}.grad({0, 1, 2}));
    cases.push_back(ConformanceCase{op, {f({kBatch, 3})}}.grad({0}));
  }
  cases.push_back(ConformanceCase{"Sum", {f({kBatch, 3}), f({kBatch, 3})}}.grad({0, 1}));
  cases.push_back(ConformanceCase{"Pow", {f({kBatch, 3}, 0.5, 2), f({3}, 1, 3)}}.grad({0, 1}));
  cases.push_back({"Pow", {f({kBatch, 16, 3, 2}), Tensor::scalar<float>(2)}});
  const auto image = [] { return f({kBatch, 16, 3, 2}, 0.5, 2); };
  cases.push_back({"Sum", {image(), image(), image()}});
  cases.push_back({"Mod", {image(), image()}, {{"fmod", number(1)}}});
  cases.push_back({"Where", {flag(true), image(), image()}});
  cases.push_back({"CastLike", {image(), Tensor::scalar<float>(0)}});
  for (const bool taken : {false, true}) {
    cases.push_back(
        ConformanceCase{"leat.Merge", {flag(taken), f({kBatch, 3}), f({kBatch, 3})}}.grad({1, 2}));
    for (const int64_t branch : {0, 1}) {
      cases.push_back(
          ConformanceCase{"leat.Mask", {f({kBatch, 3}), flag(taken)}, {{"branch", number(branch)}}}
              .grad({0}));
    }
  }
  cases.push_back(
      ConformanceCase{"leat.LoopEnd", {f({kBatch, 3}), flag(false)}, {{"bound", number(4)}}}.grad(
          {0}));
  // The gradient of an Enter assumes that no node reads it where its branch is not taken.
  cases.push_back(ConformanceCase{"leat.Enter", {f({kBatch, 3}), flag(true)}}.grad({0}));
  cases.push_back({"leat.PowGrad", {image(), image(), image()}});
  cases.push_back({"leat.PowGrad", {f({kBatch, 3}), f({kBatch, 3}, 0.5, 2), f({kBatch, 3}, 1, 3)}});
  cases.push_back({"Mod", {f({kBatch, 3}), f({3}, 0.5, 2)}, {{"fmod", number(1)}}});
  // No quotient is near a whole number, where the remainder jumps.
  cases.push_back(
      ConformanceCase{"Mod", {f({kBatch, 3}, 2.3, 2.6), f({3}, 1.4, 1.9)}, {{"fmod", number(1)}}}
          .grad({0, 1}));
  const Tensor low = Tensor::scalar<float>(-1), high = Tensor::scalar<float>(1);
  cases.push_back(ConformanceCase{"Clip", {f({kBatch, 3}), low, high}}.grad({0}));
  cases.push_back({"Clip", {f({kBatch, 16, 3, 2}), Tensor(), high}});
  cases.push_back({"leat.ClipGrad", {f({kBatch, 16, 3, 2}), f({kBatch, 16, 3, 2}), low, high}});
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    cases.push_back({op, {f({kBatch, 3, 2}), f({kBatch, 3, 2})}});
    cases.push_back({op, {f({kBatch, 16, 3, 2}), f({1})}});
  }
  for (const char* op : {"And", "Or", "Xor"}) {
    cases.push_back({op, {bools({kBatch, 3, 2}), bools({kBatch, 3, 2})}});
    cases.push_back({op, {bools({kBatch, 3, 2}), bools({2})}});
  }
  cases.push_back(
      ConformanceCase{"Where", {bools({kBatch, 3}), f({kBatch, 3}), f({3})}}.grad({1, 2}));
  cases.push_back({"Where", {bools({kBatch, 1, 2}), f({kBatch, 3, 2}), f({kBatch, 3, 2})}});
  cases.push_back(ConformanceCase{"Cast", {f({kBatch, 3, 2})}, {{"to", number(11)}}}.grad({0}));
  for (const int64_t to : {1, 6, 7, 9, 10, 16}) {
    cases.push_back({"Cast", {f({kBatch, 16, 3, 2})}, {{"to", number(to)}}});
  }
  cases.push_back(ConformanceCase{"CastLike", {f({kBatch, 3}), f({3})}}.grad({0}));
  for (const int64_t narrow : {17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}) {
    const DType dtype = dtype_from_onnx_code(narrow);
    const Tensor x = f({kBatch, 16, 3, 2});
    cases.push_back({"Cast", {x}, {{"to", number(narrow)}}});
    cases.push_back({"Cast", {x.cast(dtype)}, {{"to", number(1)}}});
    cases.push_back({"Cast", {x.cast(dtype)}, {{"to", number(narrow == 28 ? 17 : 28)}}});
    if (dtype == DType::f8e8m0) continue;
    const Tensor zero = f({3, 1}).cast(dtype);
    cases.push_back({"leat.Quantize", {x, zero}});
    cases.push_back({"leat.Dequantize", {x.cast(dtype), zero}, {{"to", number(1)}}});
    cases.push_back({"leat.Dequantize", {x.cast(dtype)}, {{"to", number(16)}}});
  }
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u16}) {
    const Tensor x = f({kBatch, 5}), zero = f({5}).cast(DType::i32).cast(dtype);
    cases.push_back(ConformanceCase{"leat.Quantize", {x, zero}});
    cases.push_back(
        {"leat.Dequantize", {x.cast(DType::i32).cast(dtype), zero}, {{"to", number(11)}}});
  }
}

void add_scatters(Cases& cases) {
  const Attrs axis = {{"axis", number(1)}};
  for (const char* reduction : {"none", "add"}) {
    const Attrs attrs = {{"axis", number(1)}, {"reduction", std::string(reduction)}};
    // Each element is named once: which of several updates counts is open.
    const Tensor each = Tensor::of<int64_t>({2, 3}, {0, 1, 2, 2, 0, 1});
    cases.push_back(ConformanceCase{"ScatterElements", {f({2, 4}), each, f({2, 3})}, attrs}
                        .known_batch()
                        .whole()
                        .grad({0, 2}));
    const Tensor tuples = Tensor::of<int64_t>({3, 1}, {4, 0, -2});
    cases.push_back(ConformanceCase{
        "ScatterND", {f({5, 3}), tuples, f({3, 3})}, {{"reduction", std::string(reduction)}}}
                        .known_batch()
                        .whole()
                        .grad({0, 2}));
  }
  const Tensor pairs = Tensor::of<int64_t>({3, 2}, {0, 1, 4, 2, 0, 1});
  cases.push_back(
      ConformanceCase{"GatherND", {f({5, 3, 2}), pairs}}.known_batch().whole().grad({0}));
  cases.push_back(ConformanceCase{"leat.GatherNDGrad", {f({3, 2}), pairs, ints({5, 3, 2})}}
                      .known_batch()
                      .whole());
  const Tensor start = Tensor::scalar<float>(1), limit = Tensor::scalar<float>(8);
  cases.push_back({"Range", {start, limit, Tensor::scalar<float>(2)}});
  cases.push_back(
      ConformanceCase{"Trilu", {f({kBatch, 3, 4}), Tensor::scalar<int64_t>(1)}}.grad({0}));
  for (const int64_t upper : {0, 1})
    cases.push_back(ConformanceCase{"Trilu", {f({kBatch, 3, 4})}, {{"upper", upper}}}.grad({0}));
  for (const int64_t reverse : {0, 1}) {
    const Attrs attrs = {{"exclusive", number(1 - reverse)}, {"reverse", number(reverse)}};
    for (const char* op : {"CumSum", "CumProd"}) {
      cases.push_back(
          ConformanceCase{op, {f({kBatch, 4}), Tensor::scalar<int64_t>(1)}, attrs}.grad({0}));
    }
    cases.push_back(
        {"leat.CumProdGrad", {f({kBatch, 4}), Tensor::scalar<int64_t>(1), f({kBatch, 4})}, attrs});
  }
  cases.push_back(ConformanceCase{"TopK", {f({kBatch, 6}), ints({2})}, axis, 2}.grad({0}));
}

void add_indexing(Cases& cases) {
  const Tensor rows = indices({5, 2}, 7), elements = indices({kBatch, 2}, 3);
  const Attrs axis = {{"axis", number(1)}};
  cases.push_back(ConformanceCase{"Gather", {f({7, 3}), rows}}.grad({0}));
  cases.push_back(ConformanceCase{"Gather", {f({kBatch, 3}), indices({4}, 3)}, axis}.grad({0}));
  cases.push_back({"Gather", {f({50, 64}), indices({240, 5}, 50)}});
  cases.push_back({"leat.GatherGrad", {f({5, 2, 3}), rows, ints({7, 3})}});
  cases.push_back({"leat.GatherGrad", {f({240, 5, 64}), indices({240, 5}, 50), ints({50, 64})}});
  const Attrs parts = {{"rows", number(7)}, {"shards", number(5)}, {"parts", list({2, 1})}};
  cases.push_back({"leat.SumRows", {f({15, 3}), indices({15}, 7)}, parts});
  cases.push_back({"leat.SumRows", {f({300, 200}), indices({300}, 400)}, {{"rows", number(900)}}});
  cases.push_back(ConformanceCase{"GatherElements", {f({kBatch, 3}), elements}, axis}.grad({0}));
  cases.push_back(ConformanceCase{
      "leat.GatherElementsGrad", {f({kBatch, 2}), elements, ints({kBatch, 3})}, axis}
                      .known_batch()
                      .whole());
  cases.push_back({"OneHot", {f({kBatch}, 0, 3), Tensor::scalar<float>(3), f({2})}});
  cases.push_back(
      ConformanceCase{"OneHot", {indices({kBatch}, 3), Tensor::scalar<int64_t>(3), f({2})}, axis}
          .grad({2}));
  add_scatters(cases);
  const std::vector<Tensor> slice = {f({kBatch, 5, 3}), ints({1, 2}), ints({4, -9}), ints({1, 2}),
                                     ints({2, -1})};
  cases.push_back(ConformanceCase{"Slice", slice}.grad({0}));
  cases.push_back(ConformanceCase{"Slice", {f({kBatch, 3}), ints({2}), ints({9})}}
                      .grad({0})
                      .known_batch()
                      .whole());
  std::vector<Tensor> back = slice;
  back[0] = f({kBatch, 2, 3});
  back.insert(back.begin() + 1, f({kBatch, 5, 3}));  // its shape is taken
  cases.push_back({"leat.SliceGrad", back});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    const Attrs attrs = {{"mode", std::string(mode)}};
    const Tensor pads = ints({0, 1, 2, 0, 2, -1});
    cases.push_back(ConformanceCase{"Pad", {f({kBatch, 4, 3}), pads}, attrs}.grad({0}));
    cases.push_back(
        ConformanceCase{"leat.PadGrad", {f({kBatch, 7, 4}), ints({kBatch, 4, 3}), pads}, attrs}
            .known_batch()
            .whole());
  }
}

void add_shapes(Cases& cases) {
  cases.push_back({"Shape", {f({kBatch, 3, 2})}});
  cases.push_back({"Size", {f({kBatch, 3, 2})}});
  cases.push_back(ConformanceCase{"Reshape", {f({kBatch, 3, 2}), ints({0, -1})}}.grad({0}));
  cases.push_back({"Reshape", {f({kBatch, 4, 6}), ints({-1, 6, 2})}});
  cases.push_back(ConformanceCase{"Flatten", {f({kBatch, 3, 2})}, {{"axis", number(2)}}}.grad({0}));
  cases.push_back(ConformanceCase{"Squeeze", {f({kBatch, 1, 3, 1}), ints({1, 3})}}.grad({0}));
  cases.push_back(ConformanceCase{"Unsqueeze", {f({kBatch, 3}), ints({0, -1})}}.grad({0}));
  cases.push_back(ConformanceCase{"Identity", {f({kBatch, 3})}}.grad({0}));
  cases.push_back(
      ConformanceCase{"Transpose", {f({kBatch, 3, 4})}, {{"perm", list({0, 2, 1})}}}.grad({0}));
  cases.push_back({"Transpose", {f({kBatch, 3, 4})}, {{"perm", list({2, 0, 1})}}});
  cases.push_back({"Transpose", {f({kBatch, 33, 70})}, {{"perm", list({0, 2, 1})}}});
  cases.push_back(
      ConformanceCase{"Concat", {f({kBatch, 3}), f({kBatch, 2})}, {{"axis", number(1)}}}.grad(
          {0, 1}));
  cases.push_back({"Concat", {f({kBatch, 3}), f({5, 3}), f({1, 3})}, {{"axis", number(0)}}});
  const Attrs halves = {{"axis", number(1)}, {"num_outputs", number(2)}};
  cases.push_back(ConformanceCase{"Split", {f({kBatch, 4})}, halves, 2}.grad({0}));
  cases.push_back({"Split", {f({kBatch, 6}), ints({1, 2, 3})}, {{"axis", number(-1)}}, 3});
  cases.push_back(ConformanceCase{"Split", {f({kBatch, 3}), ints({5, 7})}, {{"axis", number(0)}}, 2}
                      .known_batch());
  cases.push_back(ConformanceCase{"Expand", {f({kBatch, 1, 2}), ints({1, 3, 1})}}.grad({0}));
  cases.push_back(ConformanceCase{"Expand", {f({3}), ints({kBatch, 3})}}.grad({0}).whole());
  cases.push_back(ConformanceCase{"Tile", {f({kBatch, 2}), ints({2, 3})}}.grad({0}));
  add_indexing(cases);
  cases.push_back({"Constant", {}, {{"value", f({3, 2})}}});
  cases.push_back({"ConstantOfShape", {ints({3, 2})}, {{"value", Tensor::of<float>({1}, {1.5f})}}});
  cases.push_back(ConformanceCase{"leat.Reorder", {f({kBatch, 16, 1, 1})}}.grad({0}));
}

void add_products(Cases& cases) {
  cases.push_back(ConformanceCase{"MatMul", {f({kBatch, 4}), f({4, 6})}}.grad({0, 1}));
  cases.push_back(ConformanceCase{"MatMul", {f({2, 3, 4}), f({2, 4, 6})}}.grad({0, 1}));
  cases.push_back(ConformanceCase{"MatMul", {f({kBatch, 4}), f({4})}}.grad({0, 1}));
  cases.push_back({"MatMul", {f({kBatch, 6, 4}), f({4, 6})}});
  cases.push_back({"MatMul", {f({kBatch, 300}), f({300, 90})}});
  cases.push_back({"MatMul", {f({120, 784}), f({784, 512})}});
  for (const int64_t a : {0, 1}) {
    for (const int64_t b : {0, 1}) {
      const Attrs attrs = {{"transA", number(a)}, {"transB", number(b)}, {"alpha", 0.5}};
      const Tensor left = a ? f({4, kBatch}) : f({kBatch, 4}), right = b ? f({6, 4}) : f({4, 6});
      cases.push_back(ConformanceCase{"Gemm", {left, right, f({6})}, attrs}.grad({0, 1, 2}));
      cases.push_back(ConformanceCase{"leat.MatMul", {left, right}, attrs}.grad({0, 1}));
      cases.push_back(ConformanceCase{"leat.MatMul", {left, right, f({6})}, attrs}.grad({0, 1, 2}));
    }
  }
  const Attrs relu = {{"leat_activation", std::string("relu")}};
  cases.push_back({"Gemm", {f({60, 200}), f({200, 100}), f({100})}, relu});
  cases.push_back({"Gemm", {f({120, 784}), f({512, 784}), f({512})}, {{"transB", number(1)}}});
  cases.push_back({"Gemm", {f({784, 120}), f({784, 64})}, {{"transA", number(1)}}});
  cases.push_back({"leat.MatMul", {f({120, 256}), f({60, 256}), f({60})}, {{"transB", number(1)}}});
}

void add_windows(Cases& cases) {
  const Attrs same = {{"pads", list({1, 1, 1, 1})}};
  const Attrs group = {
      {"group", number(2)}, {"strides", list({2, 1})}, {"dilations", list({1, 2})}};
  cases.push_back(
      ConformanceCase{"Conv", {f({2, 2, 4, 3}), f({3, 2, 3, 3}), f({3})}, same}.grad({0, 1, 2}));
  cases.push_back({"Conv", {f({kBatch, 4, 7, 8}), f({6, 2, 3, 3}), f({6})}, group});
  cases.push_back({"Conv", {f({kBatch, 1, 28, 28}), f({32, 1, 3, 3}), f({32})}, same});
  cases.push_back({"Conv", {f({kBatch, 32, 14, 14}), f({64, 32, 3, 3}), f({64})}, same});
  cases.push_back({"Conv", {f({48, 32, 14, 14}), f({64, 32, 3, 3}), f({64})}, same});
  cases.push_back({"Conv", {f({48, 1, 28, 28}), f({32, 1, 3, 3}), f({32})}, same});
  cases.push_back({"Conv", {f({kBatch, 3, 9}), f({4, 3, 3})}});
  cases.push_back({"Conv", {f({kBatch, 2, 4, 5, 6}), f({3, 2, 2, 2, 2})}});
  const Attrs stride = {{"strides", list({2, 2})}};
  cases.push_back(
      ConformanceCase{"ConvTranspose", {f({2, 2, 3, 3}), f({2, 3, 2, 2}), f({3})}, stride}.grad(
          {0, 1, 2}));
  cases.push_back({"ConvTranspose", {f({kBatch, 32, 7, 7}), f({32, 16, 3, 3})}, stride});
  const auto with = [](Attrs attrs, const char* name, std::vector<int64_t> sizes) {
    attrs[name] = list(std::move(sizes));
    return attrs;
  };
  cases.push_back(ConformanceCase{
      "leat.ConvGradInput", {f({2, 3, 4, 3}), f({3, 2, 3, 3})}, with(same, "spatial", {4, 3})}
                      .grad({0, 1}));
  cases.push_back({"leat.ConvGradInput",
                   {f({kBatch, 64, 14, 14}), f({64, 32, 3, 3})},
                   with(same, "spatial", {14, 14})});
  cases.push_back(ConformanceCase{"leat.ConvGradWeights",
                                  {f({2, 2, 4, 3}), f({2, 3, 4, 3})},
                                  with(same, "kernel_shape", {3, 3})}
                      .grad({0, 1}));
  cases.push_back({"leat.ConvGradWeights",
                   {f({kBatch, 32, 14, 14}), f({kBatch, 64, 14, 14})},
                   with(same, "kernel_shape", {3, 3}),
                   2});
  cases.push_back({"leat.ConvGradWeights",
                   {f({kBatch, 1, 28, 28}), f({kBatch, 32, 28, 28})},
                   with(same, "kernel_shape", {3, 3}),
                   2});
  const Attrs pool = {{"kernel_shape", list({2, 2})}, {"strides", list({2, 2})}};
  cases.push_back(ConformanceCase{"MaxPool", {f({2, 2, 4, 5})}, pool}.grad({0}));
  cases.push_back({"MaxPool", {f({kBatch, 32, 14, 14})}, pool});
  cases.push_back(ConformanceCase{"MaxPool", {f({kBatch, 3, 6, 7})}, pool, 3}.whole());
  cases.push_back(ConformanceCase{"AveragePool", {f({2, 2, 4, 5})}, pool}.grad({0}));
  cases.push_back({"AveragePool", {f({kBatch, 32, 14, 14})}, pool});
  cases.push_back(ConformanceCase{"GlobalAveragePool", {f({2, 3, 4, 5})}}.grad({0}));
  cases.push_back({"GlobalAveragePool", {f({kBatch, 32, 7, 7})}});
  cases.push_back(ConformanceCase{"GlobalMaxPool", {f({2, 3, 4, 5})}}.grad({0}));
  cases.push_back({"GlobalMaxPool", {f({kBatch, 32, 7, 7})}});
  const Attrs back = with(pool, "spatial", {14, 14});
  cases.push_back(
      ConformanceCase{"leat.AveragePoolGrad", {f({2, 2, 2, 2})}, with(pool, "spatial", {4, 5})}
          .grad({0}));
  cases.push_back({"leat.AveragePoolGrad", {f({kBatch, 32, 7, 7})}, back});
  const Tensor argmax = random_tensor(DType::u8, {kBatch, 32, 7, 7}, 5, 0, 4);
  cases.push_back({"leat.MaxPoolGrad", {f({kBatch, 32, 7, 7}), argmax}, back});
}

void add_normalizations(Cases& cases) {
  const Attrs train = {{"training_mode", number(1)}};
  const auto of_channels = [](int64_t c) {
    return std::vector<Tensor>{f({c}, 0.5, 2), f({c}), f({c}), f({c}, 0.5, 2)};
  };
  const auto batch_norm = [&](const Shape& shape, const Attrs& attrs, int outputs) {
    std::vector<Tensor> inputs = of_channels(shape[1]);
    inputs.insert(inputs.begin(), f(shape));
    return ConformanceCase{"BatchNormalization", inputs, attrs, outputs};
  };
  cases.push_back(batch_norm({kBatch, 2, 2}, {}, 1).grad({0, 1, 2}));
  cases.push_back(batch_norm({kBatch, 2, 2}, train, 1).grad({0, 1, 2}));
  cases.push_back(batch_norm({kBatch, 32, 14, 14}, {}, 1));
  cases.push_back(batch_norm({kBatch, 32, 14, 14}, train, 5));
  const auto batch_norm_grad = [&](const Shape& shape, const Attrs& attrs) {
    return ConformanceCase{
        "leat.BatchNormalizationGrad",
        {f(shape), f(shape), f({shape[1]}), f({shape[1]}), f({shape[1]}, 0.5, 2)},
        attrs,
        3};
  };
  cases.push_back(batch_norm_grad({kBatch, 32, 14, 14}, train));
  cases.push_back(batch_norm_grad({kBatch, 3, 5}, {}));
  cases.push_back(
      ConformanceCase{"LayerNormalization", {f({kBatch, 5}), f({5}), f({5})}}.grad({0, 1, 2}));
  cases.push_back({"LayerNormalization", {f({kBatch, 40, 256}), f({256}), f({256})}, {}, 3});
  const auto layer_norm_grad = [](const Shape& shape) {
    const Shape statistics = {shape[0], shape[1], 1};
    return ConformanceCase{
        "leat.LayerNormalizationGrad",
        {f(shape), f(shape), f({shape[2]}), f(statistics), f(statistics, 0.5, 2)},
        {},
        3};
  };
  cases.push_back(layer_norm_grad({kBatch, 3, 5}));
  cases.push_back(layer_norm_grad({kBatch, 40, 256}));
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    const std::string grad = "leat." + std::string(op) + "Grad";
    cases.push_back(ConformanceCase{op, {f({kBatch, 5})}}.grad({0}));
    cases.push_back({op, {f({kBatch, 5, 7})}, {{"axis", number(1)}}});
    cases.push_back({op, {f({kBatch, 70, 90})}});
    cases.push_back({grad, {f({kBatch, 5}), f({kBatch, 5}, 0, 1)}});
    cases.push_back({grad, {f({kBatch, 5, 7}), f({kBatch, 5, 7}, 0, 1)}, {{"axis", number(1)}}});
  }
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    const std::string grad = "leat." + std::string(op) + "Grad";
    for (const char* reduction : {"none", "sum", "mean"}) {
      const Attrs attrs = {{"reduction", std::string(reduction)}};
      const Tensor dloss = std::string(reduction) == "none" ? f({kBatch}) : f({});
      const Tensor labels = indices({kBatch}, 5), weights = f({5}, 0.5, 2);
      cases.push_back(ConformanceCase{op, {f({kBatch, 5}), labels}, attrs}.grad({0}));
      cases.push_back(ConformanceCase{op, {f({kBatch, 5}), labels, weights}, attrs}.grad({0}));
      cases.push_back({op, {f({240, 10}), indices({240}, 10)}, attrs});
      cases.push_back({grad, {dloss, f({kBatch, 5}), labels, weights}, attrs});
    }
  }
  cases.push_back({"SoftmaxCrossEntropyLoss", {f({kBatch, 10}), indices({kBatch}, 10)}, {}, 2});
  for (const char* reduction : {"none", "sum", "mean"}) {
    const Attrs attrs = {{"reduction", std::string(reduction)}, {"ignore_index", number(1)}};
    const Tensor dloss = std::string(reduction) == "none" ? f({kBatch, 3}) : f({});
    const Tensor labels = indices({kBatch, 3}, 5), weights = f({5}, 0.5, 2);
    cases.push_back({"leat.CrossEntropy", {f({kBatch, 5, 3}), labels, weights}, attrs, 2});
    cases.push_back({"leat.CrossEntropyGrad",
                     {dloss, f({kBatch, 5, 3}), f({2, kBatch, 3}), labels, weights},
                     attrs});
  }
  const Attrs last = {{"blank", number(4)}}, finite = {{"blank", number(4)}, {"zero_infinity", 1}};
  const Tensor sequences = indices({kBatch, 2}, 4), lengths = indices({kBatch}, 3);
  cases.push_back(ConformanceCase{"leat.CtcLoss", {f({kBatch, 6, 5}), sequences}, last}.grad({0}));
  cases.push_back({"leat.CtcLoss", {f({kBatch, 4, 5}), sequences, lengths, lengths}, finite});
  cases.push_back(
      {"leat.CtcLossGrad", {f({kBatch}), f({kBatch, 4, 5}), sequences, lengths, lengths}, finite});
}

// Every kind of step, of operands that are whole, a row, a column, or one element.
void add_programs(Cases& cases) {
  const auto program = [](std::vector<std::string> steps, std::vector<int64_t> results) {
    std::vector<double> params(2 * steps.size(), 0.0);
    for (size_t i = 0; i < params.size(); ++i) params[i] = 0.25 * static_cast<double>(i % 3);
    return Attrs{{"steps", std::move(steps)}, {"params", params}, {"results", std::move(results)}};
  };
  cases.push_back({"leat.Elementwise",
                   {f({kBatch, 3, 2}), f({2}), f({3, 1}), f({1})},
                   program({"Add 0 1 float", "Mul 4 2 bfloat16", "Sub 5 3 float", "Relu 6 float16",
                            "Max 4 7 float"},
                           {8, 5, 7}),
                   3});
  std::vector<std::string> steps, gradients;
  for (const char* op : {"Cast", "Neg", "Abs", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu",
                         "Gelu.tanh", "HardSigmoid"})
    steps.push_back(std::string(op) + " " + std::to_string(steps.size()) + " float");
  cases.push_back({"leat.Elementwise", {f({kBatch, 16, 5})}, program(steps, {10})});
  for (const char* op : {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "HardSigmoid"})
    gradients.push_back("leat." + std::string(op) + "Grad " + std::to_string(gradients.size()) +
                        " 1 float");
  gradients[0] = "leat.ReluGrad 0 1 float";
  for (size_t i = 1; i < gradients.size(); ++i)
    gradients[i].replace(gradients[i].find(' ') + 1, 1, std::to_string(i + 1));
  gradients.push_back("leat.GeluGrad.tanh 7 1 bfloat16");
  cases.push_back(
      {"leat.Elementwise", {f({kBatch, 16, 5}), f({kBatch, 16, 5})}, program(gradients, {8})});
  cases.push_back({"leat.Elementwise",
                   {f({kBatch, 7}, 0.5, 2), f({kBatch, 7}, 0.5, 2)},
                   program({"Sqrt 0 float", "Exp 2 float", "Reciprocal 1 float", "Div 3 4 float",
                            "Min 5 2 float", "Add 6 5 float", "Sum 7 4 float"},
                           {8, 3}),
                   2});
}

void add_reductions(Cases& cases) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceSumSquare", "ReduceL1", "ReduceL2"}) {
    for (const auto& axes : std::vector<std::vector<int64_t>>{{1}, {0}, {0, 2}, {}}) {
      const std::vector<Tensor> small = {f({kBatch, 3, 2}), axes.empty() ? Tensor() : ints(axes)};
      const Attrs drop = {{"keepdims", number(0)}};
      cases.push_back(ConformanceCase{op, small, axes.size() == 1 ? Attrs{} : drop}.grad({0}));
      cases.push_back({op, {f({kBatch, 50, 70}, 0.9, 1.1), small[1]}});
    }
  }
  for (const char* reduction : {"sum", "mean", "max", "min", "prod", "sum_square", "l1", "l2"}) {
    const Attrs attrs = {{"reduction", std::string(reduction)}};
    cases.push_back({"leat.ReduceGrad",
                     {f({kBatch, 1, 4}), f({kBatch, 3, 4}), f({kBatch, 1, 4}), ints({1})},
                     attrs});
    cases.push_back(
        {"leat.ReduceGrad", {f({1, 3, 1}), f({kBatch, 3, 4}), f({1, 3, 1}), ints({0, 2})}, attrs});
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const int64_t axis : {0, 1, 2}) {
      cases.push_back(
          {op, {f({kBatch, 5, 3})}, {{"axis", number(axis)}, {"keepdims", number(axis % 2)}}});
    }
  }
}

void add_randoms(Cases& cases) {
  const Attrs shape = {{"shape", list({40, 33})}};
  for (const char* op : {"RandomNormal", "RandomUniform"}) cases.push_back({op, {}, shape});
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) {
    cases.push_back({op, {f({kBatch, 33})}, {{"dtype", number(1)}}});
  }
  cases.push_back({"Bernoulli", {f({kBatch, 33}, 0, 1)}});
  const Tensor ratio = Tensor::scalar<float>(0.25f);
  cases.push_back(ConformanceCase{"Dropout", {f({kBatch, 5}), ratio, flag(true)}, {}, 2}.grad({0}));
  cases.push_back(ConformanceCase{"Dropout", {f({kBatch, 5}), ratio, flag(false)}}.grad({0}));
  cases.push_back({"Dropout", {f({kBatch, 32, 9, 9}), ratio, flag(true)}, {}, 2});
  cases.push_back({"leat.DropoutGrad", {f({kBatch, 5}), bools({kBatch, 5}), ratio, flag(true)}});
}

ConformanceCase state(ConformanceCase c, uint32_t resources) {
  c.resources = resources;
  c.symbolic = false;  // variables have one shape
  return c;
}

// Images of [kBatch,2,3,5], with scales and with sizes.
void add_resize(std::vector<ConformanceCase>& cases) {
  const Tensor x = f({kBatch, 2, 3, 5});
  const Tensor twice = Tensor::of<float>({4}, {1, 1, 2, 2}),
               part = Tensor::of<float>({2}, {0.6f, 0.7f});
  const Tensor sizes = Tensor::of<int64_t>({2}, {4, 7});
  const Tensor roi = Tensor::of<float>({4}, {-0.2f, 0.1f, 0.9f, 1.3f});
  const auto add = [&](const std::string& mode, const std::string& coordinates, Attrs more,
                       std::vector<Tensor> operands) {
    more["mode"] = mode;
    more["coordinate_transformation_mode"] = coordinates;
    if (operands.back().elements() == 2) more["axes"] = std::vector<int64_t>{2, 3};
    operands.insert(operands.begin(), x);
    cases.push_back(ConformanceCase{"Resize", operands, more}.grad({0}));
  };
  add("nearest", "asymmetric", {{"nearest_mode", std::string("floor")}}, {Tensor(), twice});
  add("nearest", "half_pixel", {}, {Tensor(), Tensor(), sizes});
  add("linear", "half_pixel", {}, {Tensor(), twice});
  add("linear", "align_corners", {}, {Tensor(), Tensor(), sizes});
  add("linear", "half_pixel_symmetric", {{"antialias", int64_t{1}}}, {Tensor(), part});
  add("linear", "tf_crop_and_resize", {{"extrapolation_value", 3.0}}, {roi, Tensor(), sizes});
  add("cubic", "pytorch_half_pixel", {{"exclude_outside", int64_t{1}}}, {Tensor(), twice});
  add("cubic", "half_pixel", {{"antialias", int64_t{1}}}, {Tensor(), part});
  const Tensor dy = f({kBatch, 2, 6, 10});
  cases.push_back(ConformanceCase{
      "leat.ResizeGrad", {dy, Tensor(), twice, Tensor(), x}, {{"mode", std::string("linear")}}});
}

void add_grid_samples(std::vector<ConformanceCase>& cases) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const Attrs attrs{{"mode", std::string(mode)},
                        {"padding_mode", std::string(padding)},
                        {"align_corners", int64_t{padding[0] == 'b'}}};
      cases.push_back(ConformanceCase{
          "GridSample", {f({kBatch, 2, 4, 5}), f({kBatch, 2, 3, 2}, -1.6, 1.6)}, attrs}
                          .grad({0, 1}));
    }
  }
  const Tensor places = f({kBatch, 2, 1, 3, 3}, -1.2, 1.2);
  cases.push_back(ConformanceCase{"GridSample", {f({kBatch, 2, 2, 3, 4}), places}}.grad({0, 1}));
  cases.push_back({"GridSample", {f({kBatch, 1, 5}), f({kBatch, 700, 1}, -1, 1)}});
  cases.push_back({"leat.GridSampleGrad",
                   {f({kBatch, 2, 3, 2}), f({kBatch, 2, 4, 5}), f({kBatch, 3, 2, 2}, -1, 1)},
                   {},
                   2});
}

void add_images(std::vector<ConformanceCase>& cases) {
  const Tensor places = random_tensor(DType::i64, {kBatch, 4}, 44, -3, 4);
  const Attrs size{{"height", int64_t{4}}, {"width", int64_t{6}}, {"fill", 1.0}};
  cases.push_back({"leat.CropImages", {f({kBatch, 2, 5, 4}), places}, size});
  cases.push_back({"leat.CropImages", {f({kBatch, 3, 1, 32, 33}), places}, size});
  // Steps without jumps, whose results in 16 bits are close to those in 32; then all of them.
  Tensor smooth(DType::i64, {kBatch, 2}), every(DType::i64, {kBatch, 2});
  for (int64_t i = 0; i < smooth.elements(); ++i) {
    smooth.set(i, static_cast<double>(1 + i % 5));
    every.set(i, static_cast<double>(i % 15));
  }
  const Tensor values = f({kBatch, 2}, 0.3, 1.6);
  cases.push_back({"leat.AugmentImages", {f({kBatch, 3, 5, 6}, 0, 1), smooth, values}});
  cases.push_back(ConformanceCase{
      "leat.AugmentImages",
      {f({kBatch, 3, 20, 21}, 0, 1), every,
       values}}.one_dtype());
  cases.push_back(ConformanceCase{"leat.AugmentImages", {f({kBatch, 1, 4, 5}, 0, 1), every, values}}
                      .one_dtype());
}

void add_attention(std::vector<ConformanceCase>& cases) {
  const auto q = [](int64_t heads) { return f({kBatch, heads, 5, 3}); };
  const auto k = [](int64_t heads) { return f({kBatch, heads, 4, 3}); };
  const auto v = [](int64_t heads) { return f({kBatch, heads, 4, 2}); };
  const Attrs causal{{"is_causal", int64_t{1}}},
      heads{{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"scale", 0.7}};
  const auto add = [&](std::vector<Tensor> inputs, const Attrs& attrs, std::vector<int> of,
                       int outputs = 1) {
    cases.push_back(ConformanceCase{"Attention", std::move(inputs), attrs, outputs}.grad(of));
  };
  add({q(2), k(2), v(2)}, {}, {0, 1, 2});
  add({q(4), k(2), v(2)}, causal, {0, 1, 2});
  add({q(2), k(2), v(2)}, {{"softcap", 1.5}, {"right_window_size", int64_t{1}}}, {0, 1, 2});
  add({q(2), k(2), v(2)}, {{"left_window_size", int64_t{1}}}, {0, 1, 2});
  add({f({kBatch, 5, 12}), f({kBatch, 4, 6}), f({kBatch, 4, 4})}, heads, {0, 1, 2});
  add({f({kBatch, 5, 12}), f({kBatch, 4, 6}), f({kBatch, 4, 4}), f({5, 4})}, heads, {0, 1, 2, 3});
  for (const Shape& mask : {Shape{kBatch, 1, 5, 4}, Shape{2, 5, 3}, Shape{1, 4}, Shape{2}})
    add({q(2), k(2), v(2), f(mask)}, {}, {0, 1, 2, 3});
  add({q(2), k(2), v(2), bools({5, 4})}, causal, {0, 1, 2});
  add({q(2), k(2), v(2), Tensor(), f({kBatch, 2, 3, 3}), f({kBatch, 2, 3, 2})}, causal,
      {0, 1, 2, 4, 5});
  add({f({kBatch, 5, 12}), f({kBatch, 4, 6}), f({kBatch, 4, 4}), Tensor(), f({kBatch, 2, 3, 3}),
       f({kBatch, 2, 3, 2})},
      heads, {0, 1, 2, 4, 5});
  Tensor lengths(DType::i64, {kBatch});
  for (int64_t i = 0; i < kBatch; ++i) lengths.set(i, static_cast<double>(i % 6));
  add({q(2), k(2), v(2), Tensor(), Tensor(), Tensor(), lengths}, {}, {0, 1, 2});
  add({q(2), k(2), v(2), f({5, 3}), Tensor(), Tensor(), lengths}, causal, {0, 1, 2, 3});
  for (const int64_t mode : {0, 1, 2, 3}) {
    cases.push_back({"Attention",
                     {q(2), k(2), v(2), f({5, 4})},
                     {{"qk_matmul_output_mode", mode}, {"softcap", 2.0}},
                     5});
  }
  // Several blocks of queries and of keys.
  cases.push_back({"Attention",
                   {f({kBatch, 2, 70, 3}), f({kBatch, 2, 300, 3}), f({kBatch, 2, 300, 3})},
                   causal});
  const Tensor y = f({kBatch, 2, 5, 2}), sums = f({kBatch, 2, 5}, 2, 3);
  cases.push_back({"leat.AttentionGrad", {q(2), k(2), v(2), y, sums, y, f({5, 4})}, {}, 4});
  cases.push_back({"leat.AttentionGrad", {q(2), k(2), v(2), y, sums, y}, causal, 3});
}

// Sequences of 3 steps, with batches of several tiles.
void add_recurrent(std::vector<ConformanceCase>& cases) {
  constexpr int64_t kSteps = 3;
  const auto add = [&](const std::string& cell, int64_t gates, const Attrs& more, Shape extra,
                       int64_t state = 2) {
    Attrs attrs = more;
    attrs["cell"] = cell;
    const bool lstm = cell == "lstm";
    const Tensor r = f({state, gates * state}), first = f({kBatch, state});
    const Tensor side = extra.rank() > 0 ? f(extra) : Tensor();
    Tensor lengths(DType::i32, {kBatch});
    for (int64_t i = 0; i < kBatch; ++i) lengths.set(i, static_cast<double>(i % (kSteps + 1)));
    const Shape whole{kSteps, kBatch, gates * state}, states{kSteps, kBatch, state};
    std::vector<int> of{0, 1, 2};
    if (lstm) of.push_back(3);
    if (side.valid()) of.push_back(4);
    cases.push_back(ConformanceCase{"leat.Recurrent",
                                    {f(whole), r, first, lstm ? first : Tensor(), side, lengths},
                                    attrs,
                                    lstm ? 3 : 2}
                        .grad(of)
                        .known_batch());
    cases.push_back(
        ConformanceCase{"leat.Recurrent", {f(whole), r}, attrs, 1}.grad({0, 1}).known_batch());
    cases.push_back(
        ConformanceCase{"leat.RecurrentGrad",
                        {r, f(states), f(whole, 0, 1), f(states), first, lstm ? first : Tensor(),
                         side, lengths, f(states), first, first},
                        attrs,
                        6}
            .known_batch());
  };
  const Attrs reverse{{"reverse", int64_t{1}}};
  add("lstm", 4, {}, {6});
  add("lstm", 4, {{"reverse", int64_t{1}}, {"input_forget", int64_t{1}}}, {});
  add("gru", 3, reverse, {});
  add("gru", 3, {{"linear_before_reset", int64_t{1}}}, {2});
  add("rnn", 1, {}, {});
  add("rnn", 1, {{"activations", std::vector<std::string>{"Softsign"}}}, {});
  add("lstm", 4, {}, {}, 40);
  add("gru", 3, {}, {}, 35);
}

void add_state(Cases& cases) {
  for (const Shape& shape : {Shape{5, 3}, Shape{300, 250}}) {
    const Tensor lr = Tensor::scalar<float>(0.1f), step = Tensor::scalar<int64_t>(4);
    cases.push_back(state({"leat.Read", {f(shape)}}, 1));
    cases.push_back(state({"leat.Snapshot", {f(shape)}}, 1));
    for (const char* op : {"leat.Initialize", "leat.Assign", "leat.AssignAdd"}) {
      cases.push_back(state({op, {f(shape), f(shape)}, {}, 0}, 1));
    }
    cases.push_back(state({"leat.ReadRows", {f(shape), indices({7, 2}, shape[0])}}, 1));
    const Tensor lines = f({80, shape[1]}), ids = indices({80}, shape[0]);
    const Attrs lazy = {{"lazy", number(1)}, {"shards", number(4)}};
    Attrs lazy_momentum = lazy;
    lazy_momentum["momentum"] = 0.9;
    cases.push_back(state({"leat.ApplySgd", {f(shape), f(shape), lr}, {}, 0}, 1));
    cases.push_back(state({"leat.ApplySgd", {f(shape), f(shape), lr}, lazy, 0}, 1));
    cases.push_back(state({"leat.ApplySgd", {f(shape), lines, lr, ids}, {}, 0}, 1));
    cases.push_back(
        state({"leat.ApplyMomentum", {f(shape), f(shape), lines, lr, ids}, lazy_momentum, 0}, 3));
    for (const int64_t nesterov : {0, 1}) {
      const Attrs attrs = {{"momentum", 0.9}, {"nesterov", number(nesterov)}};
      cases.push_back(
          state({"leat.ApplyMomentum", {f(shape), f(shape), f(shape), lr}, attrs, 0}, 3));
    }
    for (const char* op : {"leat.ApplyAdam", "leat.ApplyAdamW"}) {
      cases.push_back(
          state({op, {f(shape), f(shape), f(shape, 0, 1), f(shape), lr, step}, {}, 0}, 7));
      cases.push_back(
          state({op, {f(shape), f(shape), f(shape, 0, 1), lines, lr, step, ids}, lazy, 0}, 7));
    }
  }
  cases.push_back({"leat.Step", {}});
  cases.push_back({"leat.ReplicaId", {}});
  cases.push_back({"leat.Digest", {f({5, 7})}});
  add_attention(cases);
  add_grid_samples(cases);
  add_images(cases);
  add_recurrent(cases);
  add_resize(cases);
  cases.push_back(ConformanceCase{
      "leat.Range", {f({kBatch, 7})}, {{"first", number(16)}, {"count", number(21)}}}
                      .known_batch());
  // ((a + b) + c) + (d + e)
  const std::vector<int64_t> order{0, 1, -1, 2, -1, 3, 4, -1, -1};
  cases.push_back(ConformanceCase{
      "leat.SumTree",
      {f({kBatch, 7}), f({kBatch, 7}), f({kBatch, 7}), f({kBatch, 7}), f({kBatch, 7})},
      {{"order",
        order}}}.grad({0, 1, 2, 3, 4}));
  cases.push_back(ConformanceCase{
      "leat.Join", {f({8}), f({2, 3}), f({4})}, {{"shape", std::vector<int64_t>{3, 6}}}}
                      .known_batch());
}

}  // namespace

std::vector<ConformanceCase> conformance_cases() {
  Cases cases;
  next_seed = 0;
  add_elementwise(cases);
  add_shapes(cases);
  add_products(cases);
  add_windows(cases);
  add_normalizations(cases);
  add_programs(cases);
  add_reductions(cases);
  add_randoms(cases);
  add_state(cases);
  add_product_cases(cases);
  add_signal_cases(cases);
  add_region_cases(cases);
  return cases;
}

std::vector<ExemptOp> exempt_ops() {
  return {
      {"If", "expanded when a graph is loaded: control_flow_test"},
      {"Loop", "expanded when a graph is loaded: control_flow_test"},
      {"Scan", "expanded when a graph is loaded: control_flow_test"},
      {"leat.MapReduce", "expanded when a graph is loaded: control_flow_test"},
      {"leat.MapGather", "expanded when a graph is loaded: control_flow_test"},
      {"leat.Gradients", "expanded before anything runs: gradients_test"},
      {"leat.AllGather", "lowered by the strategy"},
      {"leat.ReduceScatter", "lowered by the strategy"},
      {"leat.Broadcast", "lowered by the strategy"},
      {"leat.AllToAll", "lowered by the strategy"},
      {"leat.AllReduce", "lowered by the strategy"},
      {"leat.Send", "run by the executor"},
      {"leat.Receive", "run by the executor"},
      {"leat.SendToken", "run by the executor"},
      {"leat.ReceiveToken", "run by the executor"},
      {"leat.Variable", "makes a resource, and runs nothing: variable_test"},
      {"leat.Queue", "makes a resource, and runs nothing: queue_test"},
      {"leat.Enqueue", "waits for others: queue_test"},
      {"leat.Dequeue", "waits for others: queue_test"},
      {"leat.Close", "ends the waiting of others: queue_test"},
      {"leat.QueueSize", "reads what others do: queue_test"},
      {"leat.StepCounter", "makes a resource, and runs nothing: step_test"},
      {"leat.NextStep", "gives what others have not drawn: step_test"},
      {"leat.Commit", "leaves what runs remember: commits_test"},
      {"leat.ReplicaPool", "makes a resource, and runs nothing: quorum_test"},
      {"leat.NextTicket", "waits for others: quorum_test"},
      {"leat.Arrive", "ends the waiting of others: quorum_test"},
      {"leat.AwaitQuorum", "waits for others: quorum_test"},
      {"leat.StepClock", "makes a resource, and runs nothing: quorum_test"},
      {"leat.AwaitStep", "waits for others: quorum_test"},
      {"leat.AdvanceStep", "ends the waiting of others: quorum_test"},
      {"leat.Staging", "makes a resource, and runs nothing: quorum_test"},
      {"leat.Stage", "leaves what others sum: quorum_test"},
      {"leat.SumStaged", "sums what others left: quorum_test"},
      {"leat.ReadBatch", "reads files that a job has opened: input_test"},
      {"leat.Save", "writes a file: save_test"},
      {"leat.Restore", "reads a file: save_test"},
      {"NonZero", "its size depends on values: selection_test"},
      {"Unique", "its size depends on values: selection_test"},
      {"NonMaxSuppression", "its size depends on values: selection_test"},
      {"ImageDecoder", "its size depends on values: selection_test"},
  };
}

std::vector<ExemptOp> exempt_gradients() {
  return {
      {"leat.AllGather", "lowered by the strategy"},
      {"leat.ReduceScatter", "lowered by the strategy"},
      {"leat.AllToAll", "lowered by the strategy"},
      {"leat.AllReduce", "lowered by the strategy"},
      {"leat.Broadcast", "lowered by the strategy"},
      {"Ceil", "flat: no gradient passes"},
      {"Floor", "flat: no gradient passes"},
      {"Round", "flat: no gradient passes"},
      {"Sign", "flat: no gradient passes"},
      {"leat.TreeEnsemble", "flat: no gradient passes"},
      {"leat.Quantize", "straight through steps: quantize_test.cc has the definition"},
      {"leat.Dequantize", "of stored numbers: quantize_test.cc has the definition"},
  };
}

}  // namespace leat::testing
