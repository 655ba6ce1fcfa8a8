#include "ops/state/replica_pool.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

ReplicaPool::ReplicaPool(const Options& options) : options_(options) {
  const auto replicas = static_cast<size_t>(options.replicas);
  tickets_.resize(replicas);
  arrived_.reserve(replicas);
  // While returned chunks exist, no new ones are drawn. So there is at most one for each replica.
  returned_.reserve(replicas);
  counted_.reserve(replicas);
}

// Only the first user resets: the others join a pool that is in use.
void ReplicaPool::join(int64_t first) {
  std::lock_guard lock(mutex_);
  if (users_++ > 0) return;
  step_ = limit_ = first;
  // With requeue, the steps before `first` have used up exactly their chunks.
  next_ = options_.requeue ? first * options_.quorum : 0;
  std::fill(tickets_.begin(), tickets_.end(), Ticket());
  arrived_.clear();
  returned_.clear();
}

void ReplicaPool::leave() {
  std::lock_guard lock(mutex_);
  --users_;
}

// True if a replica has arrived with the chunk for the open step.
bool ReplicaPool::brought(int64_t chunk) const {
  return std::any_of(tickets_.begin(), tickets_.end(), [&](const Ticket& t) {
    return t.step == step_ && t.chunk == chunk && t.arrived;
  });
}

// Finds the first chunk of a single replica that no replica has delivered, if the replicas without
// a chunk are enough for all such chunks. If there are fewer, the chunk need not be late yet.
bool ReplicaPool::choose_straggling(int64_t& chunk) const {
  int64_t idle = 0, late = 0;
  for (const Ticket& ticket : tickets_) {
    if (ticket.step != step_) {
      ++idle;
      continue;
    }
    const auto holders = std::count_if(tickets_.begin(), tickets_.end(), [&](const Ticket& t) {
      return t.step == step_ && t.chunk == ticket.chunk;
    });
    if (ticket.arrived || holders > 1) continue;
    if (late++ == 0 || ticket.chunk < chunk) chunk = ticket.chunk;
  }
  return late > 0 && late <= idle;
}

// Chooses the chunk of a draw; false if there is none now. Returned chunks come before new ones,
// the lowest first.
bool ReplicaPool::choose_chunk(int64_t& chunk) {
  if (!options_.requeue) {
    chunk = step_ * options_.replicas + next_++;
    return true;
  }
  if (!returned_.empty()) {
    chunk = returned_.front();
    returned_.erase(returned_.begin());
    return true;
  }
  if (next_ < limit_ * options_.quorum) {
    chunk = next_++;
    return true;
  }
  return choose_straggling(chunk);
}

// A replica draws once in each step. It is blocked until the step closes or the limit rises.
bool ReplicaPool::draw(int64_t replica, Ticket& ticket, uint64_t& await) {
  std::lock_guard lock(mutex_);
  Ticket& own = tickets_[static_cast<size_t>(replica)];
  int64_t chunk = 0;
  if (step_ >= limit_ || own.step == step_ || !choose_chunk(chunk)) {
    await = version_ + 1;
    return false;
  }
  own = ticket = {step_, chunk, false};
  return true;
}

// A late arrival, or a second one, changes nothing. Of two replicas with the same chunk, the first
// to arrive counts.
void ReplicaPool::arrive(int64_t replica) {
  uint64_t version;
  {
    std::lock_guard lock(mutex_);
    Ticket& own = tickets_[static_cast<size_t>(replica)];
    if (own.step != step_ || own.arrived) return;
    if (!brought(own.chunk)) arrived_.push_back(replica);
    own.arrived = true;
    version = ++version_;
  }
  events_.signal(version);
}

bool ReplicaPool::missed(int64_t replica, uint64_t& await) {
  std::lock_guard lock(mutex_);
  await = version_ + 1;
  return tickets_[static_cast<size_t>(replica)].step != step_;
}

// Selects the first N replicas that arrived.
void ReplicaPool::count_members(int64_t* members) {
  const auto chunk = [&](int64_t r) { return tickets_[static_cast<size_t>(r)].chunk; };
  int64_t* const end = std::copy_n(arrived_.begin(), options_.quorum, members);
  std::sort(members, end, [&](int64_t a, int64_t b) { return chunk(a) < chunk(b); });
  counted_.clear();
  for (const int64_t* r = members; r != end; ++r) counted_.push_back(chunk(*r));
}

// Returns the chunks of the step that do not count to the pool, and their number to the caller.
int64_t ReplicaPool::give_back() {
  int64_t dropped = 0;
  for (size_t r = 0; r < tickets_.size(); ++r) {
    const Ticket& ticket = tickets_[r];
    const auto earlier = [&](const Ticket& t) {
      return t.step == step_ && t.chunk == ticket.chunk;
    };
    // Three kinds of tickets are skipped: those of other steps, of chunks that counted, and of
    // chunks that an earlier replica holds as well.
    if (ticket.step != step_ ||
        std::binary_search(counted_.begin(), counted_.end(), ticket.chunk) ||
        std::any_of(tickets_.begin(), tickets_.begin() + static_cast<ptrdiff_t>(r), earlier))
      continue;
    ++dropped;
    if (!options_.requeue) continue;
    returned_.insert(std::lower_bound(returned_.begin(), returned_.end(), ticket.chunk),
                     ticket.chunk);
  }
  return dropped;
}

bool ReplicaPool::close(int64_t step, int64_t limit, int64_t* members, Closed& closed,
                        uint64_t& await) {
  uint64_t version;
  bool done = false;
  {
    std::lock_guard lock(mutex_);
    if (step != step_) {
      closed.status = internal_error(
          cat("replica pool: expected step ", step_, " to be closed, received ", step));
      return true;
    }
    // A higher limit releases replicas that wait for a chunk, also if the step stays open.
    const bool more = limit > limit_;
    limit_ = std::max(limit_, limit);
    done = arrived_.size() >= static_cast<size_t>(options_.quorum);
    // The order matters: give_back() needs the members' chunks and the tickets of the step that is
    // still open.
    if (done) {
      count_members(members);
      closed.dropped = give_back();
      arrived_.clear();
      ++step_;
      if (!options_.requeue) next_ = 0;
    }
    if (done || more) ++version_;
    version = version_;
    await = version_ + 1;
  }
  events_.signal(version);
  return done;
}

}  // namespace leat
