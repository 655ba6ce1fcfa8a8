// The number of steps and epochs of a job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/spec/job.h"

namespace leat {

// Threads: a value.
struct TrainingLength {
  // The records of the training data: an epoch has so many.
  int64_t records = 0;
  // The records that a step takes, over all of its shards. At least 1.
  int64_t rows_per_step = 1;
  // The last step of the job, counted from 1; also the number of its steps.
  int64_t steps = 0;
  // The epochs that the steps touch; the last one may be cut short.
  int64_t epochs = 1;
  // The steps of an epoch, if the job names them; 0: those of a pass over the data.
  int64_t steps_per_epoch = 0;

  // The steps until an epoch (counted from 1) has ended. Batches continue across epochs: an epoch
  // ends with the step that takes its last record. 0 for epoch 0. Several epochs may end with the
  // same step if they have fewer records than a step takes.
  int64_t until_epoch(int64_t epoch) const {
    if (steps_per_epoch > 0) return epoch * steps_per_epoch;
    return (epoch * records + rows_per_step - 1) / rows_per_step;
  }
  // The same, but not beyond the job's last step.
  int64_t end_of(int64_t epoch) const { return std::min(steps, until_epoch(epoch)); }
};

// A job names its steps or its epochs; the function computes the other. `records`: greater than 0.
// If the job names both, both stay as they are. A job without data, a program, has `records` 0: all
// of its steps are one epoch.
inline TrainingLength training_length(const Job& job, int64_t records) {
  if (!job.has_data()) records = job.steps * job.rows_per_step();
  TrainingLength length{records, job.rows_per_step(), job.steps, job.epochs, job.steps_per_epoch};
  if (length.steps <= 0) length.steps = length.until_epoch(job.epochs);
  if (length.epochs == 0) {
    length.epochs = 1;
    while (length.until_epoch(length.epochs) < length.steps) ++length.epochs;
  }
  return length;
}

}  // namespace leat
