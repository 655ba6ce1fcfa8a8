#include "daemon/checkpoint/run_copier.h"

#include <pthread.h>

#include <algorithm>
#include <filesystem>

#include "daemon/base/background.h"
#include "daemon/checkpoint/job_checkpoints.h"
#include "devices/base/clock.h"
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

// invalid_argument if one of the folders is in the other: a copy would copy itself.
Status check_apart(const RunCopyPlaces& places) {
  if (is_store_path(places.to)) return {};
  std::error_code error;
  const auto real = [&](const std::string& path) {
    const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
    return std::filesystem::weakly_canonical(absolute, error).string() + "/";
  };
  const std::string run = real(places.run), to = real(places.to);
  if (error) return {};  // the copy will say what is wrong with the path
  if (!run.starts_with(to) && !to.starts_with(run)) return {};
  return invalid_argument(cat("'", places.to, "': expected a place for the copy outside of '",
                              places.run, "', which is the run's folder"));
}

bool may_pass_later(Code code) {
  return code == Code::unavailable || code == Code::deadline_exceeded ||
         code == Code::resource_exhausted;
}

}  // namespace

Result<std::unique_ptr<RunCopier>> RunCopier::create(Files& files, RunCopyPlaces places,
                                                     Start start, StoreOptions store) {
  LEAT_RETURN_IF_ERROR(check_apart(places));
  std::unique_ptr<RunCopier> out(new RunCopier(files, std::move(places), std::move(store)));
  if (start == Start::is_new) {
    LEAT_RETURN_IF_ERROR(out->copy_.expect_none());
  } else {
    const RealClock clock;
    const auto newest =
        JobCheckpoints(files, clock, out->places_.checkpoints(), CheckpointRule()).newest();
    if (newest) out->offered_ = out->first_ = newest->step;
  }
  if (start == Start::is_resumed) {
    LEAT_ASSIGN_OR_RETURN(const bool ahead, out->copy_.is_ahead(out->first_.value_or(0)));
    if (ahead) {
      return failed_precondition(cat("'", out->place(), "': expected no checkpoint after step ",
                                     out->first_.value_or(0),
                                     ", where the run goes on, found a "
                                     "later one: bring it by leat checkpoint copy, or remove it"));
    }
  }
  out->thread_ = std::thread([copier = out.get()] { copier->run(); });
  return out;
}

RunCopier::RunCopier(Files& files, RunCopyPlaces places, StoreOptions store)
    : places_(std::move(places)),
      files_([&] {
        store.writes = true;
        store.stopped = [this] { return stopped_.load(); };
        auto plain = make_store_files(files, std::move(store));
        SealedFiles sealed(
            *plain, places_.keys != nullptr ? places_.keys : std::make_shared<CheckpointKeys>(),
            RunFolders({{places_.run, places_.id}, {places_.to, places_.id}}));
        return std::unique_ptr<PlaceFiles>(new PlaceFiles{std::move(plain), std::move(sealed)});
      }()),
      copy_(files_->sealed, places_, [this] { return stopped_.load(); }) {}

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
  if (!step) return copy_.copy_files();
  if (step == first_) {
    LEAT_ASSIGN_OR_RETURN(const bool ahead, copy_.is_ahead(*step));
    if (ahead) return {};
  }
  return copy_.copy(*step);
}

void RunCopier::run() {
  ::pthread_setname_np(::pthread_self(), "run copier");
  work_in_background();
  std::string told;  // the file that is left out, of which there was a warning
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || offered_ || wants_files_; });
    if (stopped_) return;
    const auto step = std::exchange(offered_, std::nullopt);
    if (!step) wants_files_ = false;
    works_ = true;
    lock.unlock();
    const Status done = work(step);
    const bool is_gone = step && !done.ok() && !copy_.has(*step);
    const std::string left_out = step && done.ok() ? copy_.left_out().message() : told;
    lock.lock();
    works_ = false;
    succeeded_ = done.ok();
    // A newer one makes good for this one; and one that the run removed meanwhile is no loss then.
    const bool has_newer = step && offered_;
    if (step && !has_newer) failed_ = done.ok() ? std::nullopt : step;
    (step ? failures_.of_step : failures_.of_files) = done;
    if (!done.ok() && !stopped_ && !(has_newer && is_gone)) {
      warnings_.push_back(cat(step ? cat("no copy of the checkpoint of step ", *step)
                                   : std::string("not all files of the run are copied"),
                              ": ", done.message()));
    }
    if (left_out != std::exchange(told, left_out) && !left_out.empty())
      warnings_.push_back(cat("not all files of the run are copied: ", left_out));
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
    succeeded_.reset();
    changed_.notify_all();
    while (offered_ || wants_files_ || works_) {
      if (stop()) return cancelled(cat("the copy in '", places_.to, "' is not whole"));
      if (Steady::now() >= end) break;
      changed_.wait_for(lock, kLook);
    }
    const bool is_done = !offered_ && !wants_files_ && !works_;
    if (is_done && !failed_ && succeeded_.value_or(false)) return {};
    // A checkpoint counts more than a file beside it; but either may be copied later.
    const Status& failure = failures_.of_step.ok() ? failures_.of_files : failures_.of_step;
    const bool may_pass =
        (failed_ && may_pass_later(failures_.of_step.code())) ||
        (!succeeded_.value_or(false) && may_pass_later(failures_.of_files.code()));
    const std::string why = failure.ok() ? "" : ": " + failure.message();
    if (is_done && !may_pass)
      return Status(failure.code(), cat("the copy in '", places_.to, "' is not whole", why));
    if (Steady::now() + pause >= end) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
      return deadline_exceeded(
          cat("the copy in '", places_.to, "' is not whole after ", seconds.count(), " s", why));
    }
    const auto again = Steady::now() + pause;
    while (Steady::now() < again && !stop()) changed_.wait_for(lock, kLook);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace leat
