// The ops of pieces refuse operands that do not fit, before anything runs.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using Catch::Contains;

std::string refusal(std::string_view op, const std::vector<ValueType>& types, const Attrs& attrs) {
  return testing::infer(op, types, attrs).status().message();
}

ValueType floats(SymbolicShape shape) { return testing::tensor_type(DType::f32, std::move(shape)); }

ValueType floats(int64_t size) { return floats(SymbolicShape(Shape{size})); }

// Returns a row of an unknown size.
ValueType some_floats() {
  SymbolicShape shape;
  shape.push_back(Dim::of_symbol(3));
  return floats(shape);
}

Attrs range(int64_t first, int64_t count) { return {{"first", first}, {"count", count}}; }

Attrs shape_of(const std::vector<int64_t>& sizes) { return {{"shape", sizes}}; }

TEST_CASE("a range lies within its value") {
  const auto beyond = [](const Attrs& attrs) { return refusal("leat.Range", {floats(4)}, attrs); };
  CHECK_THAT(beyond(range(3, 2)), Contains("expected a range of 4 elements, received 2 from 3"));
  CHECK_THAT(beyond(range(5, 0)), Contains("expected a range of 4 elements, received 0 from 5"));
  CHECK_THAT(beyond(range(-1, 2)), Contains("expected a range of 4 elements, received 2 from -1"));
  CHECK_THAT(beyond(range(1, -2)), Contains("expected a range of 4 elements, received -2 from 1"));
  CHECK_THAT(refusal("leat.Range", {some_floats()}, range(0, -1)),
             Contains("count: expected at least 0, received -1"));
}

TEST_CASE("joined pieces make all of a value") {
  const auto join = [](const std::vector<ValueType>& pieces, const std::vector<int64_t>& sizes) {
    return refusal("leat.Join", pieces, shape_of(sizes));
  };
  CHECK_THAT(join({floats(2), floats(2)}, {-1}), Contains("shape: expected sizes >= 0"));
  CHECK_THAT(join({floats(2), some_floats()}, {4}), Contains("expected pieces of known sizes"));
  CHECK_THAT(join({floats(2), floats(2)}, {5}),
             Contains("expected pieces of 5 elements for [5], received 4"));
  const int64_t half = int64_t{1} << 62;
  CHECK_THAT(join({floats(half), floats(half)}, {4}), Contains("the pieces are too large"));
}

}  // namespace
}  // namespace leat
