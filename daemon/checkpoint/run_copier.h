// Copies the checkpoints of a run to another place beside its steps: see run_copy.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/checkpoint/run_copy.h"
#include "daemon/checkpoint/sealed_files.h"
#include "ops/data/stores/store_files.h"

namespace leat {

// The longest time that the end of a job or of a training waits for the copy of what it has left.
inline constexpr std::chrono::minutes kCopyPatience{10};

// A thread of low priority copies the newest checkpoint that it was offered; one that is offered
// while another is copied waits, and is left out if a newer one comes. The training waits for no
// copy but the last one. A copy that fails costs the run nothing: it is a warning, and the next
// checkpoint is tried.
// Threads: any.
class RunCopier {
 public:
  // A run that is new has no checkpoints in the place yet: see RunCopy::expect_none(). One that is
  // resumed is not behind its copy, which would lose the later checkpoints: failed_precondition.
  // One that recovers may be; its copy stays as it is until the run has another checkpoint. Runs of
  // both kinds may have a checkpoint of which there is no copy yet, and it is copied at once.
  enum class Start : uint8_t { is_new, is_resumed, recovers };

  // `files` outlives the copier. Stores are asked as `store` says, and for writing.
  // invalid_argument if one of the two folders is in the other one.
  static Result<std::unique_ptr<RunCopier>> create(Files& files, RunCopyPlaces places, Start start,
                                                   StoreOptions store = {});
  // Gives up a copy under way, within about a second; the checkpoint then has no manifest in its
  // place.
  ~RunCopier();
  RunCopier(const RunCopier&) = delete;
  RunCopier& operator=(const RunCopier&) = delete;

  const std::string& place() const { return places_.to; }
  // The checkpoint of that step is on the run's disk. Does not block.
  void offer(int64_t step);
  // The warnings since the last call. Does not block.
  std::vector<std::string> take_warnings();
  // Waits until the newest checkpoint that was offered, and all other files, are in the place;
  // tries again after a failure that may pass, and returns others. deadline_exceeded, with the last
  // failure, after `patience`; cancelled if `stop` becomes true.
  Status finish(std::chrono::milliseconds patience, const std::function<bool()>& stop);

 private:
  // The files of both places, and the same with the keys of the run.
  struct PlaceFiles {
    std::unique_ptr<Files> plain;
    SealedFiles sealed;
  };
  // Of the copies of checkpoints, and of those of other files.
  struct Failures {
    Status of_step, of_files;
  };
  RunCopier(Files& files, RunCopyPlaces places, StoreOptions store);
  void run();
  // The work of the thread for one wish. REQUIRES: the mutex is not locked.
  Status work(std::optional<int64_t> step);

  const RunCopyPlaces places_;
  std::atomic<bool> stopped_{false};
  const std::unique_ptr<PlaceFiles> files_;
  RunCopy copy_;  // used by the thread, once it runs
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<int64_t> first_;    // was there before the copier, and is not yet copied
  std::optional<int64_t> offered_;  // and not yet begun
  std::optional<int64_t> failed_;   // the newest one whose copy failed
  bool wants_files_ = false;        // finish() wants what is beside the checkpoints
  bool works_ = false;
  Failures failures_;              // the last ones
  std::optional<bool> succeeded_;  // the last work
  std::vector<std::string> warnings_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace leat
