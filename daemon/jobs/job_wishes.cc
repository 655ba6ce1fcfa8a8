#include "daemon/jobs/job_wishes.h"

namespace leat {

void JobWishes::add(Kind kind, const std::string& by, uint64_t ticket) {
  Wish& added = wish(kind);
  if (!std::exchange(added.there, true)) added.by = by;
  if (kind != Kind::cancel) {
    Wish& other = wish(kind == Kind::pause ? Kind::resume : Kind::pause);
    added.tickets.insert(added.tickets.end(), other.tickets.begin(), other.tickets.end());
    other = {};
  }
  added.tickets.push_back(ticket);
}

bool JobWishes::is_fulfilled(Kind kind, JobState state) const {
  const bool pauses = state == JobState::pausing || state == JobState::paused;
  switch (kind) {
    case Kind::cancel:
      return state == JobState::cancelling;
    case Kind::pause:
      return pauses && !has(Kind::resume);
    case Kind::resume:
      return !pauses && !has(Kind::pause);
  }
  return false;
}

std::string JobWishes::by(Kind kind) const {
  return wish(kind).by.empty() ? "" : " by " + wish(kind).by;
}

std::vector<uint64_t> JobWishes::drop_all() {
  std::vector<uint64_t> tickets;
  for (Wish& each : wishes_) {
    tickets.insert(tickets.end(), each.tickets.begin(), each.tickets.end());
    each = {};
  }
  return tickets;
}

}  // namespace leat
