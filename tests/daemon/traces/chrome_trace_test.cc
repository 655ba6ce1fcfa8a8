// The trace as viewers read it, and the file in which a recording travels.
#include "daemon/traces/chrome_trace.h"

#include "daemon/wire/recording_file.h"
#include "tests/catch.h"
#include "tests/daemon/traces/made_up_recording.h"
#include "tests/daemon/traces/trace_schema.h"
#include "tests/must.h"

namespace leat {
namespace {

MadeUp sample() {
  MadeUp made;
  made.add_device("w0");
  made.add_device("w\x01\xff\"1");  // names may contain any bytes
  for (uint64_t turn = 0; turn < 4; ++turn) {
    const double at = 10.0 * static_cast<double>(turn);
    made.kernel(0, turn, "mm", "MatMul", at, at + 2);
    made.send(0, turn, 1, at + 2, at + 3);
    made.wait(1, turn, 0, at, at + 3);
    made.wake(1, turn, 0, at + 3, at + 4);
    made.receive(1, turn, 0, at + 4, at + 4);
    made.kernel(1, turn, "add", "Add", at + 4, at + 5);
  }
  made.receive(1, 3, 2, 39, 39);  // its sender was not recorded
  return made;
}

TEST_CASE("a trace has a slice for each event, and an arrow for each transfer with both ends") {
  const TraceFacts facts = check_trace(chrome_trace(sample().recording));
  CHECK(facts.slices == 4 * 6 + 1);
  CHECK(facts.arrows == 4);
  CHECK(facts.processes == 2);
}

TEST_CASE("a slice has the names of its chain, and a wait without a node is for the device") {
  MadeUp made = sample();
  auto& nodes = made.recording.partitions[0].nodes;
  RecordedNode second = nodes[0];
  second.name = "bias";
  nodes[0].chain = second.chain = 5;
  nodes.push_back(second);
  made.event(0, RecordedEvent::Kind::wait, 3, kNotRecorded, 38, 39);
  const std::string text = chrome_trace(made.recording);
  CHECK(check_trace(text).slices == 4 * 6 + 2);
  CHECK(text.find("\"chain\": \"mm, bias\"") != std::string::npos);
  CHECK(text.find("waits for its device") != std::string::npos);
}

TEST_CASE("a recording is read as it was written") {
  StepRecording made = sample().recording;
  made.partitions[0].events[0].thread = 300;
  made.partitions[1].lost_from = 3;
  const StepRecording read = must(read_recording(write_recording(made)));
  CHECK(chrome_trace(read) == chrome_trace(made));
  CHECK(read.partitions[0].nodes[1].bytes == 24);
  CHECK(read.first() == 0);
  CHECK(read.end() == 4);
  CHECK(read.whole_end() == 3);
  CHECK(read.partitions[0].events[0].thread == 300);
}

TEST_CASE("a recording that is damaged is refused") {
  auto file = write_recording(sample().recording);
  CHECK(read_recording(std::span(file).first(file.size() - 8)).status().code() ==
        Code::invalid_argument);
  CHECK(read_recording(std::span(file).first(5)).status().code() == Code::invalid_argument);
  StepRecording wrong = sample().recording;
  wrong.partitions[0].events[0].instruction = 77;
  CHECK(read_recording(write_recording(wrong)).status().code() == Code::invalid_argument);
  wrong = sample().recording;
  wrong.partitions[0].events[0].end = wrong.partitions[0].events[0].begin - 1;
  CHECK(read_recording(write_recording(wrong)).status().code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat
