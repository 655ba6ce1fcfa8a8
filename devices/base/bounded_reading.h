// Reading of files that may never answer: those of a file server that is gone, or of a disk that
// takes minutes over a block. The system gives nobody back who waits in a read, so it is done on a
// thread of its own, and who wants the bytes gives up in time and says what did not answer.
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

struct ReadingLimits {
  // For each answer of the file system: to opening a file, or to reading 1 MiB of it. Time in which
  // this process itself was stopped does not count.
  std::chrono::milliseconds answer{10'000};
  // Of all of it.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  // Told before `unavailable` is returned, with the message and how long nothing had come; may be
  // empty.
  std::function<void(const std::string& how, std::chrono::milliseconds waited)> on_given_up = {};
};

// Returns what `read` does, with the files that it is given; or, past a limit, `unavailable`:
// "'/data/x': expected its file system to answer within 10 s, received nothing at byte 1048576 of
// 47040016, after 12 s of reading". The thread is left behind then: it ends when the system lets it
// go, without another call of `files`, and what `read` holds lives as long. So `read` owns all that
// it uses; `files` are not used once that call has returned.
Status read_within(Files& files, const ReadingLimits& limits, std::function<Status(Files&)> read);

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
