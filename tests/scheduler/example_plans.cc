#include "tests/scheduler/example_plans.h"

#include <fstream>
#include <sstream>

#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "scheduler/train_graph.h"
#include "tests/small_cnn.h"

namespace leat {
namespace {

JobGraph train_graph(int shards, const std::string& directory) {
  const Graph model = must(expand_layers(
      must(parse_graph(small_cnn("small", false), scheduler_catalogue(), "small.onnxtxt"))));
  TrainSpec spec;
  spec.input.reader = {{"format", std::string("npy")},
                       {"features", directory + "x.npy"},
                       {"labels", directory + "y.npy"},
                       {"record_shape", std::vector<int64_t>{1, 8, 8}}};
  spec.input.rescale = 0.5;
  spec.optimizer.momentum = 0.9;
  spec.global_batch = 32;
  spec.shards = shards;
  return must(make_train_graph(model, spec));
}

constexpr int kShards = 4;

JobGraph shipped_graph(const std::string& model, JobStep step, DType precision) {
  std::ifstream in(std::string(LEAT_SOURCE_DIR) + "/configs/graphs/" + model + ".onnxtxt");
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  const Graph graph =
      must(expand_layers(must(parse_graph(text.str(), scheduler_catalogue(), model))));
  TrainSpec spec;
  spec.input.reader = {{"format", std::string("idx")},
                       {"features", std::string("x.gz")},
                       {"labels", std::string("y.gz")},
                       {"record_shape", std::vector<int64_t>{28, 28}}};
  spec.input.rescale = 1.0 / 255;
  spec.optimizer.kind = OptimizerKind::adam;
  spec.schedule.kind = ScheduleKind::cosine;
  spec.schedule.warmup_steps = 100;
  spec.schedule.decay_steps = 1000;
  spec.global_batch = 128;
  spec.shards = kShards;
  spec.precision = precision;
  if (step == JobStep::train) return must(make_train_graph(graph, spec));
  if (step == JobStep::init) return must(make_init_graph(graph, precision));
  if (step == JobStep::eval) return must(make_eval_graph(graph, spec));
  return must(make_predict_graph(graph, 16, precision));
}

Plan compile_on(const JobGraph& graph, const std::string& name, int shards, int workers,
                const std::string& strategy = "mirrored", int servers = 1) {
  CompileRequest request;
  request.name = name;
  request.borders = graph.borders();
  request.devices = device_names(workers);
  request.strategy = strategy;
  request.shards = shards;
  request.servers = servers;
  return must(compile(graph.graph, request));
}

}  // namespace

Plan small_plan(int shards, int workers, const std::string& directory) {
  return compile_on(train_graph(shards, directory), "small", shards, workers);
}

Plan small_server_plan(int shards, int workers, int servers, const std::string& directory) {
  return compile_on(train_graph(shards, directory), "small", shards, workers, "parameter_server",
                    servers);
}

Plan shipped_plan(const std::string& model, JobStep step, int workers, DType precision) {
  return compile_on(shipped_graph(model, step, precision), model, kShards, workers);
}

}  // namespace leat
