// What every link keeps, whatever carries its bytes: its edges in both directions, the windows,
// counters, and the first failure. All that a peer says is judged here, and nowhere else.
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

// Timelines that are to rise together. The last one that was added goes first: the first, which is
// likely waited for, when all the others are there.
class Raised {
 public:
  // For so many at once: then nothing is allocated.
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

// Threads: outgoing calls (check_push, sent) on one edge by one thread at a time; incoming ones
// (admit to credited) by the transport's thread; the rest from any. Timelines are signalled
// by these calls, with no lock held: their callbacks may push.
class LinkState {
 public:
  explicit LinkState(LinkSetup setup);
  // Ends every wait on the link's edges.
  ~LinkState();
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  const LinkSetup& setup() const { return setup_; }

  // --- Out.
  // May this value go now? Notes that it does, and gives the edge's place among setup().outgoing.
  // failed_precondition if the turn is not the next, or there is no credit; invalid_argument for an
  // edge or a size that is not the plan's.
  Result<size_t> check_push(uint32_t edge, uint64_t turn, size_t bytes);
  // REQUIRES: the edge is outgoing.
  size_t outgoing_index(uint32_t edge) const { return outgoing_places_.find(edge); }
  Timeline& credit(uint32_t edge) { return outgoing_[outgoing_index(edge)]->credit; }
  Timeline& sent(uint32_t edge) { return outgoing_[outgoing_index(edge)]->sent; }

  // --- In. What is wrong is invalid_argument that names peer, edge and turn: the caller fails.
  // Where a whole value's bytes go: null if there are none, or the turn is closed and they are to
  // be dropped. Then, when they are there: landed(), and the value has arrived with `raised`.
  Result<std::byte*> admit(uint32_t edge, uint64_t turn, uint64_t bytes);
  void landed(uint32_t edge, Raised& raised);
  // The same for the pieces, in order, of a value that is too large for a bundle.
  Result<std::byte*> admit_piece(uint32_t edge, uint64_t turn, uint64_t piece, uint64_t bytes);
  void landed_piece(uint32_t edge, Raised& raised);
  // The peer says that it retired `count` values of an outgoing edge.
  Status credited(uint32_t edge, uint64_t count, Raised& raised);
  // Turns of the i-th incoming edge that have come, for a transport that counts them itself.
  uint64_t taken(size_t i) const { return incoming_[i].next_turn; }

  // --- Failure.
  // The first one stays. Tells it, if this is the first, and then ends every wait on the link's
  // edges. True if this was the first.
  bool fail(const Status& cause, const std::function<void()>& tell = nullptr);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;
  // Of the first failure, if it is one that gone() has made.
  LinkFault fault() const;
  // "link worker-0 to worker-1: edge 7 turn 3: ..." as an error of the peer.
  Status broken(std::string_view what) const;
  // unavailable: the peer is gone, as far as can be seen; says what was awaited from it.
  Status gone(LinkFault fault, std::string_view how) const;
  // The same for what a call on the socket said: a path that is cut, or a peer that has closed.
  Status gone(int error, std::string_view doing) const;
  // The same for bytes that arrived otherwise than they were sent.
  Status damaged(std::string_view what) const;
  // Of a header that is not what can be here: the peer has broken the protocol if it was sent so.
  Status unreadable(std::span<const std::byte, kFrameHeaderBytes> header, uint32_t number,
                    std::string_view why) const;
  std::string awaits() const;

  // --- Counters, each by whom it concerns.
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
  struct Incoming {
    LinkEdge edge;
    uint64_t next_turn = 0;  // all turns below were received, or skipped once closed
    uint64_t turn = 0;       // being received, from next_piece on
    uint64_t next_piece = 0;
    bool late = false;
  };
  struct Outgoing {
    LinkEdge edge;
    uint64_t next_turn = 0;
    uint64_t credited = 0;  // what the peer said last
    Timeline credit, sent;
  };
  // Where an edge of the plan stands among the link's.
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
  Incoming* find_incoming(uint32_t edge);
  Result<Incoming*> begin(uint32_t edge, uint64_t turn);
  Status check_turn(const Incoming& in, uint64_t turn) const;

  const LinkSetup setup_;
  const Places incoming_places_, outgoing_places_;
  std::vector<Incoming> incoming_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
  mutable std::mutex mutex_;
  Status status_;
  LinkFault fault_ = LinkFault::none;              // of status_
  mutable std::map<std::string, LinkFault> gone_;  // what gone() has made, by its message
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> frames_sent_{0}, bytes_sent_{0}, values_sent_{0};
  std::atomic<uint64_t> frames_received_{0}, bytes_received_{0}, values_received_{0};
  std::atomic<uint64_t> late_values_{0};
};

}  // namespace leat
