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
  // Sets the size of the job's files on disk; does nothing if the list lacks the job.
  void weigh(uint64_t job, uint64_t bytes);
  // A user wants to forget the job. answered() returns the ticket later.
  void ask(uint64_t job, uint64_t ticket) { asked_[job].push_back(ticket); }

  // Calls `forget` for each job to forget. It returns false if that job cannot be forgotten now;
  // the next one takes its place.
  void drop(const Retention& retention, int64_t now_ms,
            const std::function<bool(uint64_t job)>& forget) const;
  // The journal was asked to forget the job. Returns the tickets of the users who wanted it.
  std::vector<uint64_t> answered(uint64_t job);
  void erase(uint64_t job);

 private:
  struct Ended {
    uint64_t job = 0;
    int64_t ended_ms = 0;  // of Unix time
    uint64_t bytes = 0;    // of its files, as far as known
  };

  std::map<uint64_t, Ended> ended_;   // by their order
  std::map<uint64_t, uint64_t> ids_;  // the key in ended_, by number
  std::map<uint64_t, std::vector<uint64_t>> asked_;
  uint64_t bytes_ = 0;  // of all
  uint64_t last_ = 0;
};

}  // namespace leat
