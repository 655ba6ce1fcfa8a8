// Recordings for tests. Times are milliseconds.
#pragma once

#include <string>

#include "daemon/traces/recording.h"

namespace leat {

// Devices are numbered in the order in which they are added; each pair has at most one edge in each
// direction, whose number follows from the two.
struct MadeUp {
  using Kind = RecordedEvent::Kind;
  StepRecording recording;

  void add_device(const std::string& worker) {
    RecordedPartition part;
    part.node = worker;
    part.partition = static_cast<uint32_t>(recording.partitions.size());
    part.device = "job:worker/task:" + std::to_string(part.partition) + "/cpu:0";
    part.plan = "train";
    part.cores = part.threads = 1;
    part.end = 4;
    recording.job = "made-up";
    recording.partitions.push_back(part);
  }

  static uint32_t edge(size_t from, size_t to) { return static_cast<uint32_t>(16 * from + to); }

  uint32_t node(size_t device, const RecordedNode& wanted) {
    auto& nodes = recording.partitions[device].nodes;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].name == wanted.name && nodes[i].kind == wanted.kind) return i;
    }
    nodes.push_back(wanted);
    return static_cast<uint32_t>(nodes.size() - 1);
  }

  void event(size_t device, Kind kind, uint64_t turn, uint32_t node, double begin, double end) {
    RecordedEvent event;
    event.kind = kind;
    event.turn = turn;
    event.instruction = node;
    event.begin = static_cast<int64_t>(1e6 * begin);
    event.end = static_cast<int64_t>(1e6 * end);
    recording.partitions[device].events.push_back(event);
  }

  void kernel(size_t device, uint64_t turn, const std::string& name, const std::string& op,
              double begin, double end) {
    RecordedNode made;
    made.name = name;
    made.op = op;
    made.type = "float[2,3]";
    event(device, Kind::kernel, turn, node(device, made), begin, end);
  }

  uint32_t transfer(size_t device, size_t peer, RecordedNode::Kind kind) {
    RecordedNode made;
    const bool sends = kind == RecordedNode::Kind::send;
    made.kind = kind;
    made.op = sends ? "Send" : "Receive";
    made.edge = sends ? edge(device, peer) : edge(peer, device);
    made.name = "edge " + std::to_string(made.edge);
    made.peer = static_cast<uint32_t>(peer);
    made.bytes = 24;
    return node(device, made);
  }
  void send(size_t from, uint64_t turn, size_t to, double begin, double end) {
    event(from, Kind::send, turn, transfer(from, to, RecordedNode::Kind::send), begin, end);
  }
  void receive(size_t at, uint64_t turn, size_t from, double begin, double end) {
    event(at, Kind::receive, turn, transfer(at, from, RecordedNode::Kind::receive), begin, end);
  }
  void wait(size_t at, uint64_t turn, size_t from, double begin, double end) {
    event(at, Kind::wait, turn, transfer(at, from, RecordedNode::Kind::receive), begin, end);
  }
  void wake(size_t at, uint64_t turn, size_t from, double begin, double end) {
    event(at, Kind::wake, turn, transfer(at, from, RecordedNode::Kind::receive), begin, end);
  }
};

}  // namespace leat
