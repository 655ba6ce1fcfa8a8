// The requests of users that a job has not fulfilled yet: to cancel it, to pause it, to resume it.
// Each waits for a write of the journal, and the users who ask for it wait for that, too.
//
// Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/job_state.h"

namespace leat {

class JobWishes {
 public:
  enum class Kind : uint8_t { cancel, pause, resume };

  // Adds a request of the user `by`, whose name may be empty. The reason names the first user who
  // asked. A pause and a resume take each other's place: all who asked for one of them hear of what
  // was asked last.
  void add(Kind kind, const std::string& by, uint64_t ticket);
  bool has(Kind kind) const { return wish(kind).there; }
  // True if a job in that state needs no change for the request.
  bool is_fulfilled(Kind kind, JobState state) const;
  // " by ann", or "" if the name is not known.
  std::string by(Kind kind) const;
  // Removes the request, and returns the tickets of those who wait for it.
  std::vector<uint64_t> fulfil(Kind kind) { return std::exchange(wish(kind), {}).tickets; }
  // Returns the tickets, and keeps the request.
  std::vector<uint64_t> answer(Kind kind) { return std::exchange(wish(kind).tickets, {}); }
  // Removes all, since the job has ended.
  std::vector<uint64_t> drop_all();

 private:
  struct Wish {
    bool there = false;
    std::string by;
    std::vector<uint64_t> tickets;
  };
  Wish& wish(Kind kind) { return wishes_[static_cast<size_t>(kind)]; }
  const Wish& wish(Kind kind) const { return wishes_[static_cast<size_t>(kind)]; }

  std::array<Wish, 3> wishes_;
};

}  // namespace leat
