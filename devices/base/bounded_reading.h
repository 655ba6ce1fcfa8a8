// Reads files that may never answer: files of a server that is gone, or of a disk that takes
// minutes over one block.
//
// The system does not return from a read until it has an answer, and nothing can interrupt it. The
// read therefore runs on a thread of its own, and the caller stops waiting in time and reports
// which file did not answer.
//
// Threads: any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// How long the caller waits.
struct ReadingLimits {
  // For each answer of the file system: to opening a file, or to reading 1 MiB of it. Time in which
  // this process itself was stopped does not count.
  std::chrono::milliseconds answer{10'000};
  // For the whole reading.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  // Called before `unavailable` is returned, with its message and the time for which no answer had
  // come. Threads: the caller's. May be empty.
  std::function<void(const std::string& how, std::chrono::milliseconds waited)> on_given_up = {};
};

// Returns the result of `read`, which gets a file system that notes where it waits. Past a limit,
// returns `unavailable`: "'/data/x': expected its file system to answer within 10 s, received
// nothing at byte 1048576 of 47040016, after 12 s of reading".
//
// After that the thread stays behind until the system returns from its call. It makes no further
// call of `files`, and everything that `read` captured lives until then. `read` must therefore own
// all that it uses. `files` is not used any more once that one call has returned.
Status read_within(Files& files, const ReadingLimits& limits, std::function<Status(Files&)> read);

// The same for a `read` that returns a value.
template <typename T>
Result<T> read_within(Files& files, const ReadingLimits& limits,
                      std::function<Result<T>(Files&)> read) {
  const auto value = std::make_shared<std::optional<T>>();
  std::function<Status(Files&)> keep = [value, read = std::move(read)](Files& bounded) -> Status {
    LEAT_ASSIGN_OR_RETURN(*value, read(bounded));
    return {};
  };
  LEAT_RETURN_IF_ERROR(read_within(files, limits, std::move(keep)));
  return std::move(**value);
}

}  // namespace leat
