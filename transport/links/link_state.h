// The state that every link keeps, whatever carries its bytes: its edges in both directions, their
// windows, the counters, and the first failure. All that a peer says is judged here, and nowhere
// else.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "transport/link.h"
#include "transport/links/frame.h"

namespace leat {

// Timelines that are to rise together. signal() raises the last added one first, so that the first
// one, for which a thread probably waits, rises when all the others are there.
// Threads: one at a time.
class Raised {
 public:
  // Reserves `room` entries; adding no more than that allocates nothing.
  explicit Raised(size_t room = 0) { timelines_.reserve(room); }
  void add(Timeline& timeline, uint64_t value) { timelines_.push_back({&timeline, value}); }
  void signal() {
    while (!timelines_.empty()) {
      const auto [timeline, value] = timelines_.back();
      timelines_.pop_back();
      timeline->signal(value);
    }
  }

 private:
  std::vector<std::pair<Timeline*, uint64_t>> timelines_;
};

// Owned by its link.
// Threads: outgoing calls (check_push, sent) for one edge from one thread at a time; incoming ones
// (admit to credited) from the transport's thread; the rest from any. These calls signal timelines
// under no lock, so that a callback may push.
class LinkState {
 public:
  // REQUIRES: the edges of `setup` ascend.
  explicit LinkState(LinkSetup setup);
  // Ends every wait on the link's edges.
  ~LinkState();
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  const LinkSetup& setup() const { return setup_; }

  // Whether this value may go now. Notes that it goes, and returns the place of the edge among
  // setup().outgoing. failed_precondition if the turn is not one of the next or has no credit;
  // invalid_argument if the edge or the size is not the plan's.
  Result<size_t> check_push(uint32_t edge, uint64_t turn, size_t bytes);
  // The place of an edge among setup().outgoing. REQUIRES: the edge is outgoing.
  size_t outgoing_index(uint32_t edge) const { return outgoing_places_.find(edge); }
  // The timelines of an outgoing edge, as Channel describes them.
  Timeline& credit(uint32_t edge) { return outgoing_[outgoing_index(edge)]->credit; }
  Timeline& sent(uint32_t edge) { return outgoing_[outgoing_index(edge)]->sent; }

  // The place for the bytes of a whole value. Null if there are none, or if the turn is closed and
  // they are to be dropped. When the bytes are there the caller calls landed(), and the value
  // arrives with `raised`. This and the next four functions judge the peer: an error is
  // invalid_argument that names peer, edge and turn, and the caller fails the link with it.
  Result<std::byte*> admit(uint32_t edge, uint64_t turn, uint64_t bytes);
  void landed(uint32_t edge, Raised& raised);
  // The same for one piece of a value that is too large for a bundle. Pieces come in order.
  Result<std::byte*> admit_piece(uint32_t edge, uint64_t turn, uint64_t piece, uint64_t bytes);
  void landed_piece(uint32_t edge, Raised& raised);
  // The peer says that it has retired `count` values of an outgoing edge.
  Status credited(uint32_t edge, uint64_t count, Raised& raised);
  // The turns of the i-th incoming edge that have come, for a transport that counts them itself.
  uint64_t taken(size_t i) const { return incoming_[i].next_turn; }

  // Fails the link, if nothing has before: calls `tell`, and then ends every wait on the link's
  // edges. Returns true if this was the first failure, which stays.
  bool fail(const Status& cause, const std::function<void()>& tell = nullptr);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ok, or the first failure.
  Status status() const;
  // The kind of the first failure, if one of the functions named peer_gone() or damaged() made it.
  LinkFault fault() const;
  // The peer broke the protocol: invalid_argument, "link worker-0 to worker-1: worker-1 broke the
  // protocol: <what>".
  Status protocol_error(std::string_view what) const;
  // The peer is gone, as far as can be seen: unavailable, with the value that was awaited from it.
  Status peer_gone(LinkFault fault, std::string_view how) const;
  // The same for `error`, which a call on the socket returned: the path is cut, or the peer has
  // closed.
  Status peer_gone(int error, std::string_view doing) const;
  // Bytes arrived other than they were sent: the same with LinkFault::damaged.
  Status damaged(std::string_view what) const;
  // A header cannot be what may stand here. The peer broke the protocol if the header's checksum
  // holds; otherwise the header arrived damaged.
  Status unreadable(std::span<const std::byte, kFrameHeaderBytes> header, uint32_t number,
                    std::string_view why) const;
  // As Link::awaits().
  std::string awaits() const;

  // Each direction has its own counters. `bytes` includes headers.
  void count_sent(uint64_t frames, uint64_t bytes) {
    frames_sent_.fetch_add(frames, std::memory_order_relaxed);
    bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void count_received(uint64_t frames, uint64_t bytes) {
    frames_received_.fetch_add(frames, std::memory_order_relaxed);
    bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  }
  LinkCounters counters() const;

 private:
  // How far an incoming edge has come.
  struct Incoming {
    LinkEdge edge;
    // All turns below this one were received, or passed over once they were closed.
    uint64_t next_turn = 0;
    // The turn that is being received, from next_piece on.
    uint64_t turn = 0;
    uint64_t next_piece = 0;
    // The turn is closed here, so that its bytes are dropped.
    bool late = false;
  };
  // How far an outgoing edge has come.
  struct Outgoing {
    LinkEdge edge;
    uint64_t next_turn = 0;
    // The count that the peer told last.
    uint64_t credited = 0;
    Timeline credit, sent;
  };
  // Finds the place of the plan's edge among the link's, in one look-up.
  class Places {
   public:
    static constexpr size_t kNowhere = ~size_t{0};
    explicit Places(const std::vector<LinkEdge>& edges);
    size_t find(uint32_t edge) const {
      const size_t i = size_t{edge} - first_;  // wraps to far beyond for an edge before the first
      return i < places_.size() ? places_[i] : kNowhere;
    }

   private:
    size_t first_ = 0;
    std::vector<size_t> places_;
  };
  // Null if the link has no such incoming edge.
  Incoming* find_incoming(uint32_t edge);
  // Judges the turn of a value or of its first piece, and notes it as the one that is being
  // received.
  Result<Incoming*> begin(uint32_t edge, uint64_t turn);
  Status check_turn(const Incoming& in, uint64_t turn) const;

  const LinkSetup setup_;
  const Places incoming_places_, outgoing_places_;
  std::vector<Incoming> incoming_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  mutable std::mutex mutex_;
  Status status_;
  // The kind of status_.
  LinkFault fault_ = LinkFault::none;
  // The kinds of the first few messages that peer_gone() made. fail() finds the kind of its cause
  // here.
  mutable std::map<std::string, LinkFault> faults_;
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> frames_sent_{0}, bytes_sent_{0}, values_sent_{0};
  std::atomic<uint64_t> frames_received_{0}, bytes_received_{0}, values_received_{0};
  std::atomic<uint64_t> late_values_{0};
};

}  // namespace leat
