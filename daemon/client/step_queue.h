// The steps of a lasting session that wait in its client.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

struct RemoteStepState;

// Owns a thread, which asks for one step after the other, in the order of add(): a lasting session
// takes the next one only when it has the one before. Threads: any.
class StepQueue {
 public:
  using State = std::shared_ptr<RemoteStepState>;
  // Asks for a step, and returns its fetches or the error with which it ended. Called on the
  // thread.
  using Run = std::function<Result<std::vector<Tensor>>(const State&)>;

  explicit StepQueue(Run run) : run_(std::move(run)), thread_([this] { work(); }) {}
  // Ends the steps that wait with `cancelled`, and waits for the one that is being asked for.
  ~StepQueue();
  StepQueue(const StepQueue&) = delete;
  StepQueue& operator=(const StepQueue&) = delete;

  // The step ends by RemoteStepState::finish(). resource_exhausted if 4,096 wait.
  Status add(const State& state);
  // Waits until all steps that were added are over: deadline_exceeded if that takes longer.
  Status await_all(std::chrono::steady_clock::time_point deadline);

 private:
  void work();

  const Run run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<State> waiting_;
  bool stop_ = false;
  bool busy_ = false;  // a step is being asked for
  std::thread thread_;
};

}  // namespace leat
