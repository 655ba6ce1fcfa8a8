#include "daemon/cli/checkpoint_model.h"

#include "daemon/training/run_folder.h"
#include "devices/base/text.h"
#include "scheduler/recipes/optimizer.h"

namespace leat {

Result<Model> model_of(CheckpointSource& source, const CheckpointSource::Found& found,
                       const Manifest& manifest, std::string run, const Catalogue& catalogue) {
  if (run.empty()) {
    LEAT_ASSIGN_OR_RETURN(run, source.run_of(found));
  }
  if (run.empty()) {
    return failed_precondition(cat("'", found.shown,
                                   "': expected a checkpoint in its run's folder, which has the "
                                   "graph; name that folder with --run"));
  }
  LEAT_ASSIGN_OR_RETURN(const Job job, load_run_job(real_files(), run));
  return load_model(real_files(), catalogue, job.model, manifest.every_float, !job.program);
}

bool is_weight(std::string_view name) { return !name.starts_with(kOptimizerPrefix); }

}  // namespace leat
