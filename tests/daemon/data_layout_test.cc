// Tests the shapes of data and of models' inputs in whole trainings.
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {

TEST_CASE("data of another layout is refused, though it has as many elements") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,3,4,4] x) => (float[N,2,4,3] y) {
  c = leat.Conv2D <filters = 2, kernel = 3> (x)
  y = leat.Conv2D <filters = 2, kernel = [1, 2], padding = "valid"> (c)
}
)");
  const auto write = [&](const std::string& name, const Shape& shape) {
    must(write_npy(real_files(), small.path(name), Tensor(DType::f32, shape)));
  };
  write("x.npy", {48, 4, 4, 3});
  write("good.npy", {48, 3, 4, 4});
  write("y.npy", {48, 4, 3, 2});
  const auto refused = [&](const std::string& features, const std::string& labels) {
    const Job job = small.job(
        {"loss=mse", "metrics=[]", "data.validation=",
         cat("data.train={format: npy, features: ", features, ", labels: ", labels, "}")});
    return small.trainer(job, {}).status().message();
  };
  CHECK(
      refused("x.npy", "y.npy") ==
      "'x.npy': expected records of the shape of a row of float[N,3,4,4], the input 'x', received "
      "float[4,4,3]; its sizes stand in another order: numpy.transpose(array, (0, 3, 1, 2)) has "
      "the model's");
  CHECK(refused("good.npy", "y.npy") ==
        cat("'y.npy': expected labels of the shape of a row of float[N,2,4,3], the output of '",
            small.path("model.onnxtxt"),
            "', received float[4,3,2]; its sizes stand in another order: numpy.transpose(array, "
            "(0, 3, 1, 2)) has the model's"));
}

TEST_CASE("labels in a column name classes as those in a line do") {
  const SmallJob small(kTinyDense);
  Silent line, column;
  const TrainOutcome expected = small.train(small.job({"steps=4"}), "line", line);
  for (const char* name : {"train-y.npy", "val-y.npy"}) {
    const Tensor labels = must(read_npy(real_files(), small.path(name)));
    must(write_npy(real_files(), small.path(name), labels.reshaped({labels.elements(), 1})));
  }
  const TrainOutcome outcome = small.train(small.job({"steps=4"}), "column", column);
  CHECK(outcome.weights_sha256 == expected.weights_sha256);
  CHECK(outcome.validation->accuracy == expected.validation->accuracy);
}

}  // namespace leat
