// The transfers of a partition whose device works asynchronously, in a memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core/device.h"
#include "scheduler/runtime/entry.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run_options.h"
#include "scheduler/runtime/run_outcome.h"
#include "scheduler/runtime/turn_contexts.h"

namespace leat {

// Enqueues the copies between the device and the host's slots, staging buffers and fetch rings.
// When a copy is done, it pushes the value to its reader, or gives the slot back to its sender. The
// thread that issues a step waits for none of that: it goes on to the next turn, up to kSlotDepth
// turns ahead of the device.
//
// A received value is copied in while the device still computes earlier steps, and its slot is free
// as soon as it is copied. A sent or fetched value is copied within the device first, because the
// next kernel may use its memory, and from there to the host while the device computes on. A
// channel that takes the device's memory gets the copy itself; the turn is over when its bytes have
// left.
//
// Threads: the one that advances the run.
class DeviceTransfers {
 public:
  // All outlive it. REQUIRES: the device of the program is not Device::host_visible().
  DeviceTransfers(Program& program, TurnContexts& contexts, RunOutcome& outcome);

  // Enqueues what a transfer does on the device. REQUIRES: a received value has arrived, and the
  // turn kSlotDepth before this one is over.
  void issue(const Entry& entry, uint64_t turn);
  // The parts of that, for entries that are no receives. A value that departs is copied aside in
  // the queue of the kernels; the copy may be part of a recording. When the kernels are awaited,
  // all values that have departed can travel.
  void depart(const Entry& entry, uint64_t turn);
  void await_kernels();
  void travel(const Entry& entry, uint64_t turn);
  // All entries of the turn are issued: it is over when the device has done them.
  void end_turn(uint64_t turn);

  // Pushes values, gives slots back and finishes turns, as far as the device has come. A push that
  // fails, fails the run. The turn before `pause` is not finished: between the two is a callback,
  // which comes first.
  void proceed(uint64_t pause);
  // True if the device has done all turns below `pause`, and every value of them is pushed.
  bool has_done(uint64_t pause) const;
  // Adds what proceed() could not go on without.
  void add_waits(Awaited& awaited) const;
  // True if no channel reads memory of the device: all that it was given has left.
  bool all_left() const;

  // Waits until the device does nothing of the program any more, and no channel reads its memory,
  // but not beyond `deadline`.
  // The first failure of a queue, or deadline_exceeded.
  Status drain(std::chrono::steady_clock::time_point deadline);

 private:
  // Something that is left to do when a queue has reached a mark.
  struct Pending {
    uint64_t mark = 0;
    const Entry* entry = nullptr;  // null: the turn ends
    uint64_t turn = 0;
  };
  // First in, first out, in memory that is there from the start.
  class Row {
   public:
    explicit Row(size_t most) : places_(most) {}
    bool empty() const { return count_ == 0; }
    const Pending& front() const { return places_[first_]; }
    void push(Pending pending) { places_[(first_ + count_++) % places_.size()] = pending; }
    void pop() {
      first_ = (first_ + 1) % places_.size();
      --count_;
    }

   private:
    std::vector<Pending> places_;
    size_t first_ = 0, count_ = 0;
  };

  void receive(const Entry& entry, uint64_t turn);
  size_t bytes_sent(const Entry& entry) const;
  // A send whose channel takes the device's memory.
  struct Direct {
    const Entry* send;
    Timeline& sent;
    uint64_t pushed = 0;  // turns
  };
  // One whose value of that turn was pushed and has not left; null if there is none. REQUIRES: all
  // values of the turn are pushed.
  const Direct* unsent(uint64_t turn) const;
  size_t place_of(const Entry& entry) const;
  bool has_credit(const Pending& pending) const;
  Status push(const Pending& pending);
  const PlanInstruction& instruction_of(const Entry& entry) const;

  Program& program_;
  TurnContexts& contexts_;
  RunOutcome& outcome_;
  Device& device_;
  Queue& compute_;
  Queue& in_;
  Queue& out_;
  Row arriving_, leaving_;  // after marks of in_ and of out_
  std::vector<Direct> direct_;
  std::vector<uint32_t> direct_at_;  // by entry: its place in direct_, or kNone
};

}  // namespace leat
