// Calls with a deadline, and the two ways between errors of ours and KJ's exceptions. Includes KJ:
// for .cc files.
//
//   // On any thread but the loop's: waits for the answer, at most 10 s.
//   const Result<uint64_t> size = call(loop, [&] {
//     return master.sizeRequest().send().then(
//         [](auto&& response) -> Result<uint64_t> { return response.getSize(); });
//   }, 10s, "Master.size to 127.0.0.1:4711");
//
// No call is without a deadline: a peer that answers nothing, or a network that drops everything,
// ends a call with deadline_exceeded and never keeps its caller.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "devices/base/status.h"
#include "devices/base/text.h"
#include "transport/rpc/common.capnp.h"
#include "transport/rpc/loop.h"
#include "transport/rpc/loop_context.h"

namespace leat {

// The outcome of a kj::Promise<T>: Status for void and Status, the Result itself for a Result, and
// Result<T> for everything else.
template <typename T>
struct OutcomeOf {
  using type = Result<T>;
};
template <>
struct OutcomeOf<void> {
  using type = Status;
};
template <>
struct OutcomeOf<Status> {
  using type = Status;
};
template <typename T>
struct OutcomeOf<Result<T>> {
  using type = Result<T>;
};
template <typename T>
using Outcome = typename OutcomeOf<T>::type;

// Our error for an exception: DISCONNECTED becomes unavailable, UNIMPLEMENTED unimplemented,
// OVERLOADED resource_exhausted, and the rest internal. `what` names the method and the peer, and
// begins the message.
Status to_status(const kj::Exception& exception, std::string_view what);
// The other way, for places where only an exception can report an error. REQUIRES: not ok.
kj::Exception to_exception(const Status& status);

// Writes an error into results: an `Outcome(T)` of transport/rpc/common.capnp, or any union with an
// `error`. The message is cut at 4 KiB.
void write_status(const Status& status, wire::Status::Builder out);
// Reads an error. The result is never ok: an error with code ok, or with a code that this end does
// not know, is internal.
Status read_status(wire::Status::Reader in);
// Ok, or the error with which a method answered.
template <typename UnionReader>
Status status_of(UnionReader outcome) {
  return outcome.isError() ? read_status(outcome.getError()) : Status();
}
// Fills an Outcome(Nothing).
template <typename UnionBuilder>
void answer(const Status& status, UnionBuilder outcome) {
  if (status.ok()) {
    outcome.initOk();
  } else {
    write_status(status, outcome.initError());
  }
}

// KJ's form of a duration.
inline kj::Duration to_kj(std::chrono::nanoseconds duration) {
  return duration.count() * kj::NANOSECONDS;
}

// The error of a call that was not answered in time.
Status no_answer(std::string_view what, std::chrono::nanoseconds deadline);

// The outcome of `promise`, or deadline_exceeded after `deadline`. In both cases the work behind
// the promise is cancelled then. KJ's own timeoutAfter() throws what an overloaded peer throws,
// too. `what` names the method and the peer: "Master.submit to 127.0.0.1:4711". `passed` is the
// part of the deadline that is over already.
// Threads: the loop's.
template <typename T>
kj::Promise<Outcome<T>> within(kj::Promise<T> promise, kj::Timer& timer,
                               std::chrono::nanoseconds deadline, std::string what,
                               std::chrono::nanoseconds passed = {}) {
  using O = Outcome<T>;
  const auto left = std::max<std::chrono::nanoseconds>(deadline - passed, {});
  auto late = timer.afterDelay(to_kj(left)).then([what, deadline]() -> O {
    return no_answer(what, deadline);
  });
  auto failed = [what](kj::Exception&& error) -> O { return to_status(error, what); };
  if constexpr (std::is_void_v<T>) {
    return promise.then([]() -> O { return Status(); }, kj::mv(failed)).exclusiveJoin(kj::mv(late));
  } else {
    return promise.then([](T&& value) -> O { return std::move(value); }, kj::mv(failed))
        .exclusiveJoin(kj::mv(late));
  }
}

namespace rpc_internal {

// A completion that is called exactly once. Its destructor calls it with `cancelled` and `why` if
// nothing else has.
template <typename O>
class Once {
 public:
  // `why` begins with the name of the work, since it becomes the message of `cancelled`.
  Once(std::function<void(O)> done, std::string why)
      : done_(std::move(done)), why_(std::move(why)) {}
  Once(Once&& other) noexcept
      : done_(std::exchange(other.done_, nullptr)), why_(std::move(other.why_)) {}
  ~Once() { finish(cancelled(why_)); }

  // Only the first call passes its outcome on; later ones do nothing.
  // Threads: one at a time.
  void finish(O outcome) {
    if (auto done = std::exchange(done_, nullptr)) done(std::move(outcome));
  }

 private:
  std::function<void(O)> done_;  // null once it has been called
  std::string why_;
};

// Keeps, on the loop, the promise of an answer that another thread will give.
template <typename O>
struct Awaiting final : LoopOwned {
  kj::Own<kj::PromiseFulfiller<O>> fulfiller;
};

template <typename F>
struct PromisedBy;
template <typename T>
struct PromisedBy<kj::Promise<T>> {
  using type = T;
};

}  // namespace rpc_internal

// The T of a function that returns kj::Promise<T>.
template <typename F>
using PromisedBy = typename rpc_internal::PromisedBy<std::invoke_result_t<F&>>::type;

// Runs `function`, which returns a kj::Promise<T>, on the loop. `done` gets the outcome exactly
// once, on the loop's thread, or on this one if the loop has stopped. It must not block: it posts
// further work to the thread that the work belongs to. T is a plain value, since no Reader leaves
// the loop.
// Threads: any.
template <typename F>
void start_call(RpcLoop& loop, F function, std::chrono::nanoseconds deadline, std::string what,
                std::function<void(Outcome<PromisedBy<F>>)> done) {
  using O = Outcome<PromisedBy<F>>;
  rpc_internal::Once<O> once(std::move(done), cat(what, ": the rpc thread has stopped"));
  const auto begin = std::chrono::steady_clock::now();
  const bool posted = loop.post([&loop, function = std::move(function), deadline, begin, what,
                                 once = std::move(once)]() mutable {
    LoopContext& context = loop.context();
    auto held = kj::heap(std::move(function));  // a promise may use what it captured
    auto promise = kj::evalNow([&] { return (*held)(); }).attach(kj::mv(held));
    context.tasks.add(within(kj::mv(promise), context.timer, deadline, what,
                             std::chrono::steady_clock::now() - begin)
                          .then([once = std::move(once)](O&& outcome) mutable {
                            once.finish(std::move(outcome));
                          }));
  });
  (void)posted;  // if not, destroying `once` has called `done`
}

// The same for a thread that waits for the outcome, at most until the deadline. Everything that
// `function` uses of its caller has to live no longer than this call: a function that has not begun
// by the deadline never begins, and the loop ends one that has begun. internal if the calling
// thread is the loop's.
// Threads: any but the loop's.
template <typename F>
Outcome<PromisedBy<F>> call(RpcLoop& loop, F function, std::chrono::nanoseconds deadline,
                            std::string what) {
  using O = Outcome<PromisedBy<F>>;
  if (loop.on_loop_thread()) {
    return internal_error(cat(what, ": waits for itself on the rpc thread"));
  }
  struct Wait {
    std::mutex mutex;
    std::condition_variable changed;
    bool begun = false, given_up = false;
    std::optional<O> outcome;
  };
  const auto wait = std::make_shared<Wait>();
  const auto due = std::chrono::steady_clock::now() + deadline;
  auto unless_given_up = [wait,
                          function = std::move(function)]() mutable -> std::invoke_result_t<F&> {
    {
      const std::lock_guard lock(wait->mutex);
      if (wait->given_up) return to_exception(cancelled("its caller no longer waits for it"));
      wait->begun = true;
    }
    return function();
  };
  start_call(loop, std::move(unless_given_up), deadline, what, [wait](O outcome) {
    {
      const std::lock_guard lock(wait->mutex);
      wait->outcome.emplace(std::move(outcome));
    }
    wait->changed.notify_one();
  });
  std::unique_lock lock(wait->mutex);
  const auto is_over = [&] { return wait->outcome.has_value(); };
  if (!wait->changed.wait_until(lock, due, is_over)) {
    wait->given_up = !wait->begun;
    if (wait->given_up) return no_answer(what, deadline);
    wait->changed.wait(lock, is_over);
  }
  return std::move(*wait->outcome);
}

// A method that another thread answers. The method returns `promise`, or chains on it, and gives
// `done` away. Any thread may call `done`, once; if none has when its last copy is gone, the
// promise gets `cancelled`. The loop outlives both.
template <typename T>
struct Elsewhere {
  kj::Promise<Outcome<T>> promise;
  std::function<void(Outcome<T>)> done;
};

// Makes such a pair. `what` names the work, for the error when `done` is dropped.
// Threads: the loop's.
template <typename T>
Elsewhere<T> answered_elsewhere(RpcLoop& loop, std::string_view what) {
  using O = Outcome<T>;
  auto pair = kj::newPromiseAndFulfiller<O>();
  auto waiting = kj::heap<rpc_internal::Awaiting<O>>();
  waiting->fulfiller = kj::mv(pair.fulfiller);
  rpc_internal::Awaiting<O>* const raw = waiting;
  const uint64_t id = loop.context().own(kj::mv(waiting));
  const auto once = std::make_shared<rpc_internal::Once<O>>(
      [&loop, raw, id](O outcome) {
        // If the loop has stopped, it has destroyed the promise already.
        auto kept = std::make_unique<O>(std::move(outcome));
        (void)loop.post([&loop, raw, id, kept = std::move(kept)] {
          raw->fulfiller->fulfill(std::move(*kept));
          loop.context().release(id);
        });
      },
      cat(what, ": given up without an answer"));
  return {kj::mv(pair.promise), [once](O outcome) { once->finish(std::move(outcome)); }};
}

}  // namespace leat
