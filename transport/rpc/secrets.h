// The secret of a cluster while it is replaced.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace leat {

// The secret that this end proves, and the one before it, which it still accepts from others. A
// daemon that reads its files again puts new ones here, and connections that follow use them.
// Threads: any.
class Secrets {
 public:
  explicit Secrets(std::string current, std::string previous = "")
      : current_(std::move(current)), previous_(std::move(previous)) {}

  std::string current() const { return both().first; }
  // Both of one moment: the current one, and the previous one, "" if only the current one is
  // accepted.
  std::pair<std::string, std::string> both() const {
    const std::lock_guard lock(mutex_);
    return {current_, previous_};
  }
  // True for either of them: a server asks it of the secret that a connection has proved before.
  bool accepts(const std::string& secret) const {
    const std::lock_guard lock(mutex_);
    return secret == current_ || (!previous_.empty() && secret == previous_);
  }
  // Replaces both at once. A server ends connections whose secret is neither of them.
  void set(std::string current, std::string previous) {
    const std::lock_guard lock(mutex_);
    current_ = std::move(current);
    previous_ = std::move(previous);
  }

 private:
  mutable std::mutex mutex_;
  std::string current_, previous_;
};

}  // namespace leat
