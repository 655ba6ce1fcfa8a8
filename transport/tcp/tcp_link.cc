#include "transport/tcp/tcp_link.h"

#include <algorithm>
#include <optional>

#include "devices/base/text.h"
#include "transport/links/credits.h"
#include "transport/links/express_link.h"
#include "transport/tcp/bulk_socket.h"

namespace leat::tcp {
namespace {

class TcpLink final : public ExpressLink, private CreditSink {
 public:
  TcpLink(Reactor& reactor, Wire express, Wire bulk, LinkSetup setup)
      : ExpressLink(state_, express_),
        reactor_(reactor),
        state_(std::move(setup)),
        express_(reactor, std::move(express), state_, true,
                 [this](const Status& status, bool closed) {
                   on_failure(status, closed, express_gone_);
                 }),
        credits_(state_, *this) {
    if (!bulk) return;
    bulk_.emplace(reactor, std::move(bulk), state_, [this](const Status& status, bool closed) {
      // The bulk socket carries no control, so the express socket tells the peer what is wrong.
      if (!closed && !state_.failed()) express_.send_abort(status);
      on_failure(status, closed, bulk_gone_);
    });
  }

  // Ends the waits on the link and its callbacks on the reactor before any member is destroyed.
  ~TcpLink() override {
    fail(cancelled(cat("link ", state_.setup().self, " to ", peer(), ": it was closed here")));
    reactor_.sync([this] {
      alive_.reset();
      express_.close();
      if (bulk_) bulk_->close();
    });
  }

  // On the reactor's thread, so that no byte is handled before all parts are open.
  Status open() {
    Status status;
    reactor_.sync([&] {
      credits_.start();
      status = express_.open();
      if (bulk_ && status.ok()) status = bulk_->open();
      if (status.ok()) beat_later();
    });
    return status;
  }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    return push(edge, turn, data, bytes, true);
  }
  Status push_in_place(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    return push(edge, turn, data, bytes, false);
  }
  Timeline* sent(uint32_t edge) override { return &state_.sent(edge); }
  void hold() override { express_.hold(); }
  Status flush() override { return express_.flush(); }

  void abort(const Status& cause) override {
    ExpressLink::abort(cause);
    // Values that are pushed in place must not be read after abort() has returned.
    if (bulk_) bulk_->stop_sending();
  }

 private:
  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes, bool wait) {
    LEAT_RETURN_IF_ERROR(state_.check_push(edge, turn, bytes).status());
    const std::span value(static_cast<const std::byte*>(data), bytes);
    // A small value is copied into a bundle, so its bytes may be reused at once.
    if (bytes <= kSmallBytes) {
      LEAT_RETURN_IF_ERROR(express_.push(edge, turn, value));
      state_.sent(edge).signal(turn + 1);  // copied
      return {};
    }
    const Status status = bulk_->push(edge, turn, value, wait);
    return status.ok() || state_.failed() ? status : express_.reason(status);
  }

  // Runs on the reactor. A peer that is cut off shows by bytes that it does not acknowledge, so
  // this keeps bytes under way at all times, even while a run only waits.
  void beat() {
    if (state_.failed()) return;
    express_.beat();
    beat_later();
  }
  void beat_later() {
    reactor_.post_after(kBeat, [this, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) beat();
    });
  }

  void retired(size_t i, uint64_t count) override { express_.credit(i, count); }

  // A peer that ends closes its two sockets one after the other, each after the bytes that it sent
  // there. All of those bytes still count, and the reason may be among them. So the link fails when
  // both are closed, or kLinger after the first. `gone` is the flag of the socket that closed.
  void on_failure(const Status& status, bool closed, bool& gone) {
    if (!closed || !bulk_ || !reactor_.is_this_thread()) return fail(status);
    const bool first = !express_gone_ && !bulk_gone_;
    // One socket has closed before, and this is the other one.
    const bool last = express_gone_ != bulk_gone_ && !gone;
    gone = true;
    if (last) return fail(status);
    if (!first) return;
    reactor_.post_after(kLinger, [this, status, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) fail(status);
    });
  }

  void fail(const Status& cause) {
    state_.fail(cause);
    express_.shut();
    if (bulk_) bulk_->shut();
  }

  Reactor& reactor_;
  static constexpr std::chrono::milliseconds kBeat{125};
  // The longest time that the second socket may stay open after the first has closed.
  static constexpr std::chrono::milliseconds kLinger{200};

  LinkState state_;
  bool express_gone_ = false, bulk_gone_ = false;  // for the reactor's thread
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  Express express_;
  std::optional<BulkSocket> bulk_;
  CreditFollower credits_;
};

}  // namespace

bool needs_bulk(const LinkSetup& setup) {
  const auto large = [](const LinkEdge& edge) { return edge.bytes > kSmallBytes; };
  return std::any_of(setup.incoming.begin(), setup.incoming.end(), large) ||
         std::any_of(setup.outgoing.begin(), setup.outgoing.end(), large);
}

Result<std::unique_ptr<Link>> make_link(Reactor& reactor, Wire express, Wire bulk,
                                        LinkSetup setup) {
  if (!express || (needs_bulk(setup) && !bulk)) {
    return invalid_argument(cat("link ", setup.self, " to ", setup.peer, ": expected ",
                                express ? "a bulk socket" : "an express socket",
                                " for its edges, there is none"));
  }
  auto link =
      std::make_unique<TcpLink>(reactor, std::move(express), std::move(bulk), std::move(setup));
  LEAT_RETURN_IF_ERROR(link->open());
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace leat::tcp
