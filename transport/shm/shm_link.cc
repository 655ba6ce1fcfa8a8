#include "transport/shm/shm_link.h"

#include <algorithm>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "transport/links/credits.h"
#include "transport/links/express_link.h"

namespace leat::shm {
namespace {

// A step that sends more than this does not fit in the cache until the receiver reads it.
constexpr uint64_t kMostCached = 12 << 20;

// The bytes that all values of one step have together.
uint64_t bytes_of_step(const std::vector<LinkEdge>& edges) {
  uint64_t bytes = 0;
  for (const LinkEdge& edge : edges) bytes += edge.bytes;
  return bytes;
}

class ShmLink final : public ExpressLink, private CreditSink, private Waiter::Polled {
 public:
  ShmLink(Reactor& reactor, Waiter& waiter, Descriptor socket, Arena mine, Arena theirs, Bell bell,
          std::shared_ptr<const Outbox> outbox, LinkSetup setup)
      : ExpressLink(state_, express_),
        reactor_(reactor),
        waiter_(waiter),
        state_(std::move(setup)),
        mine_(std::move(mine)),
        theirs_(std::move(theirs)),
        outbox_(std::move(outbox)),
        bell_(std::move(bell)),
        streams_(bytes_of_step(state_.setup().outgoing) > kMostCached),
        credits_told_(state_.setup().incoming.size()),
        published_(state_.setup().incoming.size()),
        raised_(kSlotDepth * state_.setup().incoming.size() + state_.setup().outgoing.size()),
        express_(reactor, std::move(socket), state_, false,
                 [this](const Status& status, bool) { on_failure(status); }),
        credits_(state_, *this) {}

  // The waits end first. Then the waiter and the reactor let the link go, before its members are
  // destroyed.
  ~ShmLink() override {
    fail(cancelled(cat("link ", state_.setup().self, " to ", peer(), ": it was closed here")));
    waiter_.remove(*this);
    reactor_.sync([this] { express_.close(); });
  }

  // The order matters: the link follows its retired values before the waiter can deliver one.
  Status open() {
    credits_.start();
    waiter_.add(*this);
    Status status;
    reactor_.sync([&] { status = express_.open(); });
    return status;
  }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    LEAT_ASSIGN_OR_RETURN(const size_t i, state_.check_push(edge, turn, bytes));
    std::byte* const slot = slot_of(edge, i, turn);
    if (data != slot && is_shared(edge))  // other consumers may still read the slot's old value
      return internal_error(cat("edge ", edge, ": expected its value in the outbox"));
    if (data != slot) copy(slot, data, bytes);
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/publish"));
    state_.count_sent(0, bytes);
    // The release puts the bytes of the value before its number, for the reader that acquires it.
    theirs_.published(i).store(turn + 1, std::memory_order_release);
    ring();
    return {};
  }

  void* place(uint32_t edge, uint64_t turn) override {
    return slot_of(edge, state_.outgoing_index(edge), turn);
  }

  void hold() override { holds_.fetch_add(1); }
  Status flush() override {
    if (holds_.fetch_sub(1) == 1 && owed_ring_.exchange(false)) ring();
    return state_.status();
  }

 private:
  // True if several consumers read the edge's value in the outbox.
  bool is_shared(uint32_t edge) const { return outbox_ && outbox_->has(edge); }
  std::byte* slot_of(uint32_t edge, size_t i, uint64_t turn) const {
    return is_shared(edge) ? outbox_->slot(edge, turn) : theirs_.slot(i, turn);
  }

  // If what a step sends fits the cache, values are copied through it, and the receiver finds them
  // there. Otherwise the copy goes past the cache, with the help of the waiter.
  void copy(void* slot, const void* data, size_t bytes) const {
    if (streams_)
      waiter_.copy(slot, data, bytes);
    else if (bytes > 0)
      std::memcpy(slot, data, bytes);
  }

  void ring() {
    // The thread that holds may flush between the two looks at `holds_`. Then either that flush()
    // sees the owed ring, or this call does.
    if (holds_.load() > 0) {
      owed_ring_.store(true);
      if (holds_.load() > 0) return;  // the flush() of the thread that holds will ring
      if (!owed_ring_.exchange(false)) return;
    }
    state_.count_sent(1, 0);
    rings_.fetch_add(1, std::memory_order_seq_cst);
    bell_.ring();
  }

  // As over a socket, a credit goes with the next ring. It rings by itself only if the peer may be
  // waiting for it. A ring announces all credits that were stored before it.
  void retired(size_t i, uint64_t count) override {
    Credit& credit = credits_told_[i];
    mine_.retired(i).store(count, std::memory_order_seq_cst);
    if (credit.rings != rings_.load(std::memory_order_seq_cst)) credit.told = credit.stored;
    if (state_.setup().outgoing.empty() || count - credit.told >= kSlotDepth) {
      ring();
      if (holds_.load() == 0) credit.told = count;
    }
    credit.stored = count;
    credit.rings = rings_.load(std::memory_order_seq_cst);
  }

  bool poll() override {
    if (state_.failed()) return false;
    // Values that the peer published before its socket closed still count.
    const bool ending = gone_.load(std::memory_order_acquire);
    const Result<bool> news = look();
    if (!news.ok()) {
      express_.send_abort(news.status());
      fail(news.status());
    } else if (ending) {
      std::unique_lock lock(mutex_);
      const Status why = gone_status_;
      lock.unlock();
      fail(why);
    } else if (*news) {
      state_.count_received(1, 0);
      return true;
    }
    return false;
  }

  // A receiver of a value must already have every credit that the peer gave before that value. So
  // this reads the published counters first, and passes on the credits first.
  Result<bool> look() {
    const LinkSetup& setup = state_.setup();
    bool news = false;
    for (size_t i = 0; i < setup.incoming.size(); ++i)
      published_[i] = mine_.published(i).load(std::memory_order_acquire);
    for (size_t i = 0; i < setup.outgoing.size(); ++i) {
      const uint64_t count = theirs_.retired(i).load(std::memory_order_acquire);
      const uint32_t edge = setup.outgoing[i].edge;
      if (count == state_.credit(edge).value()) continue;
      LEAT_RETURN_IF_ERROR(state_.credited(edge, count, raised_));
      news = true;
    }
    for (size_t i = 0; i < setup.incoming.size(); ++i) {
      if (published_[i] == state_.taken(i)) continue;
      LEAT_RETURN_IF_ERROR(take(i, published_[i]));
      news = true;
    }
    raised_.signal();
    return news;
  }

  // Takes the values up to the published number. Each is judged, as if it had come over a wire.
  Status take(size_t i, uint64_t published) {
    const LinkEdge& edge = state_.setup().incoming[i];
    if (published < state_.taken(i))
      return state_.protocol_error(cat("edge ", edge.edge, ": it took values back"));
    while (state_.taken(i) < published) {
      const auto admitted = state_.admit(edge.edge, state_.taken(i), edge.bytes);
      LEAT_RETURN_IF_ERROR(admitted.status());
      LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/take_value"));
      state_.count_received(0, edge.bytes);
      state_.landed(edge.edge, raised_);
    }
    return {};
  }

  // Called when the socket fails. The waiter looks once more at the published counters, and then
  // fails the link.
  void on_failure(const Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (gone_.load(std::memory_order_relaxed)) return;
      gone_status_ = status;
      gone_.store(true, std::memory_order_release);
    }
    waiter_.bell().ring();
  }

  void fail(const Status& cause) {
    state_.fail(cause);
    express_.shut();
  }

  Reactor& reactor_;
  Waiter& waiter_;
  LinkState state_;
  const Arena mine_, theirs_;
  const std::shared_ptr<const Outbox> outbox_;
  Bell bell_;
  const bool streams_;
  struct Credit {
    uint64_t told = 0, stored = 0;
    uint64_t rings = 0;  // the number of rings when `stored` was stored
  };
  std::vector<Credit> credits_told_;  // one for each incoming edge
  std::vector<uint64_t> published_;   // for each incoming edge, the count at the waiter's last look
  Raised raised_;                     // used by the waiter only
  std::atomic<uint64_t> rings_{0};
  std::atomic<int> holds_{0};
  std::atomic<bool> owed_ring_{false};
  std::mutex mutex_;
  std::atomic<bool> gone_{false};
  Status gone_status_;
  Express express_;
  CreditFollower credits_;
};

}  // namespace

Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Waiter& waiter, Descriptor socket,
                                        Arena arena, LinkSetup setup, Deadline deadline,
                                        std::shared_ptr<const Outbox> outbox) {
  const std::string subject = cat("link ", setup.self, " to ", setup.peer, ": sharing memory");
  constexpr std::string_view kHere = "LEATSHM1";
  // Both ends send first and receive then, so that neither waits for the other.
  const int mine[] = {arena.descriptor(), waiter.bell().descriptor()};
  LEAT_RETURN_IF_ERROR(
      send_descriptors(socket.get(), std::as_bytes(std::span(kHere)), mine, deadline, subject));
  std::array<std::byte, kHere.size()> word;
  LEAT_ASSIGN_OR_RETURN(std::vector<Descriptor> files,
                        receive_descriptors(socket.get(), word, 2, deadline, subject));
  if (std::memcmp(word.data(), kHere.data(), word.size()) != 0)
    return invalid_argument(cat(subject, ": expected the peer's shared memory"));
  LEAT_ASSIGN_OR_RETURN(
      Arena theirs,
      Arena::open(std::move(files[0]), edges_outside(setup.outgoing, outbox.get()), setup.peer));
  // The bell is that of the peer's process: its other links share it.
  LEAT_ASSIGN_OR_RETURN(Bell bell, Bell::open(std::move(files[1]), setup.peer));
  auto link = std::make_unique<ShmLink>(reactor, waiter, std::move(socket), std::move(arena),
                                        std::move(theirs), std::move(bell), std::move(outbox),
                                        std::move(setup));
  LEAT_RETURN_IF_ERROR(link->open());
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace leat::shm
