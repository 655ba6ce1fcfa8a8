// The wishes of a job that the queue of a cluster heeds: its priority, the longest time that it
// runs, whether it makes way for others, and its share of each worker. A job file has all of them
// but the user's name and `paused`, which come with the submit.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

inline constexpr int64_t kLeastPriority = -100, kMostPriority = 100;
inline constexpr size_t kMaxUserName = 64;  // bytes

struct QueueTerms {
  int64_t priority = 0;  // a higher one goes first
  // The longest time with workers, without the time in the queue and while paused; 0: no limit.
  std::chrono::milliseconds max_run_time{0};
  // A waiting job of a higher priority may take the workers.
  bool preemptible = false;
  int64_t cpu = 0;      // cores of each worker that the job uses; 0: the whole worker
  uint64_t memory = 0;  // bytes of each worker that the job uses; 0: the whole worker
  // Of the submit, not of the job file.
  std::string user;     // the name of the user who submitted the job; "": not known
  bool paused = false;  // submitted as PAUSED
  bool operator==(const QueueTerms&) const = default;

  // The job leaves a part of each worker to others.
  bool shares_workers() const { return cpu > 0; }
};

// The terms as a line of text: "priority=5 preemptible=1 user=ann", without those that have their
// default; "" if all have.
std::string print_terms(const QueueTerms& terms);

// The terms of such a text. Keys that it does not know, which a later version wrote, are left out.
QueueTerms parse_terms(std::string_view text);

}  // namespace leat
