// leat.EditDistance against the definition: the least number of edits.
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using EditRow = std::vector<int64_t>;

// Distance, number of labels, and whether both are equal.
EditRow edits(const EditRow& made, const EditRow& wanted, const Attrs& attrs = {}) {
  const Tensor out = run1("leat.EditDistance",
                          {Tensor::of<int64_t>({1, static_cast<int64_t>(made.size())}, made),
                           Tensor::of<int64_t>({1, static_cast<int64_t>(wanted.size())}, wanted)},
                          attrs);
  EditRow row;
  for (int64_t i = 0; i < out.elements(); ++i) row.push_back(static_cast<int64_t>(out.at(i)));
  return row;
}

// By all three last edits.
int64_t by_recursion(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.empty() || b.empty()) return static_cast<int64_t>(a.size() + b.size());
  const auto rest = [](std::span<const int64_t> x) { return x.subspan(1); };
  const int64_t replaced = by_recursion(rest(a), rest(b)) + (a[0] == b[0] ? 0 : 1);
  return std::min({replaced, by_recursion(rest(a), b) + 1, by_recursion(a, rest(b)) + 1});
}

}  // namespace

TEST_CASE("the edit distance is the least number of insertions, removals and replacements") {
  CHECK(edits({1, 2, 3}, {1, 2, 3}) == EditRow{0, 3, 1});
  CHECK(edits({1, 2, 3}, {2, 3, 4}) == EditRow{2, 3, 0});
  CHECK(edits({}, {5, 6}) == EditRow{2, 2, 0});
  CHECK(edits({5, 6}, {}) == EditRow{2, 0, 0});
  // Negative numbers are in no list.
  CHECK(edits({-1, 1, -1, 2}, {1, 2, -100, -1}) == EditRow{0, 2, 1});
  const Tensor a = random_tensor(DType::i64, {40, 6}, 1, -1, 4),
               b = random_tensor(DType::i64, {40, 5}, 2, -1, 4);
  const Tensor found = run1("leat.EditDistance", {a, b});
  for (int64_t n = 0; n < 40; ++n) {
    EditRow made, wanted;
    for (int64_t i = 0; i < 6; ++i)
      if (a.int_at(n * 6 + i) >= 0) made.push_back(a.int_at(n * 6 + i));
    for (int64_t i = 0; i < 5; ++i)
      if (b.int_at(n * 5 + i) >= 0) wanted.push_back(b.int_at(n * 5 + i));
    CHECK(found.at(n * 3) == static_cast<double>(by_recursion(made, wanted)));
  }
  check_tiles("leat.EditDistance", {a, b});
}

TEST_CASE("a path of a CTC loss loses repetitions, then blanks") {
  const Attrs blank{{"blank", int64_t{0}}};
  CHECK(edits({1, 1, 0, 1, 2, 2, 0, 0}, {1, 1, 2}, blank) == EditRow{0, 3, 1});
  CHECK(edits({0, 0, 0}, {1}, blank) == EditRow{1, 1, 0});
}

TEST_CASE("words are lists between separators, however many of them there are") {
  const Attrs words{{"separator", int64_t{0}}};
  CHECK(edits({0, 1, 2, 0, 0, 3}, {1, 2, 0, 3, 0}, words) == EditRow{0, 2, 0});
  CHECK(edits({1, 2, 0, 3}, {1, 0, 2, 0, 3}, words) == EditRow{2, 3, 0});
  CHECK(edits({0, 0}, {0}, words) == EditRow{0, 0, 0});
}

TEST_CASE("sequences of different numbers of rows are refused") {
  CHECK(run_error("leat.EditDistance", {Tensor(DType::i64, {2, 3}), Tensor(DType::i64, {3, 3})})
            .message() ==
        "leat.EditDistance: labels: expected [N,S] with the N of predictions [2,3], received "
        "[3,3]");
}

}  // namespace leat::testing
