#include "transport/local/local_link.h"

#include <sched.h>

#include <cstring>

#include "devices/base/text.h"
#include "transport/links/credits.h"

namespace leat::local {
namespace {

// One end as the other one sees it. The other end's link keeps it alive, but not its slots: every
// call from the other end enters first, and close() waits until all calls have left.
struct End {
  explicit End(LinkSetup setup) : state(std::move(setup)) {}

  // False if this end is closed. Counted before the look at `closed`, so that close() misses no
  // call.
  bool enter() {
    inside.fetch_add(1);
    if (!closed.load()) return true;
    leave();
    return false;
  }
  void leave() { inside.fetch_sub(1); }
  void close() {
    closed.store(true);
    while (inside.load() > 0) sched_yield();
  }

  LinkState state;
  std::atomic<int> inside{0};
  std::atomic<bool> closed{false};
};

// One end of the pair. It shares both ends with the link at the other one.
class LocalLink final : public Link, private CreditSink {
 public:
  LocalLink(std::shared_ptr<End> self, std::shared_ptr<End> other)
      : self_(std::move(self)), other_(std::move(other)), credits_(self_->state, *this) {
    credits_.start();
  }

  // Fails its own side, then the peer's, and then keeps the peer out.
  ~LocalLink() override {
    LinkState& state = self_->state;
    state.fail(cancelled(cat("link ", state.setup().self, " to ", peer(), ": it was closed here")));
    tell([&](LinkState& peer_state) {
      peer_state.fail(peer_state.peer_gone(LinkFault::closed,
                                           cat(state.setup().self, " closed the connection")));
    });
    self_->close();
  }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    LinkState& state = self_->state;
    LEAT_RETURN_IF_ERROR(state.check_push(edge, turn, bytes).status());
    Status status;
    // The value lands on this thread: the peer's timelines are signalled here.
    const bool told = tell([&](LinkState& to) { status = deliver(to, edge, turn, data, bytes); });
    if (!told) status = state.peer_gone(LinkFault::closed, cat(peer(), " closed the connection"));
    if (!status.ok()) {
      state.fail(status);
      return state.status();
    }
    state.count_sent(1, bytes);
    return {};
  }

  Timeline& credit(uint32_t edge) override { return self_->state.credit(edge); }

  void abort(const Status& cause) override {
    // The peer gets the cause with the name of this side.
    if (!self_->state.fail(cause)) return;
    tell([&](LinkState& to) {
      to.fail(Status(cause.code(), cat(to.setup().peer, " failed: ", cause.message())));
    });
  }

  const std::string& peer() const override { return self_->state.setup().peer; }
  Status status() const override { return self_->state.status(); }
  LinkCounters counters() const override { return self_->state.counters(); }
  std::string awaits() const override { return self_->state.awaits(); }

 private:
  // The peer's half of a push: admits the value, copies it into the slot, and raises `arrived`.
  static Status deliver(LinkState& to, uint32_t edge, uint64_t turn, const void* data,
                        size_t bytes) {
    LEAT_ASSIGN_OR_RETURN(std::byte* const slot, to.admit(edge, turn, bytes));
    if (slot) std::memcpy(slot, data, bytes);
    to.count_received(1, bytes);
    Raised raised;
    to.landed(edge, raised);
    raised.signal();
    return {};
  }

  // Gives the peer its credit at once.
  void retired(size_t i, uint64_t count) override {
    const uint32_t edge = self_->state.setup().incoming[i].edge;
    tell([&](LinkState& to) {
      Raised raised;
      // The count comes from this process, so that it cannot be wrong.
      static_cast<void>(to.credited(edge, count, raised).ok());
      raised.signal();
    });
  }

  // Calls `work` with the state of the other end. False if that end is closed.
  template <typename Work>
  bool tell(const Work& work) {
    if (!other_->enter()) return false;
    work(other_->state);
    other_->leave();
    return true;
  }

  const std::shared_ptr<End> self_, other_;
  CreditFollower credits_;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_links(LinkSetup a, LinkSetup b) {
  auto end_a = std::make_shared<End>(std::move(a)), end_b = std::make_shared<End>(std::move(b));
  return {std::make_unique<LocalLink>(end_a, end_b), std::make_unique<LocalLink>(end_b, end_a)};
}

}  // namespace leat::local
