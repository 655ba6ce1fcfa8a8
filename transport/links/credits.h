// Hears of every value that the executor retires on a link's incoming edges.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/links/link_state.h"

namespace leat {

// Whom it tells: the i-th incoming edge has retired `count` values.
// Threads: called on the thread that retires.
class CreditSink {
 public:
  virtual void retired(size_t i, uint64_t count) = 0;

 protected:
  ~CreditSink() = default;
};

// Follows the `retired` of the incoming edges from start() until the link fails, with one callback
// at a time that allocates nothing. `state` and `sink` outlive that failure.
class CreditFollower {
 public:
  CreditFollower(LinkState& state, CreditSink& sink) : state_(state), sink_(sink) {}
  void start() {
    for (size_t i = 0; i < state_.setup().incoming.size(); ++i) await(i, 1);
  }

 private:
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
