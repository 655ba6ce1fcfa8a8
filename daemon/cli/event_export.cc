#include "daemon/cli/event_export.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/cli/checkpoint_model.h"
#include "daemon/cli/checkpoint_source.h"
#include "daemon/cli/run_files.h"
#include "daemon/curves/event_file.h"
#include "daemon/curves/graph_def.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/run_weights.h"
#include "daemon/training/step_gradients.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"

namespace leat {
namespace {

using Found = CheckpointSource::Found;
using Extent = CheckpointSource::Extent;

// The graph of the run that the newest checkpoint belongs to, as it evaluates.
Result<std::string> graph_of(CheckpointSource& source) {
  const Found& newest = source.checkpoints().front();
  LEAT_RETURN_IF_ERROR(source.bring(newest, Extent::manifest));
  LEAT_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(real_files(), newest.path));
  const Catalogue catalogue = standard_catalogue();
  LEAT_ASSIGN_OR_RETURN(const Model model, model_of(source, newest, manifest, "", catalogue));
  return graph_def(model.inference);
}

// The distributions of the weights of one checkpoint.
Status add_weights(CheckpointSource& source, const Found& found, EventFile& events) {
  LEAT_RETURN_IF_ERROR(source.bring(found, Extent::whole));
  LEAT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, read_checkpoint(run_files(), found.path));
  for (const auto& [name, value] : checkpoint.variables) {
    if (is_weight(name))
      events.add_histogram(cat("weights/", name), checkpoint.manifest.step, histogram_of(value));
  }
  return {};
}

// The distributions of the gradients in the step after each checkpoint.
class GradientEvents {
 public:
  GradientEvents(const MetricsCommand& command, CheckpointSource& source, EventFile& events)
      : command_(command), source_(source), events_(events), catalogue_(standard_catalogue()) {}

  Status add(const Found& found) {
    LEAT_RETURN_IF_ERROR(source_.bring(found, Extent::whole));
    LEAT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, read_checkpoint(run_files(), found.path));
    if (!steps_) LEAT_RETURN_IF_ERROR(open(found, checkpoint.manifest.every_float));
    const int64_t step = checkpoint.manifest.step;
    LEAT_ASSIGN_OR_RETURN(const Variables gradients, steps_->compute(checkpoint.variables, step));
    for (const auto& [name, value] : gradients)
      events_.add_histogram(cat("gradients/", name), step, histogram_of(value));
    return {};
  }

 private:
  Status open(const Found& found, bool every_float) {
    LEAT_ASSIGN_OR_RETURN(const std::string run, source_.run_of(found));
    if (run.empty()) {
      return failed_precondition(cat("'", found.shown,
                                     "': expected the checkpoint of a run, whose job file says "
                                     "what is computed, found no job file beside it"));
    }
    JobOverrides overrides;
    overrides.set = command_.set;
    LEAT_ASSIGN_OR_RETURN(Job job, load_run_job(real_files(), run, overrides));
    LEAT_ASSIGN_OR_RETURN(
        steps_, StepGradients::create(catalogue_, real_files(), std::move(job), every_float, 0));
    return {};
  }

  const MetricsCommand& command_;
  CheckpointSource& source_;
  EventFile& events_;
  const Catalogue catalogue_;
  std::unique_ptr<StepGradients> steps_;
};

// The values that the graph of the run has saved there: see docs/job.md, Summaries.
constexpr const char* kSummaries = "saved/summaries";

// The numbers, and the distributions, in one file of summaries.
Status add_summaries(Files& files, const std::string& path, EventFile& events) {
  LEAT_ASSIGN_OR_RETURN(const RunWeights content, read_weights_of_file(files, path));
  if (!content.step) {
    return invalid_argument(
        cat("'", path, "': expected a file of leat.Save, which says its step, found none"));
  }
  for (const auto& [name, value] : content.values) {
    if (value.elements() == 1) {
      events.add_number(cat("summaries/", name), *content.step, value.at(0));
    } else {
      events.add_histogram(cat("summaries/", name), *content.step, histogram_of(value));
    }
  }
  return {};
}

Status add_summaries(RunSource& run, EventFile& events) {
  LEAT_ASSIGN_OR_RETURN(const auto names, run.files_in(kSummaries));
  LEAT_ASSIGN_OR_RETURN(RunFolder folder, run_folder(run.folder()));
  const auto files = files_of_runs(RunFolders({std::move(folder)}));
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    LEAT_ASSIGN_OR_RETURN(const std::string path, run.bring(name));
    LEAT_RETURN_IF_ERROR(add_summaries(*files, path, events));
  }
  return {};
}

int add_of_checkpoints(const MetricsCommand& command, EventFile& events) {
  CheckpointSource source(command.cluster);
  if (const int code = source.open(command.name); code != kExitOk) return code;
  if (command.graph) {
    const auto graph = graph_of(source);
    if (!graph.ok()) return source.report(source.checkpoints().front(), graph.status());
    events.add_graph(*graph);
  }
  GradientEvents gradients(command, source, events);
  // In the order of the steps: the list begins with the newest.
  for (auto found = source.checkpoints().rbegin(); found != source.checkpoints().rend(); ++found) {
    Status added = command.histograms ? add_weights(source, *found, events) : Status();
    if (added.ok() && command.gradients) added = gradients.add(*found);
    if (!added.ok()) return source.report(*found, added);
  }
  return kExitOk;
}

}  // namespace

// All events have the time at which the log was last written.
int export_events(const MetricsCommand& command, RunSource& run, const MetricsTable& table) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  const auto log = run.bring("metrics.jsonl");
  if (!log.ok()) return run.report(log.status());
  std::error_code error;
  const auto written = std::filesystem::last_write_time(*log, error);
  const auto at = std::chrono::file_clock::to_sys(written).time_since_epoch();
  EventFile events(error ? 0 : std::chrono::duration<double>(at).count());
  events.add_numbers(table);
  if (const Status added = add_summaries(run, events); !added.ok()) return run.report(added);
  if (command.graph || command.histograms || command.gradients) {
    if (const int code = add_of_checkpoints(command, events); code != kExitOk) return code;
  }
  const std::string folder = cat(command.tensorboard, "/", run.shown());
  const std::string path = cat(folder, "/", kEventFileName);
  Status done = real_files().make_directories(folder);
  if (done.ok())
    done = write_file_atomically(real_files(), path, std::as_bytes(std::span(events.bytes())));
  if (!done.ok()) return report(done, command.cluster.color);
  std::puts(path.c_str());
  return kExitOk;
}

}  // namespace leat
