// Plans as golden text: a change of a pass shows as a change of a file that a reviewer reads. After
// one that is meant: LEAT_WRITE_GOLDEN=1 scheduler_tests "[golden]", and look at the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "scheduler/train_graph.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LEAT_SOURCE_DIR) + "/tests/scheduler/golden/" + name;
  if (std::getenv("LEAT_WRITE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream in(path);
  REQUIRE(in.good());
  std::ostringstream golden;
  golden << in.rdbuf();
  CHECK(text == golden.str());
}

constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
small (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 16, kernel = 3, activation = "relu"> (image)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c1)
  f = Flatten (p1)
  logits = leat.Dense <units = 4> (f)
}
)";

JobGraph train_graph(int shards) {
  const Graph model =
      must(expand_layers(must(parse_graph(kModel, scheduler_catalogue(), "small.onnxtxt"))));
  TrainSpec spec;
  spec.input.reader = {{"format", std::string("npy")},
                       {"features", std::string("x.npy")},
                       {"labels", std::string("y.npy")},
                       {"record_shape", std::vector<int64_t>{1, 8, 8}}};
  spec.input.rescale = 0.5;
  spec.optimizer.momentum = 0.9;
  spec.global_batch = 32;
  spec.shards = shards;
  return must(make_train_graph(model, spec));
}

std::string plan_text(int shards, int workers) {
  const JobGraph graph = train_graph(shards);
  CompileRequest request;
  request.name = "small";
  request.borders = graph.borders();
  request.devices = device_names(workers);
  request.strategy = "mirrored";
  request.shards = shards;
  return must(compile(graph.graph, request)).text();
}

}  // namespace

TEST_CASE("the plan of a small network on one worker is as the golden file says", "[golden]") {
  check_golden("small_1_worker.txt", plan_text(1, 1));
}

TEST_CASE("the plan of two mirrored workers is as the golden file says", "[golden]") {
  check_golden("small_2_workers.txt", plan_text(2, 2));
}

}  // namespace leat
