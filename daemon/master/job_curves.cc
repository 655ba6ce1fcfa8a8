#include "daemon/master/job_curves.h"

#include <algorithm>

#include "daemon/base/background.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;  // bytes that a task reads
constexpr std::chrono::milliseconds kFresh{500};

}  // namespace

// The thread alone uses `curves` and `offset`; the rest is guarded by the mutex of JobCurves.
struct JobCurves::Entry {
  GrowingCurves curves;
  uint64_t offset = 0;
  bool reading = false;
  std::chrono::steady_clock::time_point read_at;  // when the thread came to the end of the log
  CurvesView view;
};

JobCurves::JobCurves(Files& files, const JobFolders& folders)
    : files_(files), folders_(folders), thread_("curves") {
  thread_.post([] { work_in_background(); });
}

CurvesView JobCurves::of(const std::string& job) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Entry>& entry = entries_[job];
  if (!entry) entry = std::make_shared<Entry>();
  asked_.remove(job);
  asked_.push_front(job);
  const CurvesView view = entry->view;
  if (!entry->reading && std::chrono::steady_clock::now() - entry->read_at >= kFresh) {
    entry->reading = thread_.post([this, job, entry] { read_on(job, entry); });
  }
  while (asked_.size() > kMostJobs) {
    entries_.erase(asked_.back());
    asked_.pop_back();
  }
  return view;
}

void JobCurves::read_on(const std::string& job, const std::shared_ptr<Entry>& entry) {
  const auto file = files_.open(folders_.path_of(job) + "/metrics.jsonl");
  uint64_t left = 0;
  if (file.ok()) {
    // A training that goes on from a checkpoint has cut the rows behind it, and writes them again.
    if ((*file)->size() < entry->offset) {
      entry->curves = GrowingCurves();
      entry->offset = 0;
    }
    left = (*file)->size() - entry->offset;
    std::string text(std::min(left, kPiece), '\0');
    if ((*file)->read(entry->offset, std::as_writable_bytes(std::span(text))).ok()) {
      entry->curves.add(text);
      entry->offset += text.size();
      left -= text.size();
    } else {
      left = 0;  // the file was replaced in the meantime: the next call looks again
    }
  }
  const bool more = left > 0;
  CurvesView view{entry->curves.of_steps(), entry->curves.of_epochs(), !more};
  const std::lock_guard lock(mutex_);
  entry->view = std::move(view);
  if (more) {
    entry->reading = thread_.post([this, job, entry] { read_on(job, entry); });
    return;
  }
  entry->reading = false;
  entry->read_at = std::chrono::steady_clock::now();
}

}  // namespace leat
