// The express socket of a link: a stream over which bundles and control go both ways, whatever
// carries the large values.
//
// What is pushed collects in an outbox and goes with one send() at the next chance: at once, unless
// somebody holds it or the socket is full. A credit for the peer waits for the next bundle, if the
// link has values to send, and only goes by itself when the peer's window of that edge has closed.
// The outbox is as large as what the windows allow: a peer that grants more and does not read
// stalls its sender, and then the link.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/links/frame.h"
#include "transport/links/link_state.h"

namespace leat {

// Threads: readable() and writable() on the reactor's; the rest from any.
class Express final : private Reactor::Watched {
 public:
  // `closed`: the socket has come to its end; else what came is wrong, or nothing goes.
  using OnFailure = std::function<void(const Status&, bool closed)>;

  // `state` and `reactor` outlive it. `on_failure` is called, perhaps more than once, with what
  // goes wrong here; the link then calls shut(). `values`: small values and credits go over this
  // socket; false if only control does.
  Express(Reactor& reactor, Descriptor socket, LinkState& state, bool values, OnFailure on_failure);

  // Starts and stops reading. REQUIRES: both on the reactor's thread; closed before destroyed.
  Status open();
  void close() { watch_.reset(); }
  // Takes what has come. Threads: the reactor's, but not from within a call of this object.
  void poll() { static_cast<void>(readable()); }
  // Ends both directions of the socket.
  void shut();

  // A small value, copied. REQUIRES: LinkState::check_push() was ok.
  Status push(uint32_t edge, uint64_t turn, std::span<const std::byte> value);
  void hold();
  Status flush();
  // The i-th incoming edge has retired `count` values.
  void credit(size_t i, uint64_t count);
  void send_abort(const Status& cause);
  // Why a send failed, on this socket or another one to the same peer: the peer may have told
  // before it went, so that is read first. Fails the link.
  Status reason(const Status& error);
  // To be called every now and then: what was not sent anything since the last time gets a ping, so
  // that the peer's system has something to acknowledge and shows that it is there.
  void beat();

 private:
  struct Owed {  // credit of an incoming edge
    uint64_t count = 0, flushed = 0;
    size_t record = 0;  // where it stands in filling_; 0: nowhere
  };

  bool readable() override;
  void writable() override;

  // Under mutex_.
  std::byte* append_record(size_t payload);
  void append_frame(FrameHeader header, std::span<const std::byte> payload);
  void seal();
  Status write();
  bool has_room(size_t bytes) const { return filling_.size() + bytes <= room_; }

  // A frame of control, at once. Its number and size are filled in.
  Status send(FrameHeader header);
  Status await_room(std::unique_lock<std::mutex>& lock, size_t bytes);
  Status take(std::span<const std::byte> frames, size_t& taken);
  Status dispatch(const FrameHeader& header, std::span<const std::byte> payload);
  Status take_bundle(std::span<const std::byte> bundle);
  Status take_abort(const FrameHeader& header, std::span<const std::byte> message);

  Reactor& reactor_;
  const Descriptor socket_;
  LinkState& state_;
  const OnFailure on_failure_;
  const bool lazy_credit_;
  const std::string subject_;

  std::mutex mutex_;
  std::vector<std::byte> filling_, sending_;  // frames; filling_ may end in an open bundle
  size_t room_ = 0;                           // of filling_
  size_t bundle_ = 0;                         // where the open bundle begins
  bool bundle_open_ = false;
  size_t sent_ = 0;  // of sending_
  bool blocked_ = false;
  bool due_ = false;  // there is more in filling_ than credits that can wait
  int holds_ = 0;
  uint32_t frames_out_ = 0;
  uint32_t frames_at_beat_ = 0;
  std::vector<Owed> owed_;
  std::vector<uint32_t> owing_;  // indices with a record in filling_

  std::vector<std::byte> inbox_;  // the reactor's
  size_t received_ = 0;
  uint32_t frames_in_ = 0;
  Raised raised_;
  bool peer_failed_ = false;  // it said so, and is not told again
  std::atomic<uint64_t> pings_{0};
  std::unique_ptr<Reactor::Watch> watch_;
};

}  // namespace leat
