#include "transport/links/link_state.h"

#include <algorithm>
#include <cerrno>

#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

// Enough for both sockets, each way, and for the threads that push.
constexpr size_t kMostFaults = 16;

}  // namespace

std::string_view name_of(LinkFault fault) {
  static constexpr std::string_view kNames[] = {"none", "closed", "lost", "damaged"};
  return kNames[static_cast<size_t>(fault)];
}

// A table from the first to the last edge of the link: the indices of a plan's edges are dense.
LinkState::Places::Places(const std::vector<LinkEdge>& edges) {
  if (edges.empty()) return;
  first_ = edges.front().edge;
  places_.assign(edges.back().edge - first_ + 1, kNowhere);
  for (size_t i = 0; i < edges.size(); ++i) places_[edges[i].edge - first_] = i;
}

LinkState::LinkState(LinkSetup setup)
    : setup_(std::move(setup)),
      incoming_places_(setup_.incoming),
      outgoing_places_(setup_.outgoing) {
  for (const LinkEdge& edge : setup_.incoming) incoming_.push_back({edge});
  for (const LinkEdge& edge : setup_.outgoing) {
    outgoing_.push_back(std::make_unique<Outgoing>());
    outgoing_.back()->edge = edge;
  }
}

// Nothing may wait on the timelines that this destroys.
LinkState::~LinkState() {
  fail(cancelled(cat("link ", setup_.self, " to ", setup_.peer, ": it was closed here")));
}

LinkState::Incoming* LinkState::find_incoming(uint32_t edge) {
  const size_t i = incoming_places_.find(edge);
  return i == Places::kNowhere ? nullptr : &incoming_[i];
}

// A push that breaks these rules is a bug on this side, and the link goes on.
Result<size_t> LinkState::check_push(uint32_t edge, uint64_t turn, size_t bytes) {
  if (failed()) return status();
  const size_t place = outgoing_places_.find(edge);
  Outgoing* out = place == Places::kNowhere ? nullptr : outgoing_[place].get();
  const auto subject = [&] {
    return cat("link ", setup_.self, " to ", setup_.peer, ": edge ", edge, " turn ", turn, ": ");
  };
  if (!out) return invalid_argument(subject() + "there is no such outgoing edge");
  if (bytes != out->edge.bytes)
    return invalid_argument(cat(subject(), "expected ", out->edge.bytes, " bytes, pushed ", bytes));
  if (turn < out->next_turn)
    return failed_precondition(cat(subject(), "expected turn ", out->next_turn, " or a later one"));
  if (turn >= kSlotDepth && out->credit.value() < turn - (kSlotDepth - 1)) {
    return failed_precondition(cat(subject(), "expected credit for ", turn + 1 - kSlotDepth,
                                   " turns, there is ", out->credit.value()));
  }
  out->next_turn = turn + 1;
  values_sent_.fetch_add(1, std::memory_order_relaxed);
  return place;
}

// A sender passes over turns that the receiver has closed meanwhile, as a backup worker that lags
// behind does, and never over others.
Status LinkState::check_turn(const Incoming& in, uint64_t turn) const {
  const uint64_t retired = setup_.slots->edge(in.edge.edge).retired.value();
  const auto says = [&](std::string_view what) {
    return protocol_error(cat("edge ", in.edge.edge, " turn ", turn, ": ", what, ": expected turn ",
                              in.next_turn, ", ", retired, " retired"));
  };
  if (turn < in.next_turn) return says("it came before");
  if (turn >= retired + kSlotDepth) return says("it is early");
  if (turn > std::max(in.next_turn, retired)) return says("a turn before it is missing");
  return {};
}

// The later pieces of a value are part of a turn that was judged with the first one.
Result<LinkState::Incoming*> LinkState::begin(uint32_t edge, uint64_t turn) {
  Incoming* in = find_incoming(edge);
  if (!in)
    return protocol_error(cat("edge ", edge, " turn ", turn, ": there is no such incoming edge"));
  if (in->next_piece > 0) return in;
  LEAT_RETURN_IF_ERROR(check_turn(*in, turn));
  in->turn = turn;
  // The receiver may close the turn while the value is on its way.
  in->late = turn < setup_.slots->edge(edge).retired.value();
  return in;
}

// The size must be the plan's, since it decides how many bytes are written into the slot.
Result<std::byte*> LinkState::admit(uint32_t edge, uint64_t turn, uint64_t bytes) {
  LEAT_ASSIGN_OR_RETURN(Incoming * in, begin(edge, turn));
  if (bytes != in->edge.bytes) {
    return protocol_error(cat("edge ", edge, " turn ", turn, ": expected ", in->edge.bytes,
                              " bytes, received ", bytes));
  }
  if (in->late || bytes == 0) return nullptr;
  return static_cast<std::byte*>(setup_.slots->slot(edge, turn));
}

// Pieces come in order and all full, so that the place of each follows from its number.
Result<std::byte*> LinkState::admit_piece(uint32_t edge, uint64_t turn, uint64_t piece,
                                          uint64_t bytes) {
  LEAT_ASSIGN_OR_RETURN(Incoming * in, begin(edge, turn));
  const auto subject = [&] { return cat("edge ", edge, " turn ", turn, " piece ", piece, ": "); };
  if (in->edge.bytes <= kSmallBytes) return protocol_error(subject() + "expected it in a bundle");
  if (turn != in->turn || piece != in->next_piece)
    return protocol_error(cat(subject(), "expected turn ", in->turn, " piece ", in->next_piece));
  const uint64_t expected = piece_bytes(in->edge.bytes, piece);
  if (bytes != expected)
    return protocol_error(cat(subject(), "expected ", expected, " bytes, received ", bytes));
  if (in->late) return nullptr;
  return static_cast<std::byte*>(setup_.slots->slot(edge, turn)) + piece * kPieceBytes;
}

// Only the last piece makes the value arrive.
void LinkState::landed_piece(uint32_t edge, Raised& raised) {
  Incoming& in = *find_incoming(edge);
  if (++in.next_piece < pieces_of(in.edge.bytes)) return;
  in.next_piece = 0;
  landed(edge, raised);
}

// `next_turn` rises for a late value, too, but its turn is closed already.
void LinkState::landed(uint32_t edge, Raised& raised) {
  Incoming& in = *find_incoming(edge);
  in.next_turn = in.turn + 1;
  values_received_.fetch_add(1, std::memory_order_relaxed);
  if (in.late) {
    late_values_.fetch_add(1, std::memory_order_relaxed);
  } else {
    raised.add(setup_.slots->edge(edge).arrived, in.turn + 1);
  }
}

// A count that goes back would open the window for turns that the peer still uses.
Status LinkState::credited(uint32_t edge, uint64_t count, Raised& raised) {
  const size_t place = outgoing_places_.find(edge);
  if (place == Places::kNowhere)
    return protocol_error(cat("credit for edge ", edge, ": there is no such outgoing edge"));
  Outgoing* const out = outgoing_[place].get();
  if (count < out->credited) {
    return protocol_error(
        cat("credit for edge ", edge, ": expected at least ", out->credited, ", received ", count));
  }
  out->credited = count;
  raised.add(out->credit, count);
  return {};
}

// `tell` runs before any wait ends, so that the peer learns the cause before this side acts on it.
bool LinkState::fail(const Status& cause, const std::function<void()>& tell) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return false;
    status_ = cause;
    if (const auto made = faults_.find(cause.message()); made != faults_.end())
      fault_ = made->second;
    failed_.store(true, std::memory_order_release);
  }
  if (tell) tell();
  for (const Incoming& in : incoming_) {
    // A link that could not be made may have edges without slots.
    if (!setup_.slots->is_open(in.edge.edge)) continue;
    setup_.slots->edge(in.edge.edge).arrived.fail(cause);
    setup_.slots->edge(in.edge.edge).retired.fail(cause);
  }
  for (const auto& out : outgoing_) {
    out->credit.fail(cause);
    out->sent.fail(cause);
  }
  if (setup_.on_failure) setup_.on_failure();
  return true;
}

Status LinkState::status() const {
  if (!failed()) return {};
  std::lock_guard lock(mutex_);
  return status_;
}

Status LinkState::protocol_error(std::string_view what) const {
  return invalid_argument(cat("link ", setup_.self, " to ", setup_.peer, ": ", setup_.peer,
                              " broke the protocol: ", what));
}

// Several threads may find the peer gone, each in its own words. Only the first failure counts, and
// fail() finds its kind by the message.
Status LinkState::peer_gone(LinkFault fault, std::string_view how) const {
  std::string message = cat("link ", setup_.self, " to ", setup_.peer, ": ", how);
  const std::string awaited = awaits();
  if (!awaited.empty()) message += "; " + awaited;
  std::lock_guard lock(mutex_);
  if (faults_.size() < kMostFaults) faults_.emplace(message, fault);
  return unavailable(std::move(message));
}

// A time-out and an unreachable network are a cut path. Everything else means that the peer's end
// closed.
Status LinkState::peer_gone(int error, std::string_view doing) const {
  const bool is_cut = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return peer_gone(is_cut ? LinkFault::lost : LinkFault::closed,
                   system_error(doing, error).message());
}

Status LinkState::damaged(std::string_view what) const {
  return peer_gone(LinkFault::damaged, cat("data loss: ", what));
}

// A header with a right checksum was sent in this form, so that the peer is at fault.
Status LinkState::unreadable(std::span<const std::byte, kFrameHeaderBytes> header, uint32_t number,
                             std::string_view why) const {
  if (checksum_holds(header, {})) return protocol_error(why);
  return damaged(cat("frame ", number, " from ", setup_.peer, " cannot be read: ", why));
}

LinkFault LinkState::fault() const {
  std::lock_guard lock(mutex_);
  return fault_;
}

std::string LinkState::awaits() const {
  for (const LinkEdge& edge : setup_.incoming) {
    if (!setup_.slots->is_open(edge.edge)) continue;
    const SlotTable::Edge& slot = setup_.slots->edge(edge.edge);
    const uint64_t arrived = slot.arrived.value();
    // The executor has a value to work on.
    if (arrived > slot.retired.value()) continue;
    return cat(setup_.self, " awaits edge ", edge.edge, " turn ", arrived, " from ", setup_.peer);
  }
  return "";
}

LinkCounters LinkState::counters() const {
  const auto read = [](const std::atomic<uint64_t>& n) {
    return n.load(std::memory_order_relaxed);
  };
  return {read(frames_sent_), read(frames_received_), read(bytes_sent_),  read(bytes_received_),
          read(values_sent_), read(values_received_), read(late_values_), 0};
}

}  // namespace leat
