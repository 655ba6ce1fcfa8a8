// The assignment of work to replicas, and the choice of the gradients that count, if a step is
// closed by the first N of M replicas.
//
// The rows of a job are cut into chunks: a step takes N of them, and a replica computes one at a
// time. A replica draws a chunk for the newest open step, and arrives when its gradients are stored
// at the place of the sum. The N-th arrival closes the step: these N chunks count, all other chunks
// drawn for the step are dropped, and the next step opens. A slow replica therefore leaves a step
// that was closed without it.
//
// Policy requeue: a dropped chunk is drawn again, before any new one. No chunk beyond those of the
// allowed steps is drawn, so that after these steps exactly their chunks have counted, each once.
// If no new chunk is left for the last steps, replicas without one compute a chunk that another
// replica has not delivered yet; the first to arrive with it counts.
//
// Policy drop: a step takes M new chunks of the data, step x M + 0, 1, ... in the order in which
// replicas draw them, and N of them count.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "devices/core/device.h"
#include "ops/state/resources.h"

namespace leat {

// JobResources owns it. It never blocks a thread: a call that must wait returns when to try again.
// It allocates nothing after its construction. Threads: any, at the same time.
class ReplicaPool final : public Resource {
 public:
  struct Options {
    int64_t replicas = 1;  // M
    int64_t quorum = 1;    // N
    bool requeue = true;
    bool operator==(const Options&) const = default;
  };
  // The work of one replica: chunk number `chunk` of the data, counted from 0 over the whole job,
  // for step `step`; -1 before the first draw.
  struct Ticket {
    int64_t step = -1;
    int64_t chunk = 0;
    bool arrived = false;
  };
  struct Closed {
    Status status;
    int64_t dropped = 0;  // chunks that were drawn for the step but do not count
  };

  // REQUIRES: 1 <= quorum <= replicas.
  explicit ReplicaPool(const Options& options);

  std::string_view kind() const override { return "replica pool"; }
  const Options& options() const { return options_; }
  // Every user joins first. The first user restarts the pool at step `first`, with no chunk drawn
  // and no step allowed; the others join a pool that is in use, and `first` has no effect. A kernel
  // joins in its first step and leaves in its destructor: a job that is rebuilt from a checkpoint
  // therefore continues at the checkpoint's step.
  void join(int64_t first);
  // Ends the use; once for each join().
  void leave();

  // Assigns a chunk of the open step to `replica`, which draws at most one in each step. False: the
  // step is not allowed yet, the replica has drawn in it, or no chunk is left; try again when
  // events() reaches `await`. REQUIRES, for this and all functions below: the caller has joined,
  // and 0 <= replica < replicas.
  bool draw(int64_t replica, Ticket& ticket, uint64_t& await);
  // Reports that the chunk that `replica` drew last is computed. A late arrival is no error.
  void arrive(int64_t replica);
  // Closes `step` and writes the replicas that count to members[0, N), ascending by chunk. Steps
  // below `limit` are allowed. False: try again when events() reaches `await`. The error is
  // internal if the step is not the open one.
  bool close(int64_t step, int64_t limit, int64_t* members, Closed& closed, uint64_t& await);
  // Returns true if the step of the last chunk of `replica` is closed. False: try again when
  // events() reaches `await`.
  bool missed(int64_t replica, uint64_t& await);

  // A timeline that rises with every change after which a blocked call may succeed.
  Timeline& events() { return events_; }

 private:
  // These REQUIRE that the caller holds the lock.
  bool choose_chunk(int64_t& chunk);
  bool choose_straggling(int64_t& chunk) const;
  bool brought(int64_t chunk) const;
  void count_members(int64_t* members);
  int64_t give_back();

  const Options options_;
  Timeline events_;
  std::mutex mutex_;
  uint64_t version_ = 0;  // of the last change; events_ is set to it outside the lock
  int users_ = 0;
  int64_t step_ = 0;   // the open step
  int64_t limit_ = 0;  // steps below are allowed
  int64_t next_ =
      0;  // requeue: the first chunk that was never drawn; drop: the number drawn in this step
  std::vector<Ticket> tickets_;    // by replica: its last ticket
  std::vector<int64_t> arrived_;   // replicas that count for the open step, in order of arrival
  std::vector<int64_t> returned_;  // chunks to draw again, ascending
  std::vector<int64_t> counted_;   // chunks of the step being closed, ascending
};

}  // namespace leat
