// The lists in which a run's threads note what they do.
#include "scheduler/runtime/step_recorder.h"

#include <thread>

#include "tests/catch.h"

namespace leat {
namespace {

using EventKind = StepEvent::Kind;

TEST_CASE("a recorder keeps the events of its turns, and no others") {
  StepRecorder recorder(1);
  CHECK_FALSE(recorder.wants(0));
  CHECK(recorder.stop().events.empty());
  recorder.start(5, 7);
  CHECK(recorder.wants(4));  // add() sorts these out
  CHECK_FALSE(recorder.wants(8));
  for (uint64_t turn = 4; turn < 9; ++turn) {
    if (recorder.wants(turn)) recorder.add(0, EventKind::kernel, 3, turn, 10, 20);
  }
  const StepEvents events = recorder.stop();
  CHECK(events.first == 5);
  CHECK(events.end == 7);
  REQUIRE(events.events.size() == 2);
  CHECK(events.events[0].turn == 5);
  CHECK(events.events[1].turn == 6);
  CHECK_FALSE(recorder.wants(0));
}

TEST_CASE("the tiles of one node that follow each other are one event") {
  StepRecorder recorder(1);
  recorder.start(0, 2);
  for (int tile = 0; tile < 4; ++tile)
    recorder.add(0, EventKind::kernel, 3, 0, 10 * tile, 10 * tile + 5);
  recorder.add(0, EventKind::send, 4, 0, 40, 41);
  recorder.add(0, EventKind::kernel, 3, 1, 50, 60);
  const StepEvents events = recorder.stop();
  REQUIRE(events.events.size() == 3);
  CHECK(events.events[0].pieces == 4);
  CHECK(events.events[0].begin == 0);
  CHECK(events.events[0].end == 35);
  CHECK(events.events[2].turn == 1);
}

TEST_CASE("a wait ends when its value is there, and the rest is the way of the thread") {
  StepRecorder recorder(1);
  recorder.start(0, 1);
  recorder.begin_wait(EventKind::wait, 9, 0);
  recorder.woken();
  recorder.end_wait();
  recorder.add(0, EventKind::kernel, 1, 1, 1, 2);
  const StepEvents events = recorder.stop();
  REQUIRE(!events.events.empty());
  CHECK(events.events[0].kind == EventKind::wait);
  CHECK(events.events[0].instruction == 9);
  if (events.events.size() > 1) {
    CHECK(events.events[1].kind == EventKind::wake);
    CHECK(events.events[1].begin == events.events[0].end);
  }
}

TEST_CASE("the last event of each thread is there, whatever follows it") {
  StepRecorder recorder(2);
  recorder.start(0, 4);
  recorder.add(0, EventKind::kernel, 1, 0, 1, 2);
  recorder.add(1, EventKind::kernel, 2, 0, 1, 2);
  recorder.add(1, EventKind::kernel, 2, 0, 3, 4);
  const StepEvents events = recorder.stop();
  REQUIRE(events.events.size() == 2);
  CHECK(events.events[1].end == 4);
  CHECK(events.events[1].pieces == 2);
}

TEST_CASE("a list that is full counts what it drops, and tells in which turn that begins") {
  StepRecorder recorder(2);
  recorder.start(0, 3);
  const auto add = [&](size_t count, uint64_t turn) {
    for (uint32_t i = 0; i < count; ++i) recorder.add(0, EventKind::kernel, i, turn, i, i + 1);
  };
  add(StepRecorder::kMost - 20, 0);
  add(30, 1);
  add(30, 2);
  recorder.add(1, EventKind::kernel, 0, 2, 1, 2);
  const StepEvents events = recorder.stop();
  CHECK(events.events.size() == StepRecorder::kMost + 1);
  CHECK(events.dropped == 40);
  CHECK(events.lost_from == 1);
  // The next recording has room again.
  recorder.start(5, 6);
  recorder.add(0, EventKind::kernel, 0, 5, 1, 2);
  CHECK(recorder.stop().lost_from > 5);
}

TEST_CASE("threads write side by side, and a new recording begins with nothing") {
  StepRecorder recorder(3);
  for (int round = 0; round < 3; ++round) {
    recorder.start(0, 1);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&recorder, t] {
        for (uint32_t i = 0; i < 1000; ++i) recorder.add(t, EventKind::kernel, i, 0, i, i + 1);
        recorder.add(t, EventKind::kernel, 0, 1, 1, 2);
      });
    }
    // The recording may be read meanwhile: that ends it.
    for (std::thread& thread : threads) thread.join();
    const StepEvents events = recorder.stop();
    CHECK(events.events.size() == 3 * 1000);
    CHECK(events.dropped == 0);
  }
}

}  // namespace
}  // namespace leat
