#include "scheduler/runtime/step_recorder.h"

#include <algorithm>

namespace leat {

void StepRecorder::start(uint64_t first, uint64_t end) {
  const std::lock_guard lock(mutex_);
  end_.store(0);
  // A thread that still adds an event of an earlier recording writes to a list that exists.
  for (size_t t = 0; t < threads_; ++t) {
    if (!lists_[t].slots) lists_[t].slots = std::make_unique<Slot[]>(kMost);
  }
  first_.store(first);
  recording_.fetch_add(1);
  last_end_ = end;
  end_.store(end, std::memory_order_release);
}

StepEvents StepRecorder::stop() {
  const std::lock_guard lock(mutex_);
  StepEvents all;
  const uint64_t recording = recording_.load();
  if (recording == 0) return all;
  end_.store(0);
  all.first = first_.load();
  all.end = last_end_;
  for (size_t t = 0; t < threads_; ++t) {
    if (lists_[t].recording.load(std::memory_order_acquire) == recording) read(lists_[t], all);
  }
  return all;
}

void StepRecorder::read(const List& list, StepEvents& all) {
  const size_t count = list.count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    const Slot& slot = list.slots[i];
    if (slot.event.turn >= all.end) continue;
    all.events.push_back(slot.event);
    all.events.back().end = slot.end.load(std::memory_order_relaxed);
    all.events.back().pieces = slot.pieces.load(std::memory_order_relaxed);
  }
  const uint64_t dropped = list.dropped.load(std::memory_order_acquire);
  all.dropped += dropped;
  if (dropped > 0)
    all.lost_from = std::min(all.lost_from, list.lost_from.load(std::memory_order_relaxed));
}

void StepRecorder::push(List& list, const StepEvent& event) {
  const size_t count = list.count.load(std::memory_order_relaxed);
  if (count == kMost) {
    const uint64_t dropped = list.dropped.load(std::memory_order_relaxed);
    if (dropped == 0) list.lost_from.store(event.turn, std::memory_order_relaxed);
    list.dropped.store(dropped + 1, std::memory_order_release);
    return;
  }
  Slot& slot = list.slots[count];
  slot.event = event;
  slot.end.store(event.end, std::memory_order_relaxed);
  slot.pieces.store(event.pieces, std::memory_order_relaxed);
  list.count.store(count + 1, std::memory_order_release);
}

void StepRecorder::add(size_t thread, StepEvent::Kind kind, uint32_t instruction, uint64_t turn,
                       int64_t begin, int64_t end, uint32_t pieces) {
  // The number of the recording is read after end_, which start() sets last.
  if (end_.load(std::memory_order_acquire) == 0) return;
  if (turn < first_.load(std::memory_order_relaxed)) return;
  List& list = lists_[thread];
  const uint64_t recording = recording_.load(std::memory_order_relaxed);
  if (list.recording.load(std::memory_order_relaxed) != recording) {
    // The events of an earlier recording are not wanted any more.
    list.count.store(0, std::memory_order_relaxed);
    list.dropped.store(0, std::memory_order_relaxed);
    list.recording.store(recording, std::memory_order_release);
  }
  // The tiles of one instruction that a thread runs one after the other are one event.
  const size_t count = list.count.load(std::memory_order_relaxed);
  if (count > 0 && kind == StepEvent::Kind::kernel) {
    Slot& last = list.slots[count - 1];
    if (last.event.kind == kind && last.event.instruction == instruction &&
        last.event.turn == turn) {
      last.end.store(end, std::memory_order_relaxed);
      last.pieces.store(last.pieces.load(std::memory_order_relaxed) + pieces,
                        std::memory_order_relaxed);
      return;
    }
  }
  push(list, {begin, end, turn, instruction, pieces, kind, static_cast<uint16_t>(thread)});
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
