// The jobs of a table that have ended, in the order of their ends, and which of them are to be
// forgotten: those that a user has asked for, and the oldest beyond the retention (retention.h).
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "daemon/jobs/retention.h"

namespace leat {

class EndedList {
 public:
  // By the job's number.
  void add(uint64_t job, int64_t ended_ms);
  // The size of what it left on disk, if that job is here.
  void weigh(uint64_t job, uint64_t bytes);
  // A user wants it forgotten; the ticket comes back from answered().
  void ask(uint64_t job, uint64_t ticket) { asked_[job].push_back(ticket); }

  // Calls `forget` for each job that is to go. It returns false of one that cannot go now; the next
  // one goes in its place.
  void drop(const Retention& retention, int64_t now_ms,
            const std::function<bool(uint64_t job)>& forget) const;
  // The journal was asked to forget it. Returns the tickets of those that wanted that.
  std::vector<uint64_t> answered(uint64_t job);
  void erase(uint64_t job);

 private:
  struct Ended {
    uint64_t job = 0;
    int64_t ended_ms = 0;  // of Unix time
    uint64_t bytes = 0;    // that it left, as far as that is known
  };

  std::map<uint64_t, Ended> ended_;   // by their order
  std::map<uint64_t, uint64_t> ids_;  // the key in ended_, by number
  std::map<uint64_t, std::vector<uint64_t>> asked_;
  uint64_t bytes_ = 0;  // of all
  uint64_t last_ = 0;
};

}  // namespace leat
