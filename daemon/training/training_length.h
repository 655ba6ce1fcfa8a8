// The number of steps and epochs of a job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/spec/job.h"

namespace leat {

// Threads: a value.
struct TrainingLength {
  int64_t records = 0;        // of the training data
  int64_t rows_per_step = 1;  // of them
  int64_t steps = 0;
  int64_t epochs = 1;

  // The steps until an epoch (counted from 1) has ended. Batches continue across epochs: an epoch
  // ends with the step that takes its last record.
  int64_t until_epoch(int64_t epoch) const {
    return (epoch * records + rows_per_step - 1) / rows_per_step;
  }
  // The same, but not beyond the job's last step.
  int64_t end_of(int64_t epoch) const { return std::min(steps, until_epoch(epoch)); }
};

// A job names its steps or its epochs; the function computes the other.
inline TrainingLength training_length(const Job& job, int64_t records) {
  TrainingLength length{records, job.rows_per_step(), job.steps, job.epochs};
  if (length.steps <= 0) length.steps = length.until_epoch(job.epochs);
  if (length.epochs == 0) {
    length.epochs = 1;
    while (length.until_epoch(length.epochs) < length.steps) ++length.epochs;
  }
  return length;
}

}  // namespace leat
