#include "transport/direct/direct_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "transport/direct/announcement.h"
#include "transport/direct/inbound.h"
#include "transport/direct/outbound.h"

namespace leat::direct {
namespace {

// An offer on its way: its length in 8 bytes, and its bytes.
constexpr size_t kOfferBytes = kAnnouncementBytes + kMostOfferBytes;

// A wire that failed waits so long for the reason of the inner link.
constexpr std::chrono::milliseconds kGrace{200};

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

// Threads: as Link says.
class DirectLinkMaker::State final : public Link {
 public:
  State(LinkSetup setup, WireKind kind, Device& device, uint32_t edges, bool dials)
      : setup_(std::move(setup)),
        kind_(kind),
        device_(device),
        offer_out_(edges + (dials ? 0 : 1)),
        offer_in_(edges + (dials ? 1 : 0)),
        inner_slots_(size_t{edges} + 2),
        inbound_(
            setup_, inner_slots_, [this](const Status& status) { fail(status); },
            [this](const Status& status) { fail_wire(status); }),
        outbound_(
            setup_.outgoing, [this](const Status& status) { fail(status); },
            [this](const Status& status) { fail_wire(status); }) {}

  // The wires come first: their threads use everything else.
  ~State() override {
    const Status closed = cancelled(cat(subject(), ": it was closed here"));
    const bool first = claim(closed, false);
    stop(closed);
    if (first) {
      inbound_.fail(closed);
      outbound_.fail(closed);
      if (setup_.on_failure) setup_.on_failure();
    }
    inbound_.drop();
    outbound_.drop();
    inner_.reset();
  }

  Status open() { return inbound_.open(kind_, device_); }

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
    inner_ = std::move(inner);
    auto sender = connect_wires(deadline);
    if (!sender.ok()) {
      const Status failed =
          sender.status().while_doing(cat("connecting wires of kind ", name_of(kind_)));
      inner_->abort(failed);
      return failed;
    }
    outbound_.start(std::move(*sender), kind_, *inner_);
    inbound_.start();
    // No second offer comes: this wait ends with the failure of the inner link.
    inner_slots_.edge(offer_in_).arrived.when(2, [this](const Status& status) {
      fail(status.ok() ? invalid_argument(cat(subject(), ": a second offer of wires")) : status);
    });
    return {};
  }

  Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    LEAT_RETURN_IF_ERROR(push_in_place(edge, turn, data, bytes));
    if (!outbound_.carries(edge)) return {};
    return outbound_.sent(edge).wait(turn + 1, std::chrono::steady_clock::now() + setup_.stall);
  }
  Status push_in_place(uint32_t edge, uint64_t turn, const void* data, size_t bytes) override {
    if (!outbound_.carries(edge)) return inner_->push(edge, turn, data, bytes);
    LEAT_RETURN_IF_ERROR(status());
    return outbound_.push(edge, turn, data, bytes);
  }
  Timeline* sent(uint32_t edge) override {
    return outbound_.carries(edge) ? &outbound_.sent(edge) : nullptr;
  }
  bool takes_device_memory(uint32_t edge) const override { return outbound_.carries(edge); }
  void hold() override { inner_->hold(); }
  Status flush() override { return inner_->flush(); }
  Timeline& credit(uint32_t edge) override { return inner_->credit(edge); }

  // The peer hears of it before its wires end. The devices stop also if the link has failed before.
  void abort(const Status& cause) override {
    const bool first = claim(cause, false);
    if (first) inner_->abort(cause);
    stop(cause);
    if (first) end(cause);
  }

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
    return inner_->fault();
  }
  LinkCounters counters() const override {
    LinkCounters counters = inner_->counters();
    counters.bytes_by_wire = outbound_.bytes_sent();
    counters.bytes_sent += counters.bytes_by_wire;
    counters.bytes_received += inbound_.bytes_received();
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
  Result<std::unique_ptr<WireSender>> connect_wires(
      std::chrono::steady_clock::time_point deadline) {
    std::array<std::byte, kOfferBytes> out{};
    const std::string own = inbound_.offer();
    if (own.size() > kMostOfferBytes) return internal_error("the offer of a wire is too long");
    const Announcement length(own.size());
    std::copy(length.bytes.begin(), length.bytes.end(), out.begin());
    std::memcpy(out.data() + kAnnouncementBytes, own.data(), own.size());
    LEAT_RETURN_IF_ERROR(inner_->push(offer_out_, 0, out.data(), out.size()));
    LEAT_RETURN_IF_ERROR(inner_slots_.edge(offer_in_).arrived.wait(1, deadline));
    LEAT_ASSIGN_OR_RETURN(std::unique_ptr<WireSender> sender, make_sender());
    const auto connect_sender = [&] { return sender ? sender->connect(deadline) : Status(); };
    const bool dials = offer_out_ < offer_in_;
    if (dials) LEAT_RETURN_IF_ERROR(connect_sender());
    LEAT_RETURN_IF_ERROR(inbound_.connect(deadline));
    if (!dials) LEAT_RETURN_IF_ERROR(connect_sender());
    return sender;
  }

  // Null if no values go out.
  Result<std::unique_ptr<WireSender>> make_sender() {
    if (!outbound_.has_wire()) return std::unique_ptr<WireSender>();
    const auto* in = static_cast<const std::byte*>(inner_slots_.slot(offer_in_, 0));
    const uint64_t length = Announcement::read(in);
    if (length == 0 || length > kMostOfferBytes) {
      return invalid_argument(cat(subject(), ": ", setup_.peer,
                                  " broke the protocol: expected the offer of a wire of 1 to ",
                                  kMostOfferBytes, " bytes, received ", length));
    }
    return device_.make_wire_sender(
        kind_, {reinterpret_cast<const char*>(in) + kAnnouncementBytes, length});
  }

  void stop(const Status& cause) {
    inbound_.stop(cause);
    outbound_.stop(cause);
  }

  void fail(const Status& cause) {
    if (claim(cause, false)) end(cause);
  }
  // The end of a peer, and its abort, may reach the wire before they reach the inner link, which
  // knows the cause.
  void fail_wire(const Status& cause) {
    if (!status().ok()) return;
    const auto until = std::chrono::steady_clock::now() + kGrace;
    const Status inner = inner_slots_.edge(offer_in_).arrived.wait(2, until);
    if (!inner.ok() && inner.code() != Code::deadline_exceeded) return fail(inner);
    const bool by_wire = cause.code() == Code::unavailable;
    const Status told(cause.code(),
                      cat(subject(), ": wire (", name_of(kind_), "): ", cause.message()));
    if (claim(told, by_wire)) end(told);
  }
  // Notes the first failure. False if there was one before.
  bool claim(const Status& cause, bool by_wire) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return false;
    status_ = cause;
    by_wire_ = by_wire;
    return true;
  }
  // Ends every wait on the link, here and at the peer.
  void end(const Status& cause) {
    inbound_.fail(cause);
    outbound_.fail(cause);
    if (inner_) inner_->abort(cause);
    if (setup_.on_failure) setup_.on_failure();
  }

  const LinkSetup setup_;
  const WireKind kind_;
  Device& device_;
  const uint32_t offer_out_, offer_in_;  // the edges of the offers
  SlotTable inner_slots_;
  mutable std::mutex mutex_;
  Status status_;
  bool by_wire_ = false;  // a wire failed, and the inner link had not
  std::unique_ptr<Link> inner_;
  Inbound inbound_;
  Outbound outbound_;
};

DirectLinkMaker::DirectLinkMaker(std::unique_ptr<State> state) : state_(std::move(state)) {}
DirectLinkMaker::DirectLinkMaker(DirectLinkMaker&&) noexcept = default;
DirectLinkMaker::~DirectLinkMaker() = default;

Result<DirectLinkMaker> DirectLinkMaker::create(LinkSetup setup, WireKind kind, Device& device,
                                                uint32_t edges, bool dials) {
  auto state = std::make_unique<State>(std::move(setup), kind, device, edges, dials);
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

}  // namespace leat::direct
