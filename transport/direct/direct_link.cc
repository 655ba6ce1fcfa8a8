#include "transport/direct/direct_link.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "devices/base/text.h"
#include "devices/core/lost_device.h"
#include "transport/direct/announcement.h"
#include "transport/direct/inbound.h"
#include "transport/direct/inner_link.h"
#include "transport/direct/outbound.h"
#include "transport/direct/wire_offer.h"

namespace leat::direct {
namespace {

// A wire that failed waits so long for the reason of the inner link.
constexpr std::chrono::milliseconds kGrace{1000};

bool has(const std::vector<WireKind>& kinds, WireKind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// A slot of the inner link that its transport does not make itself.
class InnerSlot final : public Buffer {
 public:
  explicit InnerSlot(size_t bytes) : bytes_(bytes) {}
  void* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  size_t size() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

// The edges of the inner link for those of the plan.
std::vector<LinkEdge> announced(const std::vector<LinkEdge>& edges) {
  std::vector<LinkEdge> inner;
  for (const LinkEdge& edge : edges)
    inner.push_back({edge.edge, edge.bytes > 0 ? kAnnouncementBytes : 0});
  return inner;
}

}  // namespace

std::optional<WireKind> choose_wire(const Endpoint& here, const Endpoint& there) {
  const auto both = [&](WireKind kind) { return has(here.wires, kind) && has(there.wires, kind); };
  if (both(WireKind::ipc) && !here.machine.empty() && here.machine == there.machine)
    return WireKind::ipc;
  return both(WireKind::nccl) ? std::optional(WireKind::nccl) : std::nullopt;
}

// Why there can be no wires. No link is lost by it, and no other worker would do better.
Status no_wires(const Status& refused) {
  if (refused.code() != Code::unavailable && refused.code() != Code::deadline_exceeded)
    return refused;
  return failed_precondition(
      cat(refused.message(), "; with gpu_wires: none, values go through the host"));
}

// Threads: as Link says.
class DirectLinkMaker::State final : public Link {
 public:
  State(LinkSetup setup, WireSetup wires)
      : setup_(std::move(setup)),
        wires_(std::move(wires)),
        offer_out_(wires_.edges + (wires_.dials ? 0 : 1)),
        offer_in_(wires_.edges + (wires_.dials ? 1 : 0)),
        inner_slots_(size_t{wires_.edges} + 2),
        number_(wires_.memory->number()),
        inbound_(
            setup_, inner_slots_, [this](const Status& status) { fail(status); },
            [this](const Status& status) { (void)fail_wire(status).ok(); }),
        outbound_(setup_.outgoing, {[this](auto... value) { return announce(value...); },
                                    [this](const Status& status) { return fail_wire(status); }}) {}

  // The peer sees the inner link close before its wires end.
  ~State() override {
    const Status closed = cancelled(cat(subject(), ": it was closed here"));
    const bool first = claim(closed, false);
    inner_.close();
    if (first) end(closed);
    // A thread that has failed the link before may still be ending it.
    while (ending_.load() > 0) ::sched_yield();
    std::unique_ptr<Buffer> memory = inbound_.drop();
    outbound_.drop();
    if (wires_.kind != WireKind::ipc) return;
    if (peer_memory_ > 0) wires_.memory->closed_here(wires_.peer, peer_memory_);
    if (memory && offered_) wires_.memory->keep(wires_.peer, number_, std::move(memory));
  }

  Status open() { return no_wires(inbound_.open(wires_.kind, *wires_.device)); }

  LinkSetup inner_setup() {
    LinkSetup inner;
    inner.self = setup_.self;
    inner.peer = setup_.peer;
    inner.stall = setup_.stall;
    inner.slots = &inner_slots_;
    inner.incoming = announced(setup_.incoming);
    inner.outgoing = announced(setup_.outgoing);
    // The indices ascend: these are beyond the plan's.
    inner.incoming.push_back({offer_in_, kOfferBytes});
    inner.outgoing.push_back({offer_out_, kOfferBytes});
    return inner;
  }

  Status open_inner_slots() {
    for (const LinkEdge& edge : inner_setup().incoming) {
      std::vector<std::unique_ptr<Buffer>> slots;
      for (uint64_t i = 0; edge.bytes > 0 && i < kSlotDepth; ++i)
        slots.push_back(std::make_unique<InnerSlot>(edge.bytes));
      inner_slots_.open(edge.edge, edge.bytes, std::move(slots));
    }
    return {};
  }

  Status connect(std::unique_ptr<Link> inner, std::chrono::steady_clock::time_point deadline) {
    inner_.set(std::move(inner));
    // It may have been cancelled before there was an inner link to abort.
    if (const Status failed = status(); !failed.ok()) {
      inner_.get().abort(failed);
      return failed;
    }
    // No second offer comes: this wait ends with the failure of the inner link.
    inner_slots_.edge(offer_in_).arrived.when(2, [this](const Status& status) {
      fail(status.ok() ? invalid_argument(cat(subject(), ": a second offer of wires")) : status);
    });
    Status connected = connect_wires(deadline);
    // The inner link knows the cause, if it has failed, or is about to.
    if (!connected.ok()) (void)await_inner_failure().ok();
    if (status().ok() && connected.ok()) {
      outbound_.start();
      inbound_.start();
      return {};
    }
    abort(connected.while_doing(cat("connecting wires of kind ", name_of(wires_.kind))));
    return status();
  }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    LEAT_RETURN_IF_ERROR(push_in_place(edge, turn, data, bytes));
    if (!outbound_.carries(edge)) return {};
    return outbound_.sent(edge).wait(turn + 1, std::chrono::steady_clock::now() + setup_.stall);
  }
  Status push_in_place(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    if (!outbound_.carries(edge)) return inner_.get().push(edge, turn, data, bytes);
    LEAT_RETURN_IF_ERROR(status());
    return outbound_.push(edge, turn, data, bytes);
  }
  Timeline* sent(uint32_t edge) override {
    return outbound_.carries(edge) ? &outbound_.sent(edge) : nullptr;
  }
  bool takes_device_memory(uint32_t edge) const override { return outbound_.carries(edge); }
  void hold() override { inner_.get().hold(); }
  Status flush() override { return inner_.get().flush(); }
  Timeline& credit(uint32_t edge) override { return inner_.get().credit(edge); }
  void abort(const Status& cause) override { fail(cause); }

  const std::string& peer() const override { return setup_.peer; }
  Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  LinkFault fault() const override {
    {
      const std::lock_guard lock(mutex_);
      if (by_wire_) return LinkFault::lost;
    }
    return inner_.get().fault();
  }
  LinkCounters counters() const override {
    LinkCounters counters = inner_.get().counters();
    counters.bytes_by_wire = outbound_.bytes_sent();
    counters.bytes_sent += counters.bytes_by_wire;
    counters.bytes_received += inbound_.bytes_received();
    // The offers are no values of the plan.
    counters.values_sent -= std::min<uint64_t>(counters.values_sent, 1);
    counters.values_received -= std::min<uint64_t>(counters.values_received, 1);
    return counters;
  }
  std::string awaits() const override {
    for (const LinkEdge& edge : setup_.incoming) {
      const SlotTable::Edge& slot = setup_.slots->edge(edge.edge);
      const uint64_t arrived = slot.arrived.value();
      if (arrived > slot.retired.value()) continue;
      return cat(setup_.self, " awaits edge ", edge.edge, " turn ", arrived, " from ", setup_.peer);
    }
    return "";
  }

 private:
  std::string subject() const { return cat("link ", setup_.self, " to ", setup_.peer); }

  // Exchanges the offers, and connects the wires of both directions: first the dialer's values.
  Status connect_wires(std::chrono::steady_clock::time_point deadline) {
    WireOffer own{number_, inbound_.offer(), {}};
    if (wires_.kind == WireKind::ipc) own.closed = wires_.memory->closed_here(wires_.peer);
    if (own.offer.size() > kMostOfferBytes)
      return internal_error("the offer of a wire is too long");
    const auto bytes = own.written();
    offered_ = true;
    LEAT_RETURN_IF_ERROR(inner_.get().push(offer_out_, 0, bytes.data(), bytes.size()));
    LEAT_RETURN_IF_ERROR(inner_slots_.edge(offer_in_).arrived.wait(1, deadline));
    const auto theirs = WireOffer::read(inner_slots_.slot(offer_in_, 0));
    if (!theirs.ok()) return broken_protocol(theirs.status().message());
    wires_.memory->closed_by(wires_.peer, theirs->closed);
    peer_memory_ = theirs->memory;
    if (wires_.dials) LEAT_RETURN_IF_ERROR(connect_sender(theirs->offer, deadline));
    LEAT_RETURN_IF_ERROR(no_wires(inbound_.connect(deadline)));
    return wires_.dials ? Status() : connect_sender(theirs->offer, deadline);
  }

  Status connect_sender(const std::string& offer, std::chrono::steady_clock::time_point deadline) {
    if (!outbound_.has_wire()) return {};
    if (offer.empty()) return broken_protocol("expected the offer of a wire, received none");
    auto sender = wires_.device->make_wire_sender(wires_.kind, offer);
    if (!sender.ok()) return no_wires(sender.status());
    return no_wires(outbound_.connect(std::move(*sender), wires_.kind, deadline));
  }

  Status broken_protocol(std::string_view what) const {
    return invalid_argument(cat(subject(), ": ", setup_.peer, " broke the protocol: ", what));
  }

  // An announcement after the end of the inner link is not needed any more.
  Status announce(uint32_t edge, uint64_t turn, uint64_t number) {
    const Announcement announced(number);
    Status pushed = cancelled(cat(subject(), ": it is closed"));
    inner_.use([&](Link& inner) {
      pushed = inner.push(edge, turn, announced.bytes.data(), kAnnouncementBytes);
    });
    return pushed;
  }

  // A failure of the inner link, or of the run.
  void fail(const Status& cause) { end_once(cause, false); }
  // The failure of the inner link, for which a failed wire waits a little: the end of a peer, and
  // its abort, may reach the wire before they reach the inner link, which knows the cause.
  Status await_inner_failure() {
    const auto until = std::chrono::steady_clock::now() + kGrace;
    const Status inner = inner_slots_.edge(offer_in_).arrived.wait(2, until);
    return inner.code() == Code::deadline_exceeded ? Status() : inner;
  }
  // Returns the failure of the link. This end has the cause itself unless its wire says that the
  // other end has failed.
  Status fail_wire(const Status& cause) {
    if (const Status failed = status(); !failed.ok()) return failed;
    const bool may_be_theirs =
        (cause.code() == Code::unavailable || cause.code() == Code::internal) &&
        !is_lost(*wires_.device);
    const Status inner = may_be_theirs ? await_inner_failure() : Status();
    if (!inner.ok()) {
      end_once(inner, false);
      return status();
    }
    // Only the wire itself says that the other end has failed. Any other error that is not the
    // device's is nobody's: another assembly may do better.
    const bool is_theirs = cause.code() == Code::unavailable && !is_lost(*wires_.device);
    const Code code = cause.code() == Code::internal ? Code::unavailable : cause.code();
    end_once(Status(code, cat(subject(), ": wire (", name_of(wires_.kind), "): ", cause.message())),
             is_theirs);
    return status();
  }
  void end_once(const Status& cause, bool by_wire) {
    ending_.fetch_add(1);
    if (claim(cause, by_wire)) end(cause);
    ending_.fetch_sub(1);
  }
  // Notes the first failure. False if there was one before.
  bool claim(const Status& cause, bool by_wire) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return false;
    status_ = cause;
    by_wire_ = by_wire;
    return true;
  }
  // Ends every wait on the link, here and at the peer. The peer hears of it before its wires end.
  void end(const Status& cause) {
    inner_.use([&](Link& inner) { inner.abort(cause); });
    inbound_.stop(cause);
    outbound_.stop(cause);
    if (setup_.on_failure) setup_.on_failure();
  }

  const LinkSetup setup_;
  const WireSetup wires_;
  const uint32_t offer_out_, offer_in_;  // the edges of the offers
  SlotTable inner_slots_;
  const uint64_t number_;     // of the memory in which values arrive
  uint64_t peer_memory_ = 0;  // the number of that at the other end
  bool offered_ = false;      // it may be open there
  mutable std::mutex mutex_;
  Status status_;
  bool by_wire_ = false;        // a wire failed, and the inner link had not
  std::atomic<int> ending_{0};  // threads that end the link
  InnerLink inner_;
  Inbound inbound_;
  Outbound outbound_;
};

DirectLinkMaker::DirectLinkMaker(std::unique_ptr<State> state)
    : link_(state.get()), state_(std::move(state)) {}
DirectLinkMaker::DirectLinkMaker(DirectLinkMaker&&) noexcept = default;
DirectLinkMaker::~DirectLinkMaker() = default;

Result<DirectLinkMaker> DirectLinkMaker::create(LinkSetup setup, WireSetup wires) {
  auto state = std::make_unique<State>(std::move(setup), std::move(wires));
  LEAT_RETURN_IF_ERROR(state->open());
  return DirectLinkMaker(std::move(state));
}

LinkSetup DirectLinkMaker::inner_setup() const { return state_->inner_setup(); }

Status DirectLinkMaker::open_inner_slots() { return state_->open_inner_slots(); }

Result<std::unique_ptr<Link>> DirectLinkMaker::connect(
    std::unique_ptr<Link> inner, std::chrono::steady_clock::time_point deadline) {
  LEAT_RETURN_IF_ERROR(state_->connect(std::move(inner), deadline));
  return std::unique_ptr<Link>(std::move(state_));
}

void DirectLinkMaker::cancel(const Status& cause) { link_->abort(cause); }

}  // namespace leat::direct
