#include "daemon/training/training_parts.h"

#include "daemon/training/train_specs.h"

namespace leat {

const Clock& training_clock() {
  static const RealClock clock;
  return clock;
}

int64_t workers_of_training(const Job& job, const TrainOptions& options) {
  return options.workers > 0 ? options.workers : job.num_workers;
}

TrainingParts training_parts(const Catalogue& catalogue, Files& files, const Job& job,
                             const TrainOptions& options, HostGroup& hosts,
                             const TrainingInput& input) {
  const int64_t workers = workers_of_training(job, options);
  // The length depends on the rows of the data, so it is known only after the headers were read.
  const TrainingLength length = training_length(job, epoch_rows(job, input.train.info));
  return {catalogue,
          files,
          training_clock(),
          job,
          options,
          hosts,
          input,
          workers,
          length,
          training_rules(job, workers),
          train_spec(job, input.train, length.steps)};
}

}  // namespace leat
