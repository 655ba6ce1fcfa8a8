#include "daemon/jobs/assembly.h"

#include <algorithm>
#include <utility>

namespace leat {

std::vector<WorkerRef> Assembly::workers() const {
  std::vector<WorkerRef> workers;
  for (const Member& member : members_) workers.push_back(member.worker);
  return workers;
}

// Assemblies
// ------------------------------------------------------------------------------------------

std::vector<std::string> Assembly::vacant() const {
  std::vector<std::string> names;
  for (const Member& member : members_) {
    if (member.phase == Phase::gone) names.push_back(member.worker.name);
  }
  return names;
}

void Assembly::renew(uint64_t assembly, std::span<const WorkerRef> joining, size_t size) {
  // No runner is kept, so the tasks are given out anew.
  if (count(Phase::gone) == members_.size()) members_.clear();
  while (members_.size() > size) {  // a runner in one of the last places gets another
    const Member last = std::move(members_.back());
    members_.pop_back();
    if (last.phase == Phase::gone) continue;
    // There is a free place: at most `size` runners are kept, this one among them, and at least
    // `size` places are left.
    *std::find_if(members_.begin(), members_.end(),
                  [](const Member& m) { return m.phase == Phase::gone; }) = last;
  }
  members_.resize(size, Member{{}, Phase::gone});
  // First the workers whose names had a place, so that each gets the task that it had.
  std::vector<WorkerRef> others;
  for (const WorkerRef& worker : joining) {
    const auto before = std::find_if(members_.begin(), members_.end(), [&](const Member& m) {
      return m.phase == Phase::gone && m.worker.name == worker.name;
    });
    if (before != members_.end()) {
      *before = Member{worker, Phase::leased, assembly};
    } else {
      others.push_back(worker);
    }
  }
  // Then the others in the order of the tasks. A kept runner is leased again: the new assembly asks
  // for it as for a new one, but it is there at once.
  auto next = others.begin();
  for (Member& member : members_) {
    if (member.phase == Phase::there) member.phase = Phase::leased;
    if (member.phase == Phase::gone && next != others.end()) {
      member = Member{*next++, Phase::leased, assembly};
    }
  }
  mode_ = Mode::going;
  assembly_ = assembly;
}

void Assembly::take_up(uint64_t assembly, std::span<const std::string> names) {
  members_.clear();
  // The incarnations are not known: a worker that kept its runner has the same name, and await()
  // puts it in.
  for (const std::string& name : names) members_.push_back(Member{{name, 0}, Phase::gone});
  mode_ = Mode::parted;
  assembly_ = assembly;
}

bool Assembly::await(const WorkerRef& worker, size_t task, Clock::Steady deadline) {
  if (task >= members_.size() || members_[task].phase != Phase::gone) return false;
  // The journal knows which worker had the task; a runner from elsewhere is a stray one.
  if (members_[task].worker.name != worker.name) return false;
  members_[task] = Member{worker, Phase::asked, assembly_};
  members_[task].by = deadline;
  return true;
}

void Assembly::expel(const WorkerRef& worker, uint64_t assembly, Clock::Steady deadline) {
  Member member{worker, Phase::there, assembly};
  // `told` keeps it out of every place, and late() sees when it does not end by `deadline`.
  member.lives = member.told = true;
  member.by = deadline;
  leaving_.push_back(member);
}

std::vector<WorkerRef> Assembly::undo(uint64_t before) {
  std::vector<WorkerRef> released;
  for (Member& member : members_) {
    if (member.phase != Phase::leased) continue;
    // A kept runner has heard nothing of the new assembly, and waits on.
    member.phase = member.lives ? Phase::there : Phase::gone;
    if (member.phase == Phase::gone) released.push_back(member.worker);
  }
  mode_ = Mode::parted;
  assembly_ = before;
  return released;
}

// Members -----------------------------------------------------------------------------------------

std::vector<Assembly::Asked> Assembly::ask(Clock::Steady deadline) {
  std::vector<Asked> asked;
  for (Member& member : members_) {
    if (member.phase != Phase::leased) continue;
    asked.push_back({member.worker, member.lives});
    member.phase = Phase::asked;
    member.by = deadline;
  }
  return asked;
}

bool Assembly::arrived(const WorkerRef& worker, uint64_t assembly) {
  Member* member = find(worker);
  if (member == nullptr || member->told || assembly != assembly_) return false;
  // A runner may report twice that it is there; a leased one was not asked yet.
  if (member->phase != Phase::asked && member->phase != Phase::there) return false;
  member->phase = Phase::there;
  member->from = assembly;
  member->lives = true;
  return true;
}

bool Assembly::has(const WorkerRef& worker, uint64_t assembly) const {
  const Member* member = find(worker);
  // An upper bound as well: a message of an assembly to come cannot be right.
  return member != nullptr && assembly >= member->from &&
         assembly <= std::max(assembly_, member->from);
}

bool Assembly::has_place(const WorkerRef& worker) const {
  const Member* member = find(worker);
  return member != nullptr && !member->told;
}

bool Assembly::is_held_over(const WorkerRef& worker) const {
  const Member* member = find(worker);
  return member != nullptr && !member->told && member->lives && member->phase != Phase::there;
}

bool Assembly::will_be_kept(const WorkerRef& worker) const {
  const Member* member = find(worker);
  return member != nullptr && !member->told && member->runs() && !member->suspect;
}

void Assembly::suspect(const WorkerRef& worker) {
  if (Member* member = find(worker)) member->suspect = true;
}

bool Assembly::left(const WorkerRef& worker) {
  Member* member = find(worker);
  if (member == nullptr) return false;
  member->phase = Phase::gone;
  // A place stays with its member when the runner is gone; a leaving one has no place to keep.
  std::erase_if(leaving_, [](const Member& m) { return m.phase == Phase::gone; });
  return true;
}

// Going -------------------------------------------------------------------------------------------

void Assembly::tell(Member& member, Clock::Steady deadline, Leaving& leaving) {
  if (member.phase == Phase::gone || member.told) return;
  // No process was started for a leased member, so no RunnerExited will come.
  if (!member.runs()) {
    member.phase = Phase::gone;
    leaving.released.push_back(member.worker);
    return;
  }
  member.told = true;
  member.by = deadline;
  leaving.tell.push_back(member.worker);
}

Assembly::Leaving Assembly::part(Clock::Steady deadline) {
  Leaving leaving;
  for (Member& member : members_) {
    // A runner that was asked for is kept, too: it may be the one that arrives last.
    const bool stays = member.runs() && !member.suspect;
    // A kept runner that this assembly had not asked for yet.
    if (stays && member.phase == Phase::leased) member.phase = Phase::there;
    if (stays || member.phase == Phase::gone) continue;
    tell(member, deadline, leaving);
    // The copy in leaving_ waits for the end of the process; the place is free for another worker.
    if (member.told) leaving_.push_back(member);
    member.phase = Phase::gone;
  }
  mode_ = Mode::parted;
  return leaving;
}

Assembly::Leaving Assembly::stop(Clock::Steady deadline) {
  Leaving leaving;
  // The members keep their places, because no assembly begins before all of them are gone.
  for (Member& member : members_) tell(member, deadline, leaving);
  mode_ = Mode::stopping;
  return leaving;
}

Assembly::Late Assembly::late(Clock::Steady now) const {
  Late late;
  for (const Member& member : members_) {
    if (member.phase == Phase::asked && !member.told && member.by <= now)
      late.to_come.push_back(member.worker);
  }
  for (const auto* members : {&members_, &leaving_}) {
    for (const Member& member : *members) {
      if (member.told && member.phase != Phase::gone && member.by <= now)
        late.to_go.push_back(member.worker);
    }
  }
  return late;
}

size_t Assembly::count(Phase phase) const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(),
                                           [&](const Member& m) { return m.phase == phase; }));
}

const Assembly::Member* Assembly::find(const WorkerRef& worker) const {
  for (const auto* members : {&members_, &leaving_}) {
    for (const Member& member : *members) {
      // A worker is leased to a job once, so at most one member that is not gone names it.
      if (member.worker == worker && member.phase != Phase::gone) return &member;
    }
  }
  return nullptr;
}

Assembly::Member* Assembly::find(const WorkerRef& worker) {
  return const_cast<Member*>(std::as_const(*this).find(worker));
}

}  // namespace leat
