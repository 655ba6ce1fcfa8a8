// Helpers that tests of whole trainings share: a small data set, a job on it, and an observer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/training/trainer.h"
#include "tests/temporary_directory.h"

namespace leat {

// Records the events of a training, and prints nothing.
class Silent : public TrainObserver {
 public:
  void started(int64_t first_step, int64_t) override { first = first_step; }
  void epoch_begun(int64_t, int64_t, int64_t, int64_t) override {}
  void stepped(int64_t, const StepResult& result) override {
    losses.push_back(result.loss);
    last = result;
  }
  void epoch_ended(const EpochResult& result) override {
    ++epochs;
    results.push_back(result);
  }
  void epoch_recalled(const EpochResult& result) override { recalled_results.push_back(result); }
  void checkpointed(int64_t step, const std::string&) override { checkpoints.push_back(step); }
  void warned(const std::string& message) override { warnings.push_back(message); }
  void noted(const std::string& message) override { notes.push_back(message); }
  int64_t first = -1;
  int epochs = 0;
  std::vector<double> losses;
  StepResult last;
  std::vector<EpochResult> results, recalled_results;
  std::vector<int64_t> checkpoints;
  std::vector<std::string> warnings, notes;
};

// A data set of 4 classes that a small network can learn: bright quadrants.
class SmallJob {
 public:
  explicit SmallJob(const std::string& graph);
  std::string path(const std::string& name = "") const {
    return name.empty() ? directory_.path() : directory_ / name;
  }

  // Returns the job. Entries of `set` replace its own.
  Job job(const std::vector<std::string>& set = {}) const;
  // The same with an epoch of 20,000 steps and no validation, because at an epoch's end a job waits
  // for the master and for its disk.
  Job with_endless_epoch(Job job) const;
  TrainOutcome train(
      const Job& job, const std::string& folder, Silent& watch, int threads = 1,
      bool resume = false, const std::function<bool()>& stop = [] { return false; }) const;
  std::string hash(const Job& job, const std::string& folder, int threads = 1) const;
  // Makes a trainer in this process, or on this cluster.
  Result<std::unique_ptr<Trainer>> trainer(Job job, const TrainOptions& options) const;
  Result<std::unique_ptr<Trainer>> trainer(Job job, const TrainOptions& options,
                                           std::unique_ptr<HostGroup> cluster) const;

 private:
  void write(const std::string& name, int64_t count);
  TemporaryDirectory directory_;
};

}  // namespace leat
