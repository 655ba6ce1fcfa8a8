#include "ops/definitions/sum_tree.h"

#include "devices/base/stream_copy.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

constexpr DType kNumberTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                  DType::i8,  DType::i16, DType::i32, DType::i64,
                                  DType::u8,  DType::u16, DType::u32, DType::u64};

std::vector<Tensor> leaves_of(DType dtype, const Shape& shape, int count) {
  std::vector<Tensor> leaves;
  for (int k = 0; k < count; ++k)
    leaves.push_back(random_tensor(dtype, shape, static_cast<uint64_t>(k) + 1, 0, 60));
  return leaves;
}

// Adds up with one Add after the other.
Tensor with_adds(const std::vector<Tensor>& leaves, const std::vector<int64_t>& order) {
  std::vector<Tensor> open;
  for (const int64_t item : order) {
    if (item != kSumOfTwo) {
      open.push_back(leaves[static_cast<size_t>(item)]);
      continue;
    }
    const Tensor right = open.back();
    open.pop_back();
    open.back() = run1("Add", {open.back(), right});
  }
  return open.back();
}

TreeOfSums right_leaning(int leaves) {
  TreeOfSums tree = TreeOfSums::leaf(0);
  for (int k = 1; k < leaves; ++k) tree = TreeOfSums::sum(TreeOfSums::leaf(0), tree);
  return tree;
}

const std::vector<std::vector<int64_t>> kOrders = {
    {0, 1, -1},
    {0, 1, -1, 2, -1},
    {0, 1, 2, -1, -1},
    {0, 1, -1, 2, 3, -1, -1},
    {0, 1, -1, 2, -1, 3, 4, 5, -1, -1, -1},
};

int leaves_in(const std::vector<int64_t>& order) { return static_cast<int>(order.size() + 1) / 2; }

}  // namespace

TEST_CASE("a tree of sums has the bits of its Adds, in every type") {
  for (const DType dtype : kNumberTypes) {
    for (const auto& order : kOrders) {
      INFO(dtype << " " << join(order, ","));
      const auto leaves = leaves_of(dtype, {3, 1031}, leaves_in(order));
      check_identical(run1("leat.SumTree", leaves, {{"order", order}}), with_adds(leaves, order));
    }
  }
}

TEST_CASE("one leaf is its own sum") {
  const std::vector<int64_t> order = {0};
  for (const int64_t elements : {int64_t{7}, static_cast<int64_t>(kLeastStreamed)}) {
    const auto leaves = leaves_of(DType::f32, {elements}, 1);
    check_identical(run1("leat.SumTree", leaves, {{"order", order}}), leaves[0]);
  }
}

TEST_CASE("a large tree of sums has the bits of its Adds") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto elements = static_cast<int64_t>(kLeastStreamed / dtype_size(dtype)) + 1234;
    for (const auto& order : kOrders) {
      const auto leaves = leaves_of(dtype, {elements}, leaves_in(order));
      check_identical(run1("leat.SumTree", leaves, {{"order", order}}), with_adds(leaves, order));
    }
  }
}

TEST_CASE("trees of sums grow by their leaves") {
  const auto leaf = [](ValueId v) { return TreeOfSums::leaf(v); };
  const TreeOfSums tree =
      TreeOfSums::sum(TreeOfSums::sum(leaf(7), leaf(5)), TreeOfSums::sum(leaf(3), leaf(9)));
  CHECK(tree.leaves == std::vector<ValueId>{7, 5, 3, 9});
  CHECK(tree.order == std::vector<int64_t>{0, 1, -1, 2, 3, -1, -1});
  const auto leaves = leaves_of(DType::f32, {10}, 64);
  const auto order = right_leaning(64).order;
  check_identical(run1("leat.SumTree", leaves, {{"order", order}}), with_adds(leaves, order));
}

TEST_CASE("an order that is that of no tree is refused") {
  const auto leaves = leaves_of(DType::f32, {4}, 3);
  const auto refused = [&](std::vector<int64_t> order, std::string_view message) {
    const Status status = run_error("leat.SumTree", leaves, {{"order", std::move(order)}});
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find(message) != std::string::npos);
  };
  refused({}, "expected that of a tree of 3 leaves");
  refused({0, 1, 2}, "expected that of a tree of 3 leaves");
  refused({0, 1, -1}, "expected that of a tree of 3 leaves");
  refused({0, -1, 1, 2, -1}, "no tree");
  refused({0, 2, -1, 1, -1}, "no tree");
  refused({0, 0, -1, 1, -1}, "no tree");
  refused({0, 1, -1, 2, -2}, "no tree");
  refused({0, 1, -1, 2, -1, 3, -1}, "expected that of a tree of 3 leaves");
  CHECK(run_error("leat.SumTree", leaves_of(DType::f32, {4}, 65),
                  {{"order", right_leaning(65).order}})
            .message()
            .find("of which 64 wait at most") != std::string::npos);
  const Status shapes =
      run_error("leat.SumTree", {leaves[0], leaves[1], random_tensor(DType::f32, {1}, 1)},
                {{"order", kOrders[1]}});
  CHECK(shapes.message().find("of one shape") != std::string::npos);
}

}  // namespace leat::testing
