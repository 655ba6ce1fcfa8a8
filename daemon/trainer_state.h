// What a training has in hand while it runs. Internal to the trainer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/trainer.h"

namespace leat {

// Sums over the epoch so far.
struct Trainer::Progress {
  int64_t epoch = 1;
  int64_t epoch_begin = 0;  // steps of the job before the epoch
  double loss_sum = 0, accuracy_sum = 0;
  int64_t consumed = 0;  // steps of this epoch
  double seconds = 0;    // spent training, over all epochs
  double dropped = 0;    // chunks that came too late, over all epochs
  int64_t trained = 0;   // steps of this process
};

// What workers hold of the steps below one.
struct Trainer::Memory {
  int64_t step = 0;
  std::string holder;                           // one of them, for people
  std::vector<bool> holds;                      // by worker: all of its variables, at that step
  std::map<int64_t, std::vector<double>> rows;  // by step: its fetches
};

}  // namespace leat
