// The memory of receiving ends by IPC after their links have ended. The process at the other end
// may have stood still since it was given a value, and its device may write when it goes on: so the
// memory is not used for anything else before that process has said, with the offer of a later
// link, that it has closed it. If it never does, the memory stays as long as the runner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "devices/core/device.h"

namespace leat::direct {

// One for all links of a runner. Processes are named by their incarnations. Threads: any.
class WireMemory {
 public:
  // The most numbers of closed memories that a process tells another one at a time: its last ones.
  static constexpr size_t kMostTold = 256;

  // A number for the memory of a new receiving end.
  uint64_t number();
  // The link to `peer` has ended.
  void keep(uint64_t peer, uint64_t number, std::unique_ptr<Buffer> memory);
  // `peer` says that it has closed these memories of this process.
  void closed_by(uint64_t peer, std::span<const uint64_t> numbers);
  // This process has closed a memory of `peer`.
  void closed_here(uint64_t peer, uint64_t number);
  // The numbers to tell `peer`.
  std::vector<uint64_t> closed_here(uint64_t peer) const;
  // How many memories are kept.
  size_t kept() const;

 private:
  mutable std::mutex mutex_;
  uint64_t numbers_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<Buffer>> kept_;  // by peer and number
  std::map<uint64_t, std::deque<uint64_t>> closed_;                        // by peer
};

}  // namespace leat::direct
