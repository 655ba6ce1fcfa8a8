#include "daemon/training/training_parts.h"

#include <utility>

#include "daemon/training/train_specs.h"

namespace leat {

const Clock& training_clock() {
  static const RealClock clock;
  return clock;
}

int64_t workers_of_training(const Job& job, const TrainOptions& options) {
  return options.workers > 0 ? options.workers : job.num_workers;
}

namespace {

TrainingParts parts_of(const Catalogue& catalogue, Files& files, const Job& job,
                       const TrainOptions& options, HostGroup& hosts, const TrainingInput& input,
                       TrainingLength length, TrainSpec spec) {
  const int64_t workers = workers_of_training(job, options);
  return {catalogue,      files, training_clock(), job,    options,
          hosts,          input, workers,          length, training_rules(job, workers),
          std::move(spec)};
}

}  // namespace

TrainingParts training_parts(const Catalogue& catalogue, Files& files, const Job& job,
                             const TrainOptions& options, HostGroup& hosts,
                             const TrainingInput& input) {
  // The length depends on the rows of the data, so it is known only after the headers were read.
  const TrainingLength length = training_length(job, epoch_rows(job, input.train.info));
  return parts_of(catalogue, files, job, options, hosts, input, length,
                  train_spec(job, input.train, length.steps));
}

TrainingParts evaluation_parts(const Catalogue& catalogue, Files& files, const Job& job,
                               const TrainOptions& options, HostGroup& hosts,
                               const TrainingInput& input, const FoundDataset& data) {
  return parts_of(catalogue, files, job, options, hosts, input, TrainingLength{},
                  train_spec(job, data, 1));
}

}  // namespace leat
