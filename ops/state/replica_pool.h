// Who computes what, and what counts, when a step is closed by the first N of M replicas.
//
// The rows of a job are cut into chunks: a step takes N of them, a replica computes one at a time.
// A replica draws a chunk for the newest open step, and arrives when its gradients are where they
// are to be summed. The N-th arrival closes the step: those N count, whatever else was drawn for it
// is dropped, and the next step is open. So a straggler leaves a step that was closed without it.
//
// Requeue: what is dropped is drawn again, before anything new. No chunk beyond the steps that are
// allowed is ever drawn, so that when these are closed, exactly their chunks have counted, each
// once. Where that leaves no new chunk for the last steps, replicas that have none compute again
// what the last ones have not brought yet; what comes first counts.
//
// Drop: a step takes M new chunks of the data, step x M + 0, 1, ... as they are drawn, and N of
// them count.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "devices/core/device.h"
#include "ops/state/resources.h"

namespace leat {

// Owned by JobResources. It never makes a thread wait: what cannot go on says when to try again.
// It allocates nothing after it was made. Threads: any, at the same time.
class ReplicaPool final : public Resource {
 public:
  struct Options {
    int64_t replicas = 1;  // M
    int64_t quorum = 1;    // N
    bool requeue = true;
    bool operator==(const Options&) const = default;
  };
  struct Ticket {
    int64_t step = -1;
    int64_t chunk = 0;
    bool arrived = false;
  };
  struct Closed {
    Status status;
    int64_t dropped = 0;  // chunks that were drawn for the step and did not count
  };

  // REQUIRES: 1 <= quorum <= replicas.
  explicit ReplicaPool(const Options& options);

  std::string_view kind() const override { return "replica pool"; }
  const Options& options() const { return options_; }
  // Whoever uses it joins first. With the first one the pool begins anew, at step `first`.
  void join(int64_t first);
  void leave();

  // Gives `replica` a chunk. False: not before events() reaches `await`.
  // REQUIRES of all below: the caller has joined, 0 <= replica < replicas.
  bool draw(int64_t replica, Ticket& ticket, uint64_t& await);
  // The chunk that `replica` drew last is computed. Too late is not an error.
  void arrive(int64_t replica);
  // Closes `step`, and writes who counts to members[0, N), ascending by chunk. Steps below `limit`
  // are allowed. False: not before events() reaches `await`. A step that is not the open one is
  // internal.
  bool close(int64_t step, int64_t limit, int64_t* members, Closed& closed, uint64_t& await);
  // Is the step closed that `replica` drew for last? False: not before events() reaches `await`.
  bool missed(int64_t replica, uint64_t& await);

  // Rises with every change that may let somebody go on.
  Timeline& events() { return events_; }

 private:
  // All REQUIRE that the lock is held.
  bool choose_chunk(int64_t& chunk);
  bool choose_straggling(int64_t& chunk) const;
  bool brought(int64_t chunk) const;
  void count_members(int64_t* members);
  int64_t give_back();

  const Options options_;
  Timeline events_;
  std::mutex mutex_;
  uint64_t version_ = 0;  // of the last change; events_ follows it outside the lock
  int users_ = 0;
  int64_t step_ = 0;   // the open one
  int64_t limit_ = 0;  // steps below are allowed
  int64_t next_ = 0;   // requeue: the first chunk that was never drawn; drop: drawn in this step
  std::vector<Ticket> tickets_;    // by replica: the last one drawn
  std::vector<int64_t> arrived_;   // replicas that count for the open step, in order of arrival
  std::vector<int64_t> returned_;  // chunks to draw again, ascending
  std::vector<int64_t> counted_;   // chunks of the step being closed, ascending
};

}  // namespace leat
