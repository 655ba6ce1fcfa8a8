#include "daemon/jobs/assembly.h"

#include <algorithm>

namespace leat {

Assembly::Assembly(std::span<const WorkerRef> workers) {
  for (const WorkerRef& worker : workers) members_.push_back({worker});
}

std::vector<WorkerRef> Assembly::workers() const {
  std::vector<WorkerRef> workers;
  for (const Member& member : members_) workers.push_back(member.worker);
  return workers;
}

std::vector<WorkerRef> Assembly::ask(Clock::Steady deadline) {
  std::vector<WorkerRef> asked;
  for (Member& member : members_) {
    if (member.phase != Phase::leased) continue;
    member.phase = Phase::asked;
    asked.push_back(member.worker);
  }
  deadline_ = deadline;
  return asked;
}

bool Assembly::arrived(const WorkerRef& worker) {
  Member* member = find(worker);
  if (member == nullptr || (member->phase != Phase::asked && member->phase != Phase::there)) {
    return false;
  }
  member->phase = Phase::there;
  return true;
}

bool Assembly::left(const WorkerRef& worker) {
  Member* member = find(worker);
  if (member == nullptr || member->phase == Phase::gone) return false;
  member->phase = Phase::gone;
  return true;
}

std::vector<WorkerRef> Assembly::stop(Clock::Steady deadline, std::vector<WorkerRef>& released) {
  std::vector<WorkerRef> tell;
  for (Member& member : members_) {
    if (member.phase == Phase::leased) {
      member.phase = Phase::gone;
      released.push_back(member.worker);
    } else if (member.phase != Phase::gone && !member.told) {
      member.told = true;
      tell.push_back(member.worker);
    }
  }
  if (!stopping_) deadline_ = deadline;
  stopping_ = true;
  return tell;
}

std::vector<WorkerRef> Assembly::late(Clock::Steady now) const {
  std::vector<WorkerRef> late;
  if (now < deadline_) return late;
  for (const Member& member : members_) {
    const bool waits = stopping_ ? member.phase != Phase::gone : member.phase == Phase::asked;
    if (waits) late.push_back(member.worker);
  }
  return late;
}

size_t Assembly::count(Phase phase) const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(),
                                           [&](const Member& m) { return m.phase == phase; }));
}

Assembly::Member* Assembly::find(const WorkerRef& worker) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& m) { return m.worker == worker; });
  return found == members_.end() ? nullptr : &*found;
}

}  // namespace leat
