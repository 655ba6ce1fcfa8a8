// The response to a request that takes its time, such as one that waits for the journal.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "daemon/status/http.h"

namespace leat {

// Shared by the connection, which waits, and the work that finds the response. Threads: any.
class PendingResponse {
 public:
  // Only the first response counts.
  void set(HttpResponse response) {
    const std::lock_guard lock(mutex_);
    if (response_) return;
    response_ = std::move(response);
    if (wake_) wake_();
  }
  // Calls `wake` when there is a response, at once if there is one; "null" forgets an earlier
  // `wake`, which is not called after this returns. `wake` must not block, nor call this object.
  void on_response(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (wake_ && response_) wake_();
  }
  // Returns the response; nothing if there is none yet.
  std::optional<HttpResponse> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<HttpResponse> response_;
  std::function<void()> wake_;
};

}  // namespace leat
