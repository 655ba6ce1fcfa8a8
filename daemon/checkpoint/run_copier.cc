#include "daemon/checkpoint/run_copier.h"

#include <pthread.h>

#include <algorithm>

#include "daemon/base/background.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often finish() looks whether it is to stop.
constexpr milliseconds kLook{100};
// finish() tries again after this, and then after twice as long each time.
constexpr milliseconds kFirstPause{500};
constexpr milliseconds kLongestPause{30'000};

// The step of the newest checkpoint in the folder.
Result<std::optional<int64_t>> newest_checkpoint(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const auto found, list_checkpoints(files, folder));
  if (found.empty()) return std::optional<int64_t>();
  // One that is damaged is set aside by the training, which tells so.
  const auto manifest = read_manifest(files, found.front());
  return manifest.ok() ? std::optional(manifest->step) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<RunCopier>> RunCopier::create(Files& files, RunCopyPlaces places,
                                                     Start start, StoreOptions store) {
  std::unique_ptr<RunCopier> out(new RunCopier(files, std::move(places), std::move(store)));
  if (start == Start::is_new) {
    LEAT_RETURN_IF_ERROR(out->copy_.expect_none());
  } else {
    LEAT_ASSIGN_OR_RETURN(const auto newest, newest_checkpoint(files, out->places_.checkpoints));
    out->offered_ = newest;
  }
  out->thread_ = std::thread([copier = out.get()] { copier->run(); });
  return out;
}

RunCopier::RunCopier(Files& files, RunCopyPlaces places, StoreOptions store)
    : places_(std::move(places)),
      files_([&] {
        store.writes = true;
        store.stopped = [this] { return stopped_.load(); };
        return make_store_files(files, std::move(store));
      }()),
      copy_(*files_, places_) {}

RunCopier::~RunCopier() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunCopier::offer(int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    offered_ = step;
    failed_.reset();
  }
  changed_.notify_all();
}

std::vector<std::string> RunCopier::take_warnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

Status RunCopier::work(std::optional<int64_t> step) {
  return step ? copy_.copy(*step) : copy_.copy_files();
}

void RunCopier::run() {
  ::pthread_setname_np(::pthread_self(), "run copier");
  work_in_background();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || offered_ || wants_files_; });
    if (stopped_) return;
    const auto step = std::exchange(offered_, std::nullopt);
    if (!step) wants_files_ = false;
    works_ = true;
    lock.unlock();
    const Status done = work(step);
    lock.lock();
    works_ = false;
    last_ = done;
    // One that the run removed before its turn is no loss: a newer one waits.
    const bool overtaken = step && offered_ && !copy_.has(*step);
    if (!done.ok() && !stopped_ && !overtaken) {
      if (step) failed_ = step;
      warnings_.push_back(cat(step ? cat("no copy of the checkpoint of step ", *step)
                                   : std::string("not all files of the run are copied"),
                              ": ", done.message()));
    }
    changed_.notify_all();
  }
}

Status RunCopier::finish(milliseconds patience, const std::function<bool()>& stop) {
  const auto end = Steady::now() + patience;
  milliseconds pause = kFirstPause;
  std::unique_lock lock(mutex_);
  for (;;) {
    // A failure of a checkpoint before is tried once more here.
    if (!offered_) offered_ = std::exchange(failed_, std::nullopt);
    wants_files_ = true;
    last_.reset();
    changed_.notify_all();
    while (offered_ || wants_files_ || works_) {
      if (stop()) return cancelled(cat("the copy in '", places_.to, "' is not whole"));
      if (Steady::now() >= end) break;
      changed_.wait_for(lock, kLook);
    }
    const bool is_done = !offered_ && !wants_files_ && !works_;
    if (is_done && !failed_ && last_->ok()) return {};
    const auto again = std::min(end, Steady::now() + pause);
    while (Steady::now() < again && !stop()) changed_.wait_for(lock, kLook);
    if (Steady::now() >= end) {
      return deadline_exceeded(
          cat("the copy in '", places_.to, "' is not whole after ",
              std::chrono::duration_cast<std::chrono::seconds>(patience).count(), " s",
              last_ && !last_->ok() ? ": " + last_->message() : ""));
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace leat
