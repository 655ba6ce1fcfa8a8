#include "scheduler/runtime/step_recorder.h"

#include <algorithm>

namespace leat {

void StepRecorder::start(uint64_t first, uint64_t end) {
  const std::lock_guard lock(mutex_);
  end_.store(0);
  // A thread that still adds an event of an earlier recording writes to a ring that exists.
  for (size_t t = 0; t < threads_; ++t) {
    if (!rings_[t].events) rings_[t].events = std::make_unique<StepEvent[]>(kRing);
  }
  first_.store(first);
  recording_.fetch_add(1);
  // One more turn: its events complete the last ones of the turns before.
  end_.store(end + 1, std::memory_order_release);
}

StepEvents StepRecorder::stop() {
  const std::lock_guard lock(mutex_);
  StepEvents all;
  const uint64_t recording = recording_.load();
  if (recording == 0) return all;
  all.first = first_.load();
  if (const uint64_t end = end_.exchange(0); end > 0) last_end_ = end - 1;
  all.end = last_end_;
  for (size_t t = 0; t < threads_; ++t) {
    Ring& ring = rings_[t];
    if (ring.recording.load(std::memory_order_acquire) != recording) continue;
    const size_t count = ring.count.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      if (ring.events[i].turn < all.end) all.events.push_back(ring.events[i]);
    }
    all.dropped += ring.dropped.load(std::memory_order_relaxed);
  }
  return all;
}

void StepRecorder::push(Ring& ring, const StepEvent& event) {
  const size_t count = ring.count.load(std::memory_order_relaxed);
  if (count == kRing) {
    ring.dropped.store(ring.dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  ring.events[count] = event;
  ring.count.store(count + 1, std::memory_order_release);
}

void StepRecorder::add(size_t thread, StepEvent::Kind kind, uint32_t instruction, uint64_t turn,
                       int64_t begin, int64_t end) {
  // The number of the recording is read after end_, which start() sets last.
  if (end_.load(std::memory_order_acquire) == 0) return;
  if (turn < first_.load(std::memory_order_relaxed)) return;
  Ring& ring = rings_[thread];
  const uint64_t recording = recording_.load(std::memory_order_relaxed);
  if (ring.recording.load(std::memory_order_relaxed) != recording) {
    // The events of an earlier recording are not wanted any more.
    ring.count.store(0, std::memory_order_relaxed);
    ring.dropped.store(0, std::memory_order_relaxed);
    ring.has_open = false;
    ring.recording.store(recording, std::memory_order_release);
  }
  StepEvent& open = ring.open;
  // The tiles of one instruction that a thread runs one after the other are one event.
  const bool more = ring.has_open && kind == StepEvent::Kind::kernel && open.kind == kind &&
                    open.instruction == instruction && open.turn == turn;
  if (more) {
    open.end = end;
    ++open.pieces;
    return;
  }
  if (ring.has_open) push(ring, open);
  open = {begin, end, turn, instruction, 1, kind, static_cast<uint8_t>(thread)};
  ring.has_open = true;
}

void StepRecorder::add_wait() {
  // The value may have come, and woken the run, before the run had begun to wait for it.
  const int64_t at = now();
  const int64_t woken = std::clamp(woken_.load(std::memory_order_relaxed), waiting_.begin, at);
  const bool told = woken > waiting_.begin;
  add(0, waiting_.kind, waiting_.instruction, waiting_.turn, waiting_.begin, told ? woken : at);
  if (told) {
    add(0, StepEvent::Kind::wake, waiting_.instruction, waiting_.turn, woken, at);
  }
  waiting_.begin = 0;
}

}  // namespace leat
