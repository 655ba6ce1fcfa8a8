// Wires between the asynchronous devices of one process. Both kinds behave as those of a GPU do,
// where that matters to the link above them: a copy is made later, by a thread of the wire's, and
// for nccl not before both ends were given the value. A test may hold a wire, or make it fail.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "devices/base/text.h"
#include "devices/core/device_wire.h"

namespace leat::testing {

// The state of one wire, which both ends share. Threads: any.
class AsyncWireState {
 public:
  struct Piece {
    const void* from = nullptr;
    size_t offset = 0, bytes = 0;
  };
  // Makes a memory accessible for a copy, and closes it again.
  using Access = std::function<void(bool)>;

  AsyncWireState(WireKind kind, Buffer& into, Access access)
      : kind_(kind), into_(&into), to_(std::move(access)), thread_([this] { loop(); }) {}
  ~AsyncWireState() {
    stop(cancelled("the wire was dropped"), true);
    thread_.join();
  }

  void set_sender(Access access) {
    const std::lock_guard lock(mutex_);
    from_ = std::move(access);
  }
  void send(Piece piece) {
    const std::lock_guard lock(mutex_);
    sent_.push_back(piece);
    changed_.notify_all();
  }
  void receive(size_t offset, size_t bytes) {
    if (kind_ == WireKind::ipc) return received.signal(received.value() + 1);
    const std::lock_guard lock(mutex_);
    awaited_.push_back({nullptr, offset, bytes});
    changed_.notify_all();
  }
  // The wire's thread fails both ends, when it copies nothing any more.
  void stop(const Status& cause, bool at_sender) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    const Status gone = unavailable("the other end of the wire has stopped");
    at_sender_ = at_sender ? cause : gone;
    at_receiver_ = at_sender ? gone : cause;
    changed_.notify_all();
  }
  // Waits until no copy is under way, nor a callback.
  void await_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }
  // While it is held, nothing is copied.
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  Timeline sent, received;

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] {
        return stopped_ ||
               (!held_ && from_ && !sent_.empty() && (kind_ == WireKind::ipc || !awaited_.empty()));
      });
      if (stopped_) break;
      const Piece piece = sent_.front();
      sent_.pop_front();
      Status status;
      if (kind_ == WireKind::nccl) {
        const Piece awaited = awaited_.front();
        awaited_.pop_front();
        if (awaited.bytes != piece.bytes || awaited.offset != piece.offset)
          status = unavailable("nccl: the ends disagree about a value");
      }
      if (piece.offset + piece.bytes > into_->size())
        status = unavailable("the value lies beyond the memory");
      lock.unlock();
      if (status.ok()) copy(piece);
      end_piece(status);
      lock.lock();
    }
    lock.unlock();
    sent.fail(at_sender_);
    received.fail(at_receiver_);
    lock.lock();
    ended_ = true;
    changed_.notify_all();
  }
  void copy(const Piece& piece) {
    from_(true);
    to_(true);
    std::memcpy(static_cast<std::byte*>(into_->data()) + piece.offset, piece.from, piece.bytes);
    to_(false);
    from_(false);
  }
  void end_piece(const Status& status) {
    if (!status.ok()) {
      sent.fail(status);
      received.fail(status);
      return;
    }
    // The bytes are there, and the sender knows it.
    if (kind_ == WireKind::nccl) received.signal(received.value() + 1);
    sent.signal(sent.value() + 1);
  }

  const WireKind kind_;
  Buffer* const into_;
  const Access to_;
  Access from_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> sent_, awaited_;
  bool held_ = false, stopped_ = false, ended_ = false;
  Status at_sender_, at_receiver_;
  std::thread thread_;  // last, because it uses the members above
};

// The wires of this process whose receiving end is there, by offer.
class AsyncWires {
 public:
  static AsyncWires& all() {
    static AsyncWires wires;
    return wires;
  }
  std::string add(const std::shared_ptr<AsyncWireState>& wire) {
    const std::lock_guard lock(mutex_);
    const std::string offer = cat("async wire ", ++count_);
    wires_[offer] = wire;
    return offer;
  }
  std::shared_ptr<AsyncWireState> find(std::string_view offer) {
    const std::lock_guard lock(mutex_);
    const auto found = wires_.find(std::string(offer));
    return found == wires_.end() ? nullptr : found->second.lock();
  }
  // Every wire that is there.
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    for (auto& [offer, wire] : wires_) {
      if (const auto there = wire.lock()) there->hold(held);
    }
  }
  // Fails the receiving ends, or the sending ones.
  void fail(const Status& cause, bool at_sender) {
    const std::lock_guard lock(mutex_);
    for (auto& [offer, wire] : wires_) {
      if (const auto there = wire.lock()) (at_sender ? there->sent : there->received).fail(cause);
    }
  }
  // How many were made so far.
  size_t made() {
    const std::lock_guard lock(mutex_);
    return wires_.size();
  }

 private:
  std::mutex mutex_;
  uint64_t count_ = 0;
  std::map<std::string, std::weak_ptr<AsyncWireState>> wires_;
};

class AsyncWireReceiver final : public WireReceiver {
 public:
  AsyncWireReceiver(WireKind kind, Buffer& into, AsyncWireState::Access access)
      : state_(std::make_shared<AsyncWireState>(kind, into, std::move(access))),
        offer_(AsyncWires::all().add(state_)) {}
  ~AsyncWireReceiver() override {
    stop(cancelled("the receiving end was dropped"));
    state_->await_end();
  }
  Status connect(std::chrono::steady_clock::time_point) override { return {}; }
  Timeline& done() override { return state_->received; }
  void stop(const Status& cause) override { state_->stop(cause, false); }
  const std::string& offer() const override { return offer_; }
  void receive(size_t offset, size_t bytes) override { state_->receive(offset, bytes); }

 private:
  const std::shared_ptr<AsyncWireState> state_;
  const std::string offer_;
};

class AsyncWireSender final : public WireSender {
 public:
  AsyncWireSender(std::shared_ptr<AsyncWireState> state, AsyncWireState::Access access)
      : state_(std::move(state)) {
    state_->set_sender(std::move(access));
  }
  ~AsyncWireSender() override {
    stop(cancelled("the sending end was dropped"));
    state_->await_end();
  }
  Status connect(std::chrono::steady_clock::time_point) override { return {}; }
  Timeline& done() override { return state_->sent; }
  void stop(const Status& cause) override { state_->stop(cause, true); }
  void send(const void* from, size_t offset, size_t bytes) override {
    state_->send({from, offset, bytes});
  }

 private:
  const std::shared_ptr<AsyncWireState> state_;
};

}  // namespace leat::testing
