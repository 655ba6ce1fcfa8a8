// Models whose file fixes the batch's size, as exporters do by default. They are trained, evaluated
// and run like the same models with a batch of any size.
#include <cmath>
#include <cstring>

#include "daemon/training/predictor.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

// Returns the graph with `rows` as its batch: "N" or a number.
std::string graph_of(const std::string& rows, const std::string& between) {
  return cat("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\nexported (float[", rows,
             ",1,8,8] image) => (float[", rows,
             ",4] logits) {\n  c = leat.Conv2D <filters = 4, kernel = 3, activation = \"relu\"> "
             "(image)\n",
             between, "  logits = leat.Dense <units = 4> (f)\n}\n");
}

// Returns the nodes that `torch.flatten` becomes in the file.
std::string reshape(const std::string& rows) {
  return cat("  s = Constant <value = int64[2] {", rows, ", 256}> ()\n  f = Reshape (c, s)\n");
}

// Returns nodes that add a constant of `rows` rows. With one row, the model fits any batch.
std::string with_constant(int rows) {
  std::string values = "0";
  for (int i = 1; i < rows * 256; ++i) values += cat(", ", i % 256 / 256.0);
  return cat("  g = Flatten (c)\n  t = Constant <value = float[", rows, ",256] {", values,
             "}> ()\n  f = Add (t, g)\n");
}

const Catalogue& all_ops() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

Tensor predicted(const SmallJob& small, int64_t rows) {
  const Tensor all = must(read_npy(real_files(), small.path("val-x.npy")));
  Tensor some(all.dtype(), {rows, 1, 8, 8});
  std::memcpy(some.raw(), all.raw(), some.bytes());
  return must(predict(all_ops(), real_files(), small.path("run"), {{"", some}}));
}

}  // namespace

TEST_CASE("an export of one batch size whose rows are free trains as one of any size") {
  const SmallJob any(graph_of("N", reshape("-1"))), fixed(graph_of("2", reshape("2")));
  Silent of_any, of_fixed;
  const TrainOutcome expected = any.train(any.job({"steps=8"}), "run", of_any);
  const TrainOutcome outcome = fixed.train(fixed.job({"steps=8"}), "run", of_fixed);
  CHECK(of_fixed.losses == of_any.losses);
  CHECK(outcome.weights_sha256 == expected.weights_sha256);
  CHECK(outcome.validation->loss == expected.validation->loss);
  CHECK(outcome.validation->accuracy == expected.validation->accuracy);
  CHECK(predicted(fixed, 50).identical(predicted(any, 50)));
}

TEST_CASE("a model with a fixed batch is evaluated and predicts in batches of that size") {
  const SmallJob any(graph_of("N", with_constant(1)));
  const SmallJob fixed(graph_of("6", with_constant(6)));
  Silent of_any, of_fixed;
  const TrainOutcome expected = any.train(any.job({"steps=8"}), "run", of_any);
  const TrainOutcome outcome = fixed.train(fixed.job({"steps=8"}), "run", of_fixed);
  CHECK(of_fixed.losses == of_any.losses);
  CHECK(outcome.weights_sha256 == expected.weights_sha256);
  // 50 rows are no multiple of 6 x 4 shards, and the padding must not count.
  CHECK(outcome.validation->loss == Approx(expected.validation->loss).epsilon(1e-5));
  CHECK(outcome.validation->accuracy == expected.validation->accuracy);
  for (const int64_t rows : {1, 6, 50}) {
    const Tensor output = predicted(fixed, rows), same = predicted(any, rows);
    REQUIRE(output.shape() == Shape{rows, 4});
    for (int64_t i = 0; i < output.elements(); ++i) CHECK(output.at(i) == Approx(same.at(i)));
  }
  // The number of workers does not change the evaluation.
  Silent of_two;
  const TrainOutcome two = fixed.train(fixed.job({"steps=8", "num_workers=2"}), "two", of_two, 2);
  CHECK(two.weights_sha256 == outcome.weights_sha256);
  CHECK(two.validation->loss == outcome.validation->loss);
}

TEST_CASE("a fixed batch that steps do not have is refused, with the way out") {
  const SmallJob small(graph_of("12", with_constant(12)));
  const auto refused = [&](const std::vector<std::string>& set) {
    return small.trainer(small.job(set), {}).status().message();
  };
  const std::string message = refused({});
  INFO(message);
  CHECK(message.find("model.onnxtxt': its batch is fixed at 12 rows (Add ") != std::string::npos);
  CHECK(
      message.ends_with("expected global_batch_size / shards to be 12, received 24 / 4; write "
                        "shards: 2, or give its input a batch of any size, such as [N, ...]"));
  CHECK(refused({"global_batch_size=20"}).find("received 20 / 4; give its input") !=
        std::string::npos);
  CHECK(small.trainer(small.job({"shards=2"}), {}).ok());
}

TEST_CASE("rows that fill up the last batch of an evaluation cannot make it NaN") {
  // Divides each row by its sum, which gives NaN for zeros.
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  axes = Constant <value = int64[1] {1}> ()
  s = ReduceSum <keepdims = 1> (f, axes)
  n = Div (f, s)
  y = leat.Dense <units = 4> (n)
}
)");
  Silent watch;
  const TrainOutcome outcome = small.train(small.job({"steps=2"}), "run", watch);
  CHECK(std::isfinite(outcome.validation->loss));
  CHECK(outcome.validation->loss == Approx(watch.losses.back()).epsilon(0.1));
}

}  // namespace leat
