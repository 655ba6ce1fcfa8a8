// Gradients of rows must have the bits of dense gradients.
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/ops/job_testing.h"

namespace leat::testing {
namespace {

constexpr int64_t kRows = 3000, kWidth = 33;

Tensor int_tensor(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(shape, values);
}

// The rows are met in each possible way: once, often, by a negative index, with zeros of either
// sign.
struct Gradient {
  int64_t shards, count;
  std::vector<int64_t> parts;  // of a shard
  Tensor values, ids;

  Gradient(DType dtype, int64_t shards_, std::vector<int64_t> parts_, int64_t most, uint64_t seed)
      : shards(shards_), parts(std::move(parts_)) {
    int64_t each = 0;
    for (const int64_t part : parts) each += part;
    count = shards * each;
    values = random_tensor(dtype, {count, kWidth}, seed);
    ids = random_tensor(DType::i64, {count}, seed + 1, -static_cast<double>(most / 3),
                        static_cast<double>(most));
    for (int64_t i = 0; i < kWidth; ++i) values.set(i, i % 2 ? -0.0 : 0.0);
    for (int64_t j = 0; j < count; j += 7) values.set(j * kWidth + j % kWidth, -0.0);
  }
  Attrs attrs() const { return {{"shards", shards}, {"parts", parts}}; }

  // The dense gradient of the lines [begin, begin + n).
  Tensor dense_part(int64_t begin, int64_t n) const {
    Tensor lines(values.dtype(), {n, kWidth}), at(DType::i64, {n});
    const size_t line = static_cast<size_t>(kWidth) * dtype_size(values.dtype());
    const auto skipped = static_cast<size_t>(begin), kept = static_cast<size_t>(n);
    if (n > 0) {
      std::memcpy(lines.raw(), static_cast<const char*>(values.raw()) + skipped * line,
                  kept * line);
      std::memcpy(at.raw(), ids.data<int64_t>() + skipped, kept * sizeof(int64_t));
    }
    return run1("leat.GatherGrad", {lines, at, int_tensor({2}, {kRows, kWidth})});
  }
  Tensor dense_shard(int64_t shard) const {
    int64_t begin = shard * (count / shards);
    Tensor sum = dense_part(begin, parts[0]);
    for (size_t p = 1; p < parts.size(); ++p)
      sum = run1("Add", {sum, dense_part(begin += parts[p - 1], parts[p])});
    return sum;
  }
  // Sums over shards with the tree that strategies build. It splits at the largest power of two
  // below n.
  Tensor dense(int64_t first, int64_t last) const {
    if (last - first == 1) return dense_shard(first);
    int64_t half = 1;
    while (half * 2 < last - first) half *= 2;
    return run1("Add", {dense(first, first + half), dense(first + half, last)});
  }
  Tensor dense() const { return dense(0, shards); }
};

std::vector<Gradient> gradients(DType dtype) {
  std::vector<Gradient> out;
  uint64_t seed = 1;
  for (const int64_t shards : {1, 2, 3, 4, 7}) {
    for (const auto& parts : std::vector<std::vector<int64_t>>{{40}, {5, 0, 30}, {9, 9, 9, 9}}) {
      for (const int64_t most : {30, 900}) out.emplace_back(dtype, shards, parts, most, seed += 2);
    }
  }
  return out;
}

TEST_CASE("lines summed by rows are the sums of dense gradients, to the bit") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Gradient& gradient : gradients(dtype)) {
      INFO(dtype << ", shards " << gradient.shards << ", parts " << gradient.parts.size());
      Attrs attrs = gradient.attrs();
      attrs["rows"] = kRows;
      for (const bool reverse : {false, true}) {
        InterpretOptions options;
        options.reverse_tiles = reverse;
        check_identical(run("leat.SumRows", {gradient.values, gradient.ids}, attrs, 1, options)[0],
                        gradient.dense());
      }
    }
  }
}

TEST_CASE("lines without a row of their own are none") {
  const Tensor nothing = run1("leat.SumRows", {Tensor(DType::f32, {0, 3}), Tensor(DType::i64, {0})},
                              {{"rows", int64_t{2}}});
  check_identical(nothing, Tensor(DType::f32, {2, 3}));
}

// An optimizer, a variable of kRows with its slots, and one update.
struct Update {
  std::string op;
  std::vector<std::string> slots;
  Attrs attrs;

  std::vector<Tensor> apply(DType dtype, const Tensor& grad, const Tensor& ids) const {
    TestJob job;
    const std::vector<int64_t> shape = {kRows, kWidth};
    std::vector<std::string> names = {"w"};
    names.insert(names.end(), slots.begin(), slots.end());
    std::vector<ValueId> inputs;
    for (const std::string& name : names) inputs.push_back(job.variable(name, dtype, shape));
    const ValueId of_grad = job.input("grad", dtype, grad.shape());
    const ValueId lr = job.input("lr", dtype, Shape());
    inputs.insert(inputs.end(), {of_grad, lr});
    std::map<ValueId, Tensor> feeds = {{of_grad, grad}, {lr, Tensor::scalar_of(dtype, 0.125)}};
    if (slots.size() == 2) {
      inputs.push_back(job.input("step", DType::i64, Shape()));
      feeds[inputs.back()] = Tensor::scalar<int64_t>(3);
    }
    if (ids.valid()) {
      inputs.push_back(job.input("ids", ids.dtype(), ids.shape()));
      feeds[inputs.back()] = ids;
    }
    const NodeId node = job.add_node(op, inputs, attrs, 1);
    std::vector<Tensor> states;
    uint64_t seed = 77;
    for (const std::string& name : names) {
      Tensor state = job.state(name, dtype, Shape{kRows, kWidth});
      const Tensor start = random_tensor(dtype, {kRows, kWidth}, ++seed, name == "v" ? 0 : -1, 1);
      std::memcpy(state.raw(), start.raw(), start.bytes());
      state.set(0, -0.0);
      states.push_back(state);
    }
    job.run(feeds, {}, {node});
    std::vector<Tensor> after;
    for (const Tensor& state : states) after.push_back(state.cast(dtype));
    return after;
  }
};

std::vector<Update> updates() {
  const Attrs lazy = {{"lazy", int64_t{1}}, {"weight_decay", 0.1}};
  Attrs momentum = lazy;
  momentum["momentum"] = 0.9;
  return {{"leat.ApplySgd", {}, {}},
          {"leat.ApplySgd", {}, lazy},
          {"leat.ApplyMomentum", {"velocity"}, momentum},
          {"leat.ApplyAdam", {"m", "v"}, lazy},
          {"leat.ApplyAdamW", {"m", "v"}, lazy}};
}

TEST_CASE("updates by rows are those by the dense gradient, to the bit") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const int64_t shards : {1, 3}) {
      const Gradient gradient(dtype, shards, {40, 25}, 300, 5);
      for (const Update& update : updates()) {
        INFO(update.op << " " << dtype << ", shards " << shards);
        Update by_rows = update;
        const Attrs attrs = gradient.attrs();
        for (const auto& [name, attr] : attrs) by_rows.attrs.emplace(name, attr);
        const auto expected = update.apply(dtype, gradient.dense(), Tensor());
        const auto actual = by_rows.apply(dtype, gradient.values, gradient.ids);
        REQUIRE(actual.size() == expected.size());
        for (size_t i = 0; i < actual.size(); ++i) check_identical(actual[i], expected[i]);
      }
    }
  }
}

TEST_CASE("a lazy update leaves rows alone that have no gradient, and their slots") {
  Tensor grad(DType::f32, {kRows, kWidth});
  grad.set(5 * kWidth + 2, 1);
  const Tensor start = random_tensor(DType::f32, {kRows, kWidth}, 78);
  for (const Update& update : updates()) {
    if (update.attrs.empty()) continue;
    INFO(update.op);
    const Tensor after = update.apply(DType::f32, grad, Tensor())[0];
    for (const int64_t row : {4, 5, 6}) {
      const bool same = std::memcmp(after.data<float>() + row * kWidth,
                                    start.data<float>() + row * kWidth, kWidth * 4) == 0;
      CHECK(same == (row != 5));
    }
    Update eager = update;
    eager.attrs["lazy"] = int64_t{0};
    CHECK(eager.apply(DType::f32, grad, Tensor())[0].at(4 * kWidth) != start.at(4 * kWidth));
  }
}

TEST_CASE("ids out of range fail the step with op, id and bound") {
  const Tensor lines(DType::f32, {2, 3});
  for (const int64_t bad : {4, -5}) {
    const std::string received = cat("received ", bad, " as id 1");
    const Status sum =
        run_error("leat.SumRows", {lines, int_tensor({2}, {0, bad})}, {{"rows", int64_t{4}}});
    CHECK(sum.message() == "leat.SumRows: expected an id in [-4, 3], " + received);
    TestJob job;
    const ValueId table = job.variable("w", DType::f32, {4, 3});
    const ValueId ids = job.input("ids", DType::i64, {2});
    const ValueId grad = job.input("grad", DType::f32, {2, 3});
    const ValueId lr = job.input("lr", DType::f32, Shape());
    const NodeId apply = job.add_node("leat.ApplySgd", {table, grad, lr, ids}, {}, 0);
    const Tensor given = int_tensor({2}, {0, bad});
    const auto applied =
        job.try_run({{ids, given}, {grad, lines}, {lr, Tensor::scalar(0.1f)}}, {}, {apply});
    CHECK(applied.status().message() == "leat.ApplySgd #1: expected an id in [-4, 3], " + received);
    const ValueId read = job.add("leat.ReadRows", {table, ids});
    const auto rows = job.try_run({{ids, given}}, {read});
    CHECK(rows.status().message() ==
          cat("leat.ReadRows #2: expected an index in [-4, 3], received ", bad, " as element 1"));
  }
}

TEST_CASE("rows of a variable are read as Gather reads them") {
  TestJob job;
  const ValueId table = job.variable("w", DType::f32, {5, 2});
  const ValueId ids = job.input("ids", DType::i32, {2, 2});
  const ValueId rows = job.add("leat.ReadRows", {table, ids});
  Tensor state = job.state("w", DType::f32, {5, 2});
  for (int64_t i = 0; i < 10; ++i) state.set(i, static_cast<double>(i));
  const Tensor read = job.run({{ids, Tensor::of<int32_t>({2, 2}, {4, 0, -1, 2})}}, {rows})[0];
  check_identical(read, Tensor::of<float>({2, 2, 2}, {8, 9, 0, 1, 8, 9, 4, 5}));
}

TEST_CASE("gradients of rows that do not fit are refused") {
  const auto refused = [](const Attrs& attrs, const Shape& values, const Shape& ids) {
    return run_error("leat.SumRows", {Tensor(DType::f32, values), Tensor(DType::i64, ids)}, attrs)
        .message();
  };
  const Attrs rows = {{"rows", int64_t{4}}};
  CHECK(refused(rows, {2, 3}, {3}) ==
        "leat.SumRows: expected ids [n] and values [n,...], received ids [3] and values [2,3]");
  CHECK(refused(rows, {4, 3}, {2, 2}).find("expected ids [n]") != std::string::npos);
  CHECK(refused({{"rows", int64_t{4}}, {"shards", int64_t{2}}}, {3, 1}, {3}) ==
        "leat.SumRows: expected ids of 2 shards, received 3");
  CHECK(refused({{"rows", int64_t{4}}, {"parts", std::vector<int64_t>{1, 1}}}, {3, 1}, {3}) ==
        "leat.SumRows: expected ids of 1 shards with 2 each, received 3");
  CHECK(refused({{"rows", int64_t{4}}, {"shards", int64_t{0}}}, {3, 1}, {3}) ==
        "leat.SumRows: shards: expected at least 1, received 0");
  CHECK(refused({{"rows", int64_t{4}}, {"parts", std::vector<int64_t>{-1, 4}}}, {3, 1}, {3}) ==
        "leat.SumRows: parts: expected counts of ids, received -1");
  CHECK(refused({{"rows", int64_t{-4}}}, {3, 1}, {3}).find("expected sizes >= 0") !=
        std::string::npos);

  const auto update = [](const Attrs& attrs, const Shape& grad) {
    TestJob job;
    const ValueId table = job.variable("w", DType::f32, {4, 3});
    job.add_node("leat.ApplySgd",
                 {table, job.input("grad", DType::f32, grad), job.input("lr", DType::f32, Shape()),
                  job.input("ids", DType::i64, {2})},
                 attrs, 0);
    return validate(job.graph).message();
  };
  CHECK(update({}, {2, 3}).empty());
  CHECK(update({}, {2, 2}) ==
        "leat.ApplySgd #1: input 1: expected rows of float[4,3], received float[2,2]");
  CHECK(update({{"weight_decay", 0.1}}, {2, 3}) ==
        "leat.ApplySgd #1: ids: expected SGD without weight decay, or lazy = 1: all others change "
        "every row");
  CHECK(update({{"weight_decay", 0.1}, {"lazy", int64_t{1}}}, {2, 3}).empty());
}

}  // namespace
}  // namespace leat::testing
