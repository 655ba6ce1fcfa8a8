#include "devices/base/bounded_reading.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "devices/base/forwarding_files.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The most that one read asks for, so that ReadingLimits::answer is a time for 1 MiB.
constexpr size_t kPieceBytes = size_t{1} << 20;
// The waiting caller looks at the reading this often. If a look comes after more than twice this
// time, this process itself was stopped, and the rest of that time does not count.
constexpr milliseconds kLook{100};

// The state that the caller and the reading thread share.
struct Reading {
  // The place where the reader is. It waits for the system between enter() and leave().
  struct Place {
    std::string path;
    uint64_t offset = 0;
    // Known once the file is open.
    std::optional<uint64_t> size;
  };

  std::mutex mutex;
  std::condition_variable changed;
  Place place;
  // The reader is in a call of the system. `answers` counts the calls that have returned.
  bool waits = false;
  uint64_t answers = 0;
  // The caller has returned. The reader must not use the file system any more.
  bool given_up = false;
  std::optional<Status> outcome;

  Status enter(Place where) {
    const std::lock_guard lock(mutex);
    if (given_up) return cancelled(cat("'", where.path, "': its caller no longer waits for it"));
    place = std::move(where);
    waits = true;
    return {};
  }
  void leave() {
    const std::lock_guard lock(mutex);
    waits = false;
    ++answers;
  }
};

// A file whose reads note where they wait.
class BoundedFile final : public ReadableFile {
 public:
  BoundedFile(std::unique_ptr<ReadableFile> file, std::shared_ptr<Reading> reading)
      : file_(std::move(file)), reading_(std::move(reading)) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }

  // Reads in pieces, so that a slow file differs from one that does not answer.
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    do {
      const auto piece = out.first(std::min(out.size(), kPieceBytes));
      LEAT_RETURN_IF_ERROR(reading_->enter({path(), offset, size()}));
      const Status status = file_->read(offset, piece);
      reading_->leave();
      LEAT_RETURN_IF_ERROR(status);
      out = out.subspan(piece.size());
      offset += piece.size();
    } while (!out.empty());
    return {};
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const std::shared_ptr<Reading> reading_;
};

// A file system that notes where opening waits, and whose files note where reading waits.
class BoundedFiles final : public ForwardingFiles {
 public:
  BoundedFiles(Files& files, std::shared_ptr<Reading> reading)
      : ForwardingFiles(files), reading_(std::move(reading)) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(reading_->enter({path, 0, {}}));
    auto file = files_.open(path);
    reading_->leave();
    if (!file.ok()) return file.status();
    return std::unique_ptr<ReadableFile>(new BoundedFile(std::move(*file), reading_));
  }
  Result<bool> exists(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(reading_->enter({path, 0, {}}));
    auto found = files_.exists(path);
    reading_->leave();
    return found;
  }

 private:
  const std::shared_ptr<Reading> reading_;
};

// The error for the caller. `whole`: the deadline of the whole reading has passed; otherwise one
// answer took too long.
std::string message(const Reading& reading, const ReadingLimits& limits, bool whole,
                    milliseconds took) {
  const Reading::Place& place = reading.place;
  const std::string at =
      place.size ? cat("at byte ", place.offset, " of ", *place.size) : "on opening it";
  if (whole) {
    return cat("'", place.path, "': expected to be read within ", seconds_text(took), ", was ",
               place.size ? at : "not open");
  }
  return cat("'", place.path, "': expected its file system to answer within ",
             seconds_text(limits.answer), ", received nothing ", at, ", after ", seconds_text(took),
             " of reading");
}

}  // namespace

Status read_within(Files& files, const ReadingLimits& limits, std::function<Status(Files&)> read) {
  const auto reading = std::make_shared<Reading>();
  // The thread may be held in a call for ever, so nothing could join it: it is detached. It owns
  // all that it uses, except for `files`, which it does not touch after `given_up`.
  std::thread([&files, reading, read = std::move(read)] {
    ::pthread_setname_np(::pthread_self(), "reading");
    BoundedFiles bounded(files, reading);
    Status outcome = read(bounded);
    const std::lock_guard lock(reading->mutex);
    reading->outcome = std::move(outcome);
    reading->changed.notify_all();
  }).detach();

  const auto began = SteadyClock::now();
  milliseconds silent{0};
  uint64_t answers = 0;
  // Each round waits for the outcome, then adds the time without an answer to `silent`.
  std::unique_lock lock(reading->mutex);
  for (auto looked = began;;) {
    const auto until = std::min(looked + std::min(kLook, limits.answer), limits.deadline);
    if (reading->changed.wait_until(lock, until, [&] { return reading->outcome.has_value(); }))
      return *reading->outcome;
    const auto now = SteadyClock::now();
    const auto slept = std::chrono::ceil<milliseconds>(now - std::exchange(looked, now));
    const bool answered = std::exchange(answers, reading->answers) != reading->answers;
    silent = answered || !reading->waits ? milliseconds(0) : silent + std::min(slept, 2 * kLook);
    const bool whole = now >= limits.deadline;
    if (!whole && silent < limits.answer) continue;
    const auto took = std::chrono::floor<milliseconds>(now - began);
    const std::string how = message(*reading, limits, silent < limits.answer, took);
    reading->given_up = true;
    lock.unlock();
    if (limits.on_given_up) limits.on_given_up(how, silent);
    return unavailable(how);
  }
}

}  // namespace leat
