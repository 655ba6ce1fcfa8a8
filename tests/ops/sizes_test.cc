// Shapes computed from symbolic sizes: what inference knows of Shape, of parts of it and of
// arithmetic on it, and of the ops that take such a shape.
#include "ops/graph/sizes.h"

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "ops/graph/gradients.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

const Catalogue& ops_of_sizes() {
  static const Catalogue kOps = standard_catalogue();
  return kOps;
}

// A graph with the input x [N,T,64] and the shape of it.
struct Sized {
  Graph graph{ops_of_sizes()};
  GraphBuilder g{graph};
  const ValueId x =
      g.input("x", DType::f32, SymbolicShape{g.batch("N"), g.batch("T"), Dim::of(64)});
  const ValueId shape = g.op("Shape", {x});

  ValueId ints(const std::vector<int64_t>& values) {
    return g.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }
  ValueId number(int64_t value) { return g.constant(Tensor::scalar<int64_t>(value)); }
  // Size d of x, as a vector of one element.
  ValueId size(int64_t d) { return g.op("Slice", {shape, ints({d}), ints({d + 1})}); }
  ValueId concat(const std::vector<ValueId>& parts) {
    return g.op("Concat", parts, {{"axis", int64_t{0}}});
  }
  std::string text(ValueId value) {
    INFO(g.status());
    REQUIRE(g.status().ok());
    return graph.type_text(graph.value(value).type);
  }
};

TEST_CASE("a Reshape to parts of a Shape has their sizes") {
  Sized s;
  const ValueId heads = s.g.op("Reshape", {s.x, s.concat({s.size(0), s.size(1), s.ints({4, 16})})});
  CHECK(s.text(heads) == "float[N,T,4,16]");
  const ValueId rows = s.g.op("Reshape", {heads, s.concat({s.ints({-1}), s.size(2)})});
  CHECK(s.text(rows).ends_with(",64]"));
  const ValueId picked =
      s.g.op("Unsqueeze", {s.g.op("Gather", {s.shape, s.number(1)}), s.ints({0})});
  CHECK(s.text(s.g.op("Reshape", {s.x, s.concat({s.ints({0}), picked, s.ints({-1})})})) ==
        "float[N,T,64]");
}

TEST_CASE("arithmetic on sizes gives equal symbols for equal operands") {
  Sized s;
  const ValueId one = s.ints({1}), t = s.size(1);
  const ValueId a = s.g.op("Expand", {one, s.g.op("Add", {t, one})}),
                b = s.g.op("Expand", {one, s.g.op("Add", {one, t})}),
                c = s.g.op("Expand", {one, s.g.op("Add", {t, s.ints({2})})});
  CHECK(s.text(a) == s.text(b));
  CHECK(s.text(a) != s.text(c));
  CHECK(s.text(s.g.op("Expand", {one, s.g.op("Mul", {t, s.ints({3})})})) == "int64[3*T]");
  CHECK(s.text(s.g.op("Expand", {one, s.g.op("Sub", {t, t})})) == "int64[0]");
  const ValueId both = s.g.op("Mul", {t, s.ints({4})});
  CHECK(s.text(s.g.op("Expand", {one, s.g.op("Div", {both, s.ints({2})})})) == "int64[2*T]");
  CHECK(s.text(s.g.op("Expand", {one, s.g.op("Div", {t, s.ints({2})})})) != "int64[T]");
}

TEST_CASE("a Range, a Slice and a ConstantOfShape take symbolic sizes") {
  Sized s;
  const ValueId t = s.g.op("Gather", {s.shape, s.number(1)});
  CHECK(s.text(s.g.op("Range", {s.number(0), t, s.number(1)})) == "int64[T]");
  CHECK(s.text(s.g.op("ConstantOfShape", {s.shape})) == "float[N,T,64]");
  CHECK(s.text(s.g.op("Slice", {s.x, s.ints({0}), s.size(1), s.ints({1})})) == "float[N,T,64]");
  CHECK(s.text(s.g.op("Slice", {s.x, s.ints({0}), s.size(0), s.ints({1})})) != "float[N,T,64]");
}

// Pad asks for constants: half of the known size is one, though the shape beside it has symbols.
TEST_CASE("sizes without a symbol are constants") {
  Sized s;
  const ValueId half = s.g.op("Div", {s.size(2), s.ints({2})});
  CHECK(s.text(s.g.op("Pad", {s.x, s.concat({s.ints({0, 0, 0, 0, 0}), half})})) == "float[N,T,96]");
}

// The pattern with which PyTorch expands a value: -1 keeps a size.
TEST_CASE("a comparison of sizes with -1 is known") {
  Sized s;
  const ValueId target = s.concat({s.size(0), s.size(1), s.ints({-1})});
  const ValueId keeps = s.g.op("Equal", {target, s.ints({-1})});
  const ValueId sizes = s.g.op("Where", {keeps, s.ints({1, 1, 1}), target});
  CHECK(s.text(s.g.op("Expand", {s.x, sizes})) == "float[N,T,64]");
  // A difference may be negative.
  SizeArithmetic arithmetic([next = SymbolId{7}]() mutable { return next++; });
  const Dim n = Dim::of_symbol(1);
  CHECK(arithmetic.equal(n, Dim::of(-1)) == false);
  CHECK(!arithmetic.equal(n, Dim::of(1)));
  CHECK(!arithmetic.equal(*arithmetic.apply("Sub", n, Dim::of(2)), Dim::of(-1)));
  CHECK(!arithmetic.apply("Div", n, Dim::of(0)));
  CHECK(!arithmetic.apply("Pow", n, n));
  CHECK(!arithmetic.apply("Mul", Dim::of(INT64_MAX), Dim::of(2)));
}

TEST_CASE("symbols broadcast with constants and with each other") {
  const Dim n = Dim::of_symbol(0), m = Dim::of_symbol(1);
  const auto both = [](const SymbolicShape& a, const SymbolicShape& b) {
    return testing::infer(
        "Add", {testing::tensor_type(DType::f32, a), testing::tensor_type(DType::f32, b)});
  };
  const auto shape = [&](const SymbolicShape& a, const SymbolicShape& b) {
    return must(both(a, b)).outputs[0].shape;
  };
  CHECK(shape({n, Dim::of(1), Dim::of(3)}, {Dim::of(5), Dim::of(3)}) ==
        SymbolicShape{n, Dim::of(5), Dim::of(3)});
  CHECK(shape({n}, {n}) == SymbolicShape{n});
  CHECK(shape({n}, {Dim::of(1)}) == SymbolicShape{n});
  CHECK(shape({n}, {Dim::of(7)}) == SymbolicShape{Dim::of(7)});
  const Dim other = shape({n}, {m})[0];  // 1, n or m
  CHECK((!other.is_constant() && other != n && other != m));
  CHECK(!both({Dim::of(2)}, {Dim::of(3)}).ok());
}

TEST_CASE("two different symbols broadcast, but have no gradient") {
  Sized s;
  const ValueId y =
      s.g.input("y", DType::f32, SymbolicShape{s.g.batch("M"), Dim::of(1), Dim::of(64)});
  const ValueId sum = s.g.op("Add", {s.x, y});
  CHECK(s.text(sum).ends_with(",T,64]"));
  const ValueId loss = s.g.op("ReduceSum", {sum});
  const ValueId xs[] = {y};
  const auto made = add_gradients(s.g.inference(), loss, xs);
  REQUIRE(!made.ok());
  INFO(made.status());
  CHECK(std::string(made.status().message()).find("whether M of [M,1,64] is 1") !=
        std::string::npos);
}

}  // namespace
}  // namespace leat
