// The client's side of a step of a session on a cluster: its request, its large values, its result.
// Includes Cap'n Proto: for .cc files.
#pragma once

#include <kj/async.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/client/session_client.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/session_messages.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/loop.h"

namespace leat {

using StepFetches = std::vector<Tensor>;

// The time for an answer that waits only for the session.
inline constexpr std::chrono::milliseconds kSessionAnswer{35'000};
// The time for a large value, each way.
inline constexpr std::chrono::milliseconds kSessionTransfer{90'000};

// The capability of a session on one connection. The loop owns it, under a number.
struct SessionLink final : LoopOwned {
  explicit SessionLink(wire::Session::Client session) : session(kj::mv(session)) {}
  wire::Session::Client session;
};
// The capability of that number; nothing if its connection was given up. Threads: the loop's.
kj::Maybe<wire::Session::Client> session_of(RpcLoop& loop, uint64_t link);
// The error of a call without a capability.
Status no_session_link();

// A value that is uploaded before the call that names it.
struct UploadedValue {
  uint64_t number = 0;
  std::shared_ptr<const Blob> blob;
  BlobInfo info;
};

// Uploads all values at the same time. The first error counts, after all uploads have ended.
// Threads: the loop's.
kj::Promise<Status> stage(wire::Session::Client session, std::vector<UploadedValue> all);

// Takes the fetches of a step from its answer, and downloads those that are not in it, one after
// the other. Threads: the loop's.
kj::Promise<Result<StepFetches>> download_fetches(wire::StepResult::Reader in);

// A step that is asked for. Its client waits for `result`.
// Threads: any for finish() and wait(); the request is written before the step is sent, and for a
// lasting session on the loop.
struct RemoteStepState {
  // The request.
  std::variant<Signature, CallableId> what;
  std::vector<PackedValue> feeds;
  std::vector<UploadedValue> staging;
  uint64_t number = 0;
  uint64_t answered = 0;  // of a lasting session
  uint64_t link = 0;
  std::chrono::milliseconds timeout{0};  // 0: the session's
  RpcLoop* loop = nullptr;
  RemoteSession::Finished finished;

  // Set on the loop; that of a lasting session's steps reads them.
  std::atomic<bool> sent{false}, cancelled{false};
  std::atomic<bool> told{false};  // the session has answered the last request with an error

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<StepFetches>> result;

  void finish(Result<StepFetches> outcome) {
    {
      const std::lock_guard lock(mutex);
      result.emplace(std::move(outcome));
      changed.notify_all();
    }
    // Without the lock, and after the result is there: wait() may return before this callback does.
    if (auto tell = std::exchange(finished, nullptr)) tell();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return result.has_value(); });
  }
};

// Uploads the large feeds, then asks for the step. The steps of a session may overtake each other.
// Threads: the loop's.
kj::Promise<Result<StepFetches>> run_step(std::shared_ptr<RemoteStepState> state);

}  // namespace leat
