// The critical path of made-up recordings, whose parts are known.
#include "daemon/traces/critical_path.h"

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/traces/made_up_recording.h"
#include "tests/must.h"

namespace leat {
namespace {

using Kind = RecordedEvent::Kind;

TEST_CASE("a step of one device is parted into compute, input and the time between nodes") {
  MadeUp made;
  made.add_device("w0");
  // A step of 10 ms: 2 ms of input, 7 ms of compute, 1 ms of nothing.
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 10.0 * static_cast<double>(turn);
    made.kernel(0, turn, "read", "leat.ReadBatch", at, at + 2);
    made.kernel(0, turn, "mm", "MatMul", at + 3, at + 10);
  }
  const Explanation e = must(explain(made.recording));
  CHECK(e.steps == 4);
  CHECK(e.step_ms == Approx(10));
  CHECK(e.ms(PathPart::compute) == Approx(7));
  CHECK(e.ms(PathPart::input) == Approx(2));
  CHECK(e.ms(PathPart::queueing) == Approx(1));
  CHECK(e.ms(PathPart::wire) == 0);
  CHECK(e.nodes.front().name == "mm");
}

TEST_CASE("the path begins with the first step that was recorded as a whole") {
  MadeUp made;
  made.add_device("w0");
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 1000 + 10.0 * static_cast<double>(turn);
    made.kernel(0, turn, "read", "leat.ReadBatch", at, at + 2);
    made.kernel(0, turn, "mm", "MatMul", at + 2, at + 10);
  }
  // The device was in the middle of its second turn when the recording began.
  std::erase_if(made.recording.partitions[0].events, [](const RecordedEvent& event) {
    return event.turn == 0 || (event.turn == 1 && event.instruction == 0);
  });
  const Explanation e = must(explain(made.recording));
  CHECK(e.steps == 2);
  CHECK(e.first_step == 2);
  CHECK(e.step_ms == Approx(10));
  CHECK(e.ms(PathPart::queueing) == 0);
}

// w1 waits for a value of w0, which takes `wire` ms on its way.
MadeUp two_workers(double work, double wire, double wake) {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w1");
  const double step = work + wire + wake + 1;
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = step * static_cast<double>(turn);
    made.kernel(0, turn, "mm", "MatMul", at, at + work);
    made.send(0, turn, 1, at + work, at + work);
    made.wait(1, turn, 0, at, at + work + wire);
    if (wake > 0) made.wake(1, turn, 0, at + work + wire, at + work + wire + wake);
    made.kernel(1, turn, "add", "Add", at + work + wire + wake, at + step);
    made.send(1, turn, 0, at + step, at + step);
    made.wait(0, turn, 1, at + work, at + step);
  }
  return made;
}

TEST_CASE("the path goes over the link to the device whose value was awaited") {
  const Explanation e = must(explain(two_workers(4, 5, 0.5).recording));
  CHECK(e.ms(PathPart::wire) == Approx(5).margin(0.3));
  CHECK(e.ms(PathPart::wake_up) == Approx(0.5).margin(0.1));
  CHECK(e.ms(PathPart::compute) == Approx(5).margin(0.3));
  REQUIRE(!e.advice.empty());
  CHECK(e.advice.front().kind == "wire");
}

TEST_CASE("a worker that works longer than the others is the first thing to change") {
  const Explanation e = must(explain(two_workers(30, 0.2, 0).recording));
  CHECK(e.devices[e.slowest].worker == "w0");
  REQUIRE(!e.advice.empty());
  CHECK(e.advice.front().kind == "straggler");
  CHECK(e.advice.front().text.find("w0") != std::string::npos);
}

TEST_CASE("a little more work of one worker is nothing beside a slow link") {
  const Explanation e = must(explain(two_workers(1.5, 60, 0).recording));
  CHECK(e.devices[e.slowest].worker == "w0");
  CHECK(e.devices[e.slowest].busy_ms > 1.25 * e.devices[1 - e.slowest].busy_ms);
  REQUIRE(!e.advice.empty());
  CHECK(e.advice.front().kind == "wire");
  for (const PathAdvice& each : e.advice) CHECK(each.kind != "straggler");
}

TEST_CASE("the pauses of a straggler are no costs that a larger batch would pay less often") {
  // w0 stands still for 20 ms between its nodes.
  MadeUp made = two_workers(30, 0.2, 0);
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 31.2 * static_cast<double>(turn);
    std::erase_if(made.recording.partitions[0].events, [&](const RecordedEvent& event) {
      return event.turn == turn && event.kind == Kind::kernel;
    });
    made.kernel(0, turn, "first", "MatMul", at, at + 2);
    made.kernel(0, turn, "mm", "MatMul", at + 22, at + 30);
  }
  const Explanation e = must(explain(made.recording));
  CHECK(e.ms(PathPart::queueing) == Approx(20).margin(0.5));
  REQUIRE(!e.advice.empty());
  CHECK(e.advice.front().kind == "straggler");
  for (const PathAdvice& each : e.advice) CHECK(each.kind != "batch");
}

TEST_CASE("a worker that takes long to send is behind a slow link, and no straggler") {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w1");
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 20.0 * static_cast<double>(turn);
    made.kernel(0, turn, "mm", "MatMul", at, at + 2);
    made.send(0, turn, 1, at + 2, at + 17);
    made.wait(1, turn, 0, at, at + 17);
    made.kernel(1, turn, "add", "Add", at + 17, at + 19);
    made.send(1, turn, 0, at + 19, at + 20);
    made.wait(0, turn, 1, at + 17, at + 20);
  }
  const Explanation e = must(explain(made.recording));
  CHECK(e.ms(PathPart::wire) > 10);
  REQUIRE(!e.advice.empty());
  CHECK(e.advice.front().kind == "wire");
}

TEST_CASE("clocks that disagree do not make a transfer negative") {
  MadeUp made = two_workers(4, 0.1, 0);
  for (RecordedEvent& event : made.recording.partitions[0].events) {
    event.begin += 300'000;
    event.end += 300'000;
  }
  const Explanation e = must(explain(made.recording));
  double sum = 0;
  for (const PathPart part : kPathParts) {
    CHECK(e.ms(part) >= 0);
    sum += e.ms(part);
  }
  CHECK(sum == Approx(e.step_ms).epsilon(1e-6));
}

double sum_of_parts(const Explanation& e) {
  double sum = 0;
  for (const PathPart part : kPathParts) sum += e.ms(part);
  return sum;
}

TEST_CASE("a value that is there before its sending has ended was on the wire meanwhile") {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w1");
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 20.0 * static_cast<double>(turn);
    made.kernel(0, turn, "mm", "MatMul", at, at + 2);
    made.send(0, turn, 1, at + 2, at + 15);  // goes on after the value has come
    made.wait(1, turn, 0, at, at + 12);
    made.kernel(1, turn, "add", "Add", at + 12, at + 20);
    made.send(1, turn, 0, at + 20, at + 20);
    made.wait(0, turn, 1, at + 15, at + 20);
  }
  const Explanation e = must(explain(made.recording));
  CHECK(e.ms(PathPart::wire) == Approx(10));
  CHECK(sum_of_parts(e) == Approx(e.step_ms).epsilon(1e-6));
}

TEST_CASE("the time in which a thread waits for its accelerator is compute") {
  MadeUp made;
  made.add_device("w0");
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 10.0 * static_cast<double>(turn);
    made.kernel(0, turn, "mm", "MatMul", at, at + 1);
    made.event(0, Kind::wait, turn, kNotRecorded, at + 1, at + 10);
  }
  const Explanation e = must(explain(made.recording));
  CHECK(e.ms(PathPart::compute) == Approx(10));
  CHECK(e.devices[0].busy_ms == Approx(10));
  CHECK(explanation_text(e).find("that w0's accelerator was given") != std::string::npos);
}

TEST_CASE("steps of which events are missing are not explained") {
  MadeUp made = two_workers(4, 5, 0.5);
  made.recording.partitions[1].dropped = 9;
  made.recording.partitions[1].lost_from = 2;
  const Explanation e = must(explain(made.recording));
  CHECK(e.steps == 2);
  CHECK(e.dropped == 9);
  made.recording.partitions[1].lost_from = 0;
  const Status none = explain(made.recording).status();
  CHECK(none.code() == Code::failed_precondition);
  CHECK(none.message().find("9 are missing") != std::string::npos);
}

TEST_CASE("a recording without a common step is refused") {
  MadeUp made = two_workers(1, 1, 0);
  made.recording.partitions[0].end = 2;
  made.recording.partitions[1].first = 2;
  CHECK(explain(made.recording).status().code() == Code::failed_precondition);
  CHECK(explain(StepRecording()).status().code() == Code::failed_precondition);
}

TEST_CASE("the text and the JSON of an explanation name parts, nodes and advice") {
  const Explanation e = must(explain(two_workers(4, 5, 0.5).recording));
  const std::string text = explanation_text(e);
  for (const char* word : {"compute", "wire", "wake-up", "MatMul 'mm' on w0", "would help most"})
    CHECK(text.find(word) != std::string::npos);
  CHECK(explanation_json(e).find("\"parts\": {\"compute\": ") != std::string::npos);
}

}  // namespace
}  // namespace leat
