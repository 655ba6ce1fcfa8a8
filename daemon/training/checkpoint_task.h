// One checkpoint of a training while it is written, beside the steps: its snapshots are taken at a
// fence, or have been taken by workers in passing; all else is done on threads of its own.
//
// Each worker has a share of the variables, which is a part of the checkpoint. One that sees the
// master's disk writes it there itself; from others the master reads it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "daemon/hosts/host_handle.h"
#include "devices/base/files.h"

namespace leat {

struct CheckpointShare {
  HostHandle* worker = nullptr;
  std::vector<std::string> names;
};

// Gives each variable to one of the workers that hold it, so that all have about as many bytes. At
// least one share; none of nothing beside others.
std::vector<CheckpointShare> share_out(const std::vector<HostHandle*>& workers,
                                       const std::map<std::string, std::set<std::string>>& holds,
                                       const std::map<std::string, uint64_t>& bytes);

// What a checkpoint is of, and where it goes.
struct CheckpointOrder {
  Files* files = nullptr;
  std::string folder;
  int64_t keep = 1;  // of the checkpoints there
  std::string job;   // as workers know it
  std::vector<CheckpointShare> shares;
  bool taken = false;  // the snapshots of the manifest's step
  Manifest manifest;   // but for its parts
  // What has to be on disk before the manifest. Called on another thread.
  std::function<Status()> first;
};

// Threads: one, but for its own.
class CheckpointTask {
 public:
  // Takes the snapshots, on all workers at once: the next step may begin when it returns.
  // REQUIRES: no step is in flight, if they are not taken. What the order names outlives the task.
  static Result<std::unique_ptr<CheckpointTask>> begin(CheckpointOrder order);
  // Gives up what is not yet on disk, without waiting for workers.
  ~CheckpointTask();
  CheckpointTask(const CheckpointTask&) = delete;
  CheckpointTask& operator=(const CheckpointTask&) = delete;

  int64_t step() const { return order_.manifest.step; }
  bool done() const;
  // Waits for the end. Of what failed nothing is left, and checkpoints before it are as they were.
  Result<Manifest> outcome();
  // What was wrong with removing older ones, once it is done.
  const Status& tidied() const { return tidied_; }
  // The new path of a file that stood in the place of the folder, once the task is done; "" if none
  // did.
  const std::string& what_was_set_aside() const { return set_aside_; }

 private:
  explicit CheckpointTask(CheckpointOrder order) : order_(std::move(order)) {}
  Status take_snapshots();
  Result<Manifest> write(const std::stop_token& stop);

  const CheckpointOrder order_;
  Status tidied_;
  std::string set_aside_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Manifest>> outcome_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace leat
