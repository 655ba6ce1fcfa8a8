#include "daemon/training/predict_data.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "daemon/hosts/local_hosts.h"
#include "daemon/training/evaluator.h"
#include "daemon/training/job_transforms.h"
#include "daemon/training/model.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "scheduler/graph/data_binding.h"

namespace leat {
namespace {

constexpr auto kPredictDeadline = std::chrono::seconds(120);

// The spec of the graph: one shard, which reads `rows` rows in a step.
TrainSpec predict_spec(const Job& job, const DatasetFiles& data, const FoundDataset& found,
                       int64_t rows) {
  TrainSpec spec = train_spec(job, found, 1);
  spec.program.reset();
  spec.input.reader = reader_attrs(data, found, false, 0);
  spec.global_batch = rows;
  spec.shards = 1;
  return spec;
}

// The file of each column, for messages; none if the columns are parts of others.
std::map<std::string, std::string> named_files(const DatasetFiles& data) {
  std::map<std::string, std::string> files;
  if (!data.columns.empty()) return files;
  for (const std::string& each : data.files) {
    if (const auto named = parse_named_file(each); named.ok()) files.insert(*named);
  }
  return files;
}

// Runs the steps, a few ahead of the sink, and passes their rows on.
Status pass_rows(PlanRun& run, int64_t count, int64_t each, PredictionSink& sink,
                 const std::function<bool()>& stop) {
  const int64_t steps = (count + each - 1) / each;
  for (int64_t s = 0; s < steps; ++s) {
    if (stop()) return cancelled("the prediction was told to end");
    run.extend(static_cast<uint64_t>(std::min(steps, s + static_cast<int64_t>(run.window()))));
    const auto step = static_cast<uint64_t>(s);
    LEAT_RETURN_IF_ERROR(run.wait(step, std::chrono::steady_clock::now() + kPredictDeadline)
                             .while_doing("predicting"));
    // The last step may have fewer rows of the data than the others.
    LEAT_RETURN_IF_ERROR(sink.take(run.fetched(0, step), std::min(each, count - s * each)));
  }
  return {};
}

}  // namespace

Status predict_data(const Catalogue& catalogue, Files& files, const Job& of_run,
                    const RunWeights& weights, const DatasetFiles& data, PredictionSink& sink,
                    const std::function<bool()>& stop) {
  const Job job = on_one_host(of_run);
  LEAT_ASSIGN_OR_RETURN(Model loaded,
                        load_model(files, catalogue, job.model, weights.every_float, !job.program));
  Graph& model = loaded.inference;
  if (model.inputs().empty())
    return invalid_argument(cat(job.model.graph, ": expected a model with an input"));
  // All of it here, wherever it was trained.
  for (NodeId id = 0; id < model.nodes(); ++id) model.node(id).device.clear();
  const auto hosts = make_local_hosts(1, cpu::usable_cores(), files);
  HostHandle& host = *hosts->hosts()[0];
  host.set_data_root(job.name, data.root);
  LEAT_ASSIGN_OR_RETURN(const DatasetReport report, host.inspect(data, {}));
  const FoundDataset found{report.info, report.files};
  // The graph would bind the columns in the same way, but its errors know no files.
  LEAT_ASSIGN_OR_RETURN(const std::vector<ColumnInfo> columns,
                        columns_behind_transforms(job, model, found.info.columns, false));
  LEAT_RETURN_IF_ERROR(bind_columns(model, columns, job.model.inputs, named_files(data)).status());
  const int64_t each =
      loaded.batch.fixed.value_or(std::min(evaluation_rows(model, 1), report.info.count));
  LEAT_ASSIGN_OR_RETURN(JobGraph graph,
                        make_predict_data_graph(model, predict_spec(job, data, found, each)));
  PlanOptions options;
  options.name = "predict";
  LEAT_ASSIGN_OR_RETURN(auto plan, hosts->compile(std::move(graph), options));
  Shape shape = plan->fetches[0].shape;
  if (shape.rank() == 0 || shape[0] != each)
    return invalid_argument(
        cat(job.model.graph, ": expected an output with a row for each input row"));
  LEAT_ASSIGN_OR_RETURN(auto run, hosts->run(plan, job.name, {"predict", job.seed, 0}));
  LEAT_RETURN_IF_ERROR(host.write_variables(job.name, weights.values, Restore::superset, {})
                           .while_doing(cat("loading ", weights.path)));
  shape.set(0, report.info.count);
  LEAT_RETURN_IF_ERROR(sink.begin(plan->fetches[0].dtype, shape));
  return pass_rows(*run, report.info.count, each, sink, stop);
}

}  // namespace leat
