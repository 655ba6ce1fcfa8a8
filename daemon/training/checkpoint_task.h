// One checkpoint of a training while it is written. The hosts copy their variables between two
// steps, or have copied them in passing; threads of the task do all the rest beside the steps.
//
// Each host has a share of the variables, which becomes a part of the checkpoint. A host that sees
// the master's disk writes its part there itself; the master reads the parts of the others.
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
#include "daemon/checkpoint/prefix_hash.h"
#include "daemon/checkpoint/signing_key.h"
#include "daemon/hosts/host_handle.h"
#include "devices/base/files.h"

namespace leat {

// The variables that one host contributes to a checkpoint. Each share becomes one part.
struct CheckpointShare {
  // Not null in a share of share_out().
  HostHandle* worker = nullptr;
  // Ascending. Empty only if the job has no variables.
  std::vector<std::string> names;
};

// Gives each variable to one of the hosts that hold it, so that all hosts have about as many bytes.
// `holds`: the names of the variables, by device. `bytes`: by variable. Hosts without a variable
// get no share, but there is at least one share. The largest variable is given away first, each to
// its holder with the fewest bytes so far; among equals the first host wins. The result depends
// only on the arguments.
std::vector<CheckpointShare> share_out(const std::vector<HostHandle*>& workers,
                                       const std::map<std::string, std::set<std::string>>& holds,
                                       const std::map<std::string, uint64_t>& bytes);

// The content of a checkpoint, and its place.
struct CheckpointOrder {
  Files* files = nullptr;
  std::string folder;
  // The newest so many checkpoints stay in the folder; older ones are removed after this one is
  // written.
  int64_t keep = 1;
  std::string job;  // as hosts know it
  std::vector<CheckpointShare> shares;
  bool hosts_write = true;  // a host that sees the disk writes its part itself
  // True if the hosts have copied the variables in passing, after the step of the manifest.
  bool taken = false;
  // True if no step runs until the task is done and the hosts have dropped their snapshots: they
  // then lend their variables in place of copies.
  bool lends = false;
  // The task adds the parts, the hash of the metrics, and the signature.
  Manifest manifest;
  // Signs the manifest; null: it stays without a signature.
  std::shared_ptr<const SigningKey> key;
  // Of the metrics' file; null: the manifest has no hash of it. Used on another thread.
  std::shared_ptr<PrefixHash> metrics;
  // Writes everything that must be on the disk before the manifest. Called on another thread.
  std::function<Status()> first;
};

// Checkpointer owns it until it has collected the outcome. Phases: snapshots on the caller's
// thread; then, on a thread of low priority, parts, `first`, the manifest, and the removal of old
// checkpoints. A crash at any moment leaves either the whole checkpoint or a leftover that the next
// one removes.
// Threads: one; it has threads of its own.
class CheckpointTask {
 public:
  // Takes the snapshots, on all hosts at once: the next step may begin when the call returns. The
  // objects that the order points to outlive the task. REQUIRES: if the snapshots are not taken
  // yet, no step is in flight.
  static Result<std::unique_ptr<CheckpointTask>> begin(CheckpointOrder order);
  // Stops writing, without waiting for hosts. A checkpoint that is not whole yet is removed.
  ~CheckpointTask();
  CheckpointTask(const CheckpointTask&) = delete;
  CheckpointTask& operator=(const CheckpointTask&) = delete;

  int64_t step() const { return order_.manifest.step; }
  // Does not block.
  bool done() const;
  // Waits for the end. A checkpoint that failed leaves nothing behind, and the checkpoints before
  // it stay as they were. May be called again. The wait is bounded by the deadlines of the calls to
  // hosts; only the disk can make it longer. resource_exhausted if the disk is full.
  Result<Manifest> outcome();
  // The error of removing older checkpoints, once the task is done.
  const Status& tidied() const { return tidied_; }
  // The new path of a file that stood in the place of the folder, once the task is done; "" if none
  // did.
  const std::string& what_was_set_aside() const { return set_aside_; }

 private:
  explicit CheckpointTask(CheckpointOrder order) : order_(std::move(order)) {}
  // On all hosts at once; returns the first failure in the order of the shares.
  Status take_snapshots();
  // The work of the thread.
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
