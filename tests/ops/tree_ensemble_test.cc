// TreeEnsemble and TfIdfVectorizer: their values, and the attributes that they refuse.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

// x0 <= 1 leads to x1 > 2, whose leaves are 10 and 20, and else to a leaf of 30.
Attrs tree() {
  return {{"roots", Ints{0}},
          {"features", Ints{0, 1}},
          {"modes", Ints{0, 3}},
          {"splits", Doubles{1, 2}},
          {"yes", Ints{1, -1}},
          {"no", Ints{-3, -2}},
          {"missing", Ints{0, 1}},
          {"leaf_targets", Ints{0, 1, 0}},
          {"leaf_weights", Doubles{10, 20, 30}},
          {"targets", int64_t{2}}};
}

TEST_CASE("a row goes from the root of a tree to one leaf") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>({5, 2}, {1, 3, 1, 2, 2, 3, nan, 3, 0, nan});
  check_identical(run1("leat.TreeEnsemble", {x}, tree()),
                  Tensor::of<float>({5, 2}, {10, 0, 0, 20, 30, 0, 30, 0, 10, 0}));
}

TEST_CASE("trees that are none are refused") {
  const auto refusal = [](const char* name, Attr value) {
    Attrs attrs = tree();
    attrs.insert_or_assign(name, std::move(value));
    return run_error("leat.TreeEnsemble", {Tensor(DType::f32, {1, 2})}, attrs).message();
  };
  CHECK_THAT(refusal("yes", Ints{1, 0}),
             Catch::Contains("node 0: expected trees, it leads back to itself"));
  CHECK_THAT(refusal("no", Ints{-4, -2}),
             Catch::Contains("node 0: expected places of 2 nodes and 3 leaves, received 1 and -4"));
  CHECK_THAT(refusal("roots", Ints{2}), Catch::Contains("roots: expected a place, received 2"));
  CHECK_THAT(refusal("features", Ints{0, 2}),
             Catch::Contains("X: expected rows [N,F] of at least 3 features, received [1,2]"));
  CHECK_THAT(refusal("modes", Ints{0, 7}), Catch::Contains("a mode from 0 to 6, received 1 and 7"));
  CHECK_THAT(refusal("modes", Ints{0, 6}),
             Catch::Contains("node 1: expected the end of its set in member_ends"));
  CHECK_THAT(refusal("splits", Doubles{1}), Catch::Contains("of one length, received 2 and 1"));
  CHECK_THAT(refusal("leaf_targets", Ints{0, 2, 0}),
             Catch::Contains("leaf 1: expected a target from 0 to 1, received 2"));
  CHECK_THAT(refusal("targets", int64_t{1} << 40),
             Catch::Contains("expected targets from 1 to 1000000"));
}

// The n-grams 1, 2, 1 2 and 2 1.
Attrs n_grams() {
  return {{"min_gram_length", int64_t{1}},        {"max_gram_length", int64_t{2}},
          {"max_skip_count", int64_t{1}},         {"mode", std::string("TF")},
          {"ngram_counts", Ints{0, 2}},           {"ngram_indexes", Ints{0, 1, 3, 2}},
          {"pool_int64s", Ints{1, 2, 1, 2, 2, 1}}};
}

TEST_CASE("n-grams are counted with and without items between theirs") {
  const Tensor x = ints({1, 2, 0, 1, 1});
  // 1 2 is there once; 2 1 with one item between them.
  check_identical(run1("TfIdfVectorizer", {x}, n_grams()), Tensor::of<float>({4}, {3, 1, 1, 1}));
  Attrs weighed = n_grams();
  weighed.insert_or_assign("mode", std::string("TFIDF"));
  weighed.insert_or_assign("weights", Doubles{0.5, 2, 3, 4});
  check_identical(run1("TfIdfVectorizer", {x}, weighed), Tensor::of<float>({4}, {1.5f, 2, 3, 4}));
  weighed.insert_or_assign("mode", std::string("IDF"));
  check_identical(run1("TfIdfVectorizer", {x}, weighed), Tensor::of<float>({4}, {0.5f, 2, 3, 4}));
}

TEST_CASE("pools that do not fit are refused") {
  const auto refusal = [](const char* name, Attr value) {
    Attrs attrs = n_grams();
    attrs.insert_or_assign(name, std::move(value));
    return run_error("TfIdfVectorizer", {ints({1, 2})}, attrs).message();
  };
  CHECK_THAT(refusal("mode", std::string("tf")),
             Catch::Contains("mode: expected 'TF', 'IDF' or 'TFIDF', received 'tf'"));
  CHECK_THAT(refusal("ngram_counts", Ints{0, 3}),
             Catch::Contains("ngram_counts: expected ascending places in a pool of 6 items"));
  CHECK_THAT(refusal("ngram_counts", Ints{0, 8}), Catch::Contains("received 0 and 8"));
  CHECK_THAT(refusal("ngram_indexes", Ints{0, 1}),
             Catch::Contains("ngram_indexes: expected a column for each of the pool's 4 n-grams, "
                             "received 2"));
  CHECK_THAT(refusal("ngram_indexes", Ints{0, 1, 2, -1}), Catch::Contains("received -1"));
  CHECK_THAT(refusal("pool_strings", std::vector<std::string>{"a"}),
             Catch::Contains("pool_strings: expected pool_int64s"));
  CHECK_THAT(refusal("max_skip_count", int64_t{1} << 62),
             Catch::Contains("max_skip_count from 0 to 1000000"));
  CHECK_THAT(refusal("max_gram_length", int64_t{0}),
             Catch::Contains("expected 1 <= min_gram_length <= max_gram_length"));
}

}  // namespace
}  // namespace leat::testing
