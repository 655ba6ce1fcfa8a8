// The inner link of wires, which threads of its own and of the wires use while it is being closed.
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <utility>

#include "transport/link.h"

namespace leat::direct {

// Threads: any; set() and close() are called once.
class InnerLink {
 public:
  void set(std::unique_ptr<Link> link) {
    link_ = std::move(link);
    open_.store(true);
  }
  // Calls `work` with the link, unless it is not there yet, or closed. False then.
  template <typename Work>
  bool use(const Work& work) const {
    users_.fetch_add(1);
    const bool is_open = open_.load();
    if (is_open) work(*link_);
    users_.fetch_sub(1);
    return is_open;
  }
  // For the owner of the wires. REQUIRES: the link was set, and is not closed.
  Link& get() const { return *link_; }
  // Waits until no thread uses the link, and destroys it. The peer sees it close.
  void close() {
    open_.store(false);
    while (users_.load() > 0) ::sched_yield();
    link_.reset();
  }

 private:
  std::unique_ptr<Link> link_;
  std::atomic<bool> open_{false};
  mutable std::atomic<int> users_{0};
};

}  // namespace leat::direct
