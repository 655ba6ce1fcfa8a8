// What a training has in hand while it runs. Internal to the trainer.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/training/trainer.h"

namespace leat {

// Whether a step that takes long goes on is for others to say: on a cluster the master sees what
// each worker computes (daemon/jobs/membership.h). This is no more than an end of all patience.
constexpr auto kPatience = std::chrono::hours(30 * 24);
// How often a wait looks whether it is to stop.
constexpr auto kStopPoll = std::chrono::milliseconds(100);

// The moment at which a wait that begins now gives up.
inline std::chrono::steady_clock::time_point last_moment() {
  return std::chrono::steady_clock::now() + kPatience;
}

// The position of a training in an epoch.
struct Trainer::Progress {
  int64_t epoch = 1;
  int64_t epoch_begin = 0;                           // steps of the job before the epoch
  StepResult last = {kNoNumber, {}, kNoNumber, {}};  // with the means over the epoch
  double loss_sum = 0, accuracy_sum = 0;
  int64_t averaged = 0;      // steps that these are the sums of
  int64_t consumed = 0;      // of the epoch, skipped ones too
  double seconds = 0;        // spent training, over all epochs
  double seconds_begin = 0;  // before the epoch
  int64_t trained_begin = 0;
  double dropped = 0;   // chunks that came too late, over all epochs
  int64_t trained = 0;  // steps of this process

  // Adds what a step of the epoch gave. The means leave out what was skipped.
  void add(double loss, std::optional<double> accuracy, bool skipped) {
    if (!skipped) {
      loss_sum += loss;
      accuracy_sum += accuracy.value_or(0);
      ++averaged;
    }
    ++consumed;
    const double n = static_cast<double>(averaged);
    last = {loss, accuracy, computed(loss_sum / n), {}};
    if (accuracy) last.mean_accuracy = computed(accuracy_sum / n);
  }

  // The rate of steps between two moments while it trains, about once a second.
  std::chrono::steady_clock::time_point rated_at{};
  int64_t rated = 0;  // steps of this process then
};

// What workers hold of the steps below one.
struct Trainer::Memory {
  int64_t step = 0;
  std::string holder;                           // one of them, for people
  std::vector<bool> holds;                      // by worker: all of its variables, at that step
  std::map<int64_t, std::vector<double>> rows;  // by step: its fetches
};

}  // namespace leat
