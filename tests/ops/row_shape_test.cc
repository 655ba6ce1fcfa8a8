#include "ops/definitions/row_shape.h"

#include "tests/catch.h"

using namespace leat;

namespace {

constexpr Dim kAny{1, 0}, kOther{1, 1};  // symbols

SymbolicShape rows_of(std::initializer_list<int64_t> sizes) {
  SymbolicShape shape{kAny};
  for (const int64_t size : sizes) shape.push_back(size < 0 ? kOther : Dim::of(size));
  return shape;
}

}  // namespace

TEST_CASE("a record fits a row of its sizes, with or without those of 1, and a flat row") {
  struct Case {
    Shape row;
    SymbolicShape value;
    Shape becomes;
  };
  for (const Case& c : {
           Case{{3, 16, 16}, rows_of({3, 16, 16}), {3, 16, 16}},
           Case{{28, 28}, rows_of({1, 28, 28}), {1, 28, 28}},
           Case{{1, 28, 28}, rows_of({28, 28}), {28, 28}},
           Case{{28, 1, 28}, rows_of({28, 28, 1}), {28, 28, 1}},
           Case{{28, 28}, rows_of({784}), {784}},
           Case{{3, 16, 16}, rows_of({768}), {768}},
           Case{{}, rows_of({}), {}},
           Case{{1}, rows_of({}), {}},
           Case{{}, rows_of({1, 1}), {1, 1}},
           Case{{10, 64}, rows_of({-1, 64}), {10, 64}},
           Case{{1, 64}, rows_of({-1, 64}), {1, 64}},
           Case{{10, 64}, rows_of({1, -1, 64}), {1, 10, 64}},
           Case{{7}, rows_of({-1}), {7}},
       }) {
    INFO(c.row);
    CHECK(fits_row(c.row, c.value));
    CHECK(row_shape(c.row, c.value) == c.becomes);
  }
  // Rows may begin at a later dimension, as labels of classes do.
  CHECK(fits_row({}, rows_of({10}), 2));
  CHECK(fits_row({1}, rows_of({10}), 2));
  CHECK(fits_row({16, 16}, rows_of({10, 16, 16}), 2));
  CHECK_FALSE(fits_row({2}, rows_of({10}), 2));
}

TEST_CASE("a record of another layout is refused, however many elements it has") {
  const auto hint = [](const Shape& row, const SymbolicShape& value) {
    CHECK_FALSE(fits_row(row, value));
    return layout_hint(row, value);
  };
  CHECK(hint({16, 16, 3}, rows_of({3, 16, 16})) ==
        "; its sizes stand in another order: numpy.transpose(array, (0, 3, 1, 2)) has the model's");
  CHECK(hint({2, 3}, rows_of({3, 2})).find("(0, 2, 1)") != std::string::npos);
  CHECK(
      hint({768}, rows_of({3, 16, 16})) ==
      "; it has as many elements, in another layout: reshape the array, if that is what it means");
  CHECK(hint({16, 48}, rows_of({3, 16, 16})).find("reshape") != std::string::npos);
  CHECK(hint({4, 4}, rows_of({3, 4})) == "");
  CHECK(hint({}, rows_of({3})) == "");
  CHECK(hint({5, 64}, rows_of({-1, 32})) == "");
  CHECK(hint({28, 28}, rows_of({-1})) == "");
}
