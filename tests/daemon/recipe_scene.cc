#include "tests/daemon/recipe_scene.h"

#include <fstream>
#include <sstream>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {

Tensor noise(const Shape& shape, int64_t seed, double scale) {
  Tensor out(DType::f64, shape);
  for (int64_t k = 0; k < out.elements(); ++k) {
    const int64_t i = k + seed;
    out.set(k, static_cast<double>((i * i * 31 + i * 17 + 7) % 1021 - 510) / 512 * scale);
  }
  return out;
}

Tensor class_labels(const Shape& shape, int64_t count) {
  Tensor out(DType::i64, shape);
  for (int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>((i * i * 5 + i * 3 + i / 4) % count));
  return out;
}

Tensor probabilities(const Shape& shape, int64_t seed) {
  Tensor out = noise(shape, seed);
  const int64_t classes = shape[1];
  int64_t inner = 1;
  for (int d = 2; d < shape.rank(); ++d) inner *= shape[d];
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, out.at(i) + 1.25);
  for (int64_t row = 0; row < shape[0] * inner; ++row) {
    const int64_t first = row / inner * classes * inner + row % inner;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += out.at(first + c * inner);
    for (int64_t c = 0; c < classes; ++c)
      out.set(first + c * inner, out.at(first + c * inner) / sum);
  }
  return out;
}

Tensor with_ignored(Tensor labels) {
  for (int64_t i = 0; i < labels.elements(); i += 5) labels.set(i, -100);
  return labels;
}

Tensor sequence_labels(int64_t rows, int64_t first, bool padded) {
  Tensor labels = class_labels({rows, 2}, 2);
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const bool counts = !padded || i % 2 < i / 2 % 3;
    labels.set(i, counts ? labels.at(i) + static_cast<double>(first) : -1);
  }
  return labels;
}

Tensor as_numbers(const Tensor& labels) {
  Tensor out(DType::f64, labels.shape());
  for (int64_t i = 0; i < labels.elements(); ++i) out.set(i, labels.at(i));
  return out;
}

std::string two_layers(int64_t units, const std::string& end, const std::string& output,
                       const std::string& batch) {
  const bool is_whole = output.find('N') != std::string::npos;
  return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[)",
             batch, ",5] x) => (float[", is_whole ? output : cat(batch, ",", output), R"(] y) {
  h = leat.Dense <activation = "tanh", units = 4> (x)
  )",
             end.empty() ? "y" : "z", " = leat.Dense <units = ", units, "> (h)\n", end, "}\n");
}

std::map<std::string, std::vector<double>> references(const std::string& file) {
  std::ifstream in(std::string(LEAT_SOURCE_DIR) + "/tests/daemon/losses/" + file);
  REQUIRE(in.is_open());
  std::map<std::string, std::vector<double>> out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    std::vector<double>& numbers = out[cat(first, " ", second)];
    for (double number = 0; words >> number;) numbers.push_back(number);
  }
  return out;
}

RecipeScene::RecipeScene(const std::string& graph, int64_t units, int64_t rows,
                         const Tensor* labels)
    : small_(graph), has_labels_(labels != nullptr) {
  const std::string layer = graph.find(" z = ") != std::string::npos ? "z" : "y";
  SafeTensors weights;
  weights.tensors = {{"h/kernel", noise({5, 4}, 1000, 1.5)},
                     {"h/bias", noise({4}, 2000, 0.125)},
                     {layer + "/kernel", noise({4, units}, 3000, 1.5)},
                     {layer + "/bias", noise({units}, 4000, 0.125)}};
  for (auto& [name, tensor] : weights.tensors) {
    Tensor narrow(DType::f32, tensor.shape());
    for (int64_t i = 0; i < tensor.elements(); ++i) narrow.set(i, tensor.at(i));
    tensor = std::move(narrow);
  }
  must(write_safetensors(real_files(), small_.path("first.safetensors"), weights));
  must(write_npy(real_files(), small_.path("x.npy"), noise({rows, 5}, 0)));
  if (has_labels_) must(write_npy(real_files(), small_.path("y.npy"), *labels));
}

std::vector<double> RecipeScene::weights(const std::string& folder) const {
  const auto saved =
      must(read_safetensors(real_files(), small_.path(folder + "/weights.safetensors")));
  std::vector<double> out;
  for (const bool last : {false, true}) {
    for (const char* part : {"/kernel", "/bias"}) {
      for (const auto& [name, tensor] : saved.tensors) {
        if (!name.ends_with(part) || name.starts_with("h/") == last) continue;
        for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(tensor.at(i));
      }
    }
  }
  return out;
}

void RecipeScene::validate_on(int64_t rows, const Tensor& labels) {
  must(write_npy(real_files(), small_.path("vx.npy"), noise({rows, 5}, 0)));
  must(write_npy(real_files(), small_.path("vy.npy"), labels));
  validates_ = true;
}

Job RecipeScene::job(const std::string& loss, std::vector<std::string> set) const {
  const std::string labels = has_labels_ ? ", labels: y.npy" : "";
  std::vector<std::string> all{
      cat("data.train={format: npy, files: {x: x.npy", labels, "}}"),
      validates_ ? "data.validation={format: npy, files: {x: vx.npy, labels: vy.npy}}"
                 : "data.validation=null",
      "data.rescale=1",
      "data.shuffle=false",
      cat("loss=", loss),
      "metrics=[]",
      cat("model.weights=", small_.path("first.safetensors")),
      "optimizer={name: sgd, learning_rate: 0.1}",
      "lr_scheduler={name: constant}",
      "precision=float64",
      "global_batch_size=6",
      "shards=3",
      "steps=50"};
  all.insert(all.end(), set.begin(), set.end());
  return small_.job(all);
}

}  // namespace leat
