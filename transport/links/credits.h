// Tells a link of every value that the executor retires on its incoming edges, so that the link can
// give the peer credit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/links/link_state.h"

namespace leat {

// The receiver of that news: the link.
// Threads: called on the thread that retires, for one edge by one thread at a time.
class CreditSink {
 public:
  // The executor has retired `count` values of the i-th incoming edge, counted from the start.
  virtual void retired(size_t i, uint64_t count) = 0;

 protected:
  ~CreditSink() = default;
};

// Follows the `retired` timelines of the incoming edges from start() until the link fails. Each
// edge has one callback at a time, and a callback allocates nothing. `state` and `sink` outlive
// that failure.
class CreditFollower {
 public:
  CreditFollower(LinkState& state, CreditSink& sink) : state_(state), sink_(sink) {}
  // Begins to follow. The sink may be called before start() returns.
  void start() {
    for (size_t i = 0; i < state_.setup().incoming.size(); ++i) await(i, 1);
  }

 private:
  // The callback awaits the next count again before it returns: no news is lost, and several values
  // that are retired at once are one call.
  void await(size_t i, uint64_t count) {
    retired(i).when(count, [this, i](const Status& status) {
      if (!status.ok()) return;
      const uint64_t now = retired(i).value();
      sink_.retired(i, now);
      await(i, now + 1);
    });
  }
  Timeline& retired(size_t i) {
    return state_.setup().slots->edge(state_.setup().incoming[i].edge).retired;
  }

  LinkState& state_;
  CreditSink& sink_;
};

}  // namespace leat
