// A recording of what the devices of a job did in some of its steps. Runners make it
// (scheduler/runtime/step_recorder.h), the master puts the parts on one clock, and `leat trace` and
// `leat explain` show it. It travels as a file of daemon/wire/recording.capnp.
//
// A plain record. Times are nanoseconds; all of a StepRecording are of the master's steady clock.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace leat {

// No instruction, edge or chain.
inline constexpr uint32_t kNotRecorded = std::numeric_limits<uint32_t>::max();

// An instruction of a partition.
struct RecordedNode {
  enum class Kind : uint8_t { kernel, send, receive, retire, fetch };
  std::string name;  // "l1/conv"
  std::string op;    // "Conv", "leat.ReadBatch"; of a transfer "Send", "Receive"
  std::string type;  // of its first output, or of the value that it moves: "float[64,128]"
  Kind kind = Kind::kernel;
  uint32_t edge = kNotRecorded;       // of a transfer: the plan's number of it
  uint32_t peer = kNotRecorded;       // of a transfer: the partition at its other end
  uint64_t bytes = 0;                 // of a transfer
  uint32_t chain = kNotRecorded;      // nodes with the same number run together, tile by tile
  std::vector<uint32_t> inputs = {};  // the nodes of this device whose values it takes
};

// A piece of time of one thread.
struct RecordedEvent {
  enum class Kind : uint8_t {
    kernel,   // runs the node; of a chain, the first node stands for all
    send,     // pushes the value of the node
    receive,  // takes the value of the node, which is there
    retire,   // gives the place of the value back to its sender
    fetch,    // copies a value out for the trainer
    wait,     // the device waits for the node: a receive for its value, a send for room at its
              // reader, a kernel for something else; without a node, the thread waits until its
              // accelerator has done what it was given
    wake,     // that is there, and the thread is on its way to it
    limit,    // the master has allowed no further step
    flush,    // hands the values that were sent together to the transport
  };
  int64_t begin = 0, end = 0;
  uint64_t turn = 0;  // turns count the steps of a run, from 0
  uint32_t instruction = kNotRecorded;
  uint32_t pieces = 1;  // tiles of it
  Kind kind = Kind::kernel;
  uint16_t thread = 0;
};

// One device.
struct RecordedPartition {
  std::string node;             // the worker
  std::string device;           // "job:worker/task:0/cpu:0"
  std::string plan;             // its name
  uint32_t partition = 0;       // its number in the plan
  uint32_t threads = 1;         // of compute
  uint32_t cores = 0;           // of the machine; 0: unknown
  uint64_t first_step = 0;      // the job's step of turn 0
  uint64_t first = 0, end = 0;  // the turns that it recorded
  uint64_t dropped = 0;         // events for which there was no room
  // Events are missing in this turn, and in those after it. Above every turn if none is missing.
  uint64_t lost_from = std::numeric_limits<uint64_t>::max();
  int64_t clock_offset = 0;         // was added to its times
  int64_t clock_error = 0;          // the offset is right to that, in either direction
  std::vector<RecordedNode> nodes;  // by instruction
  std::vector<RecordedEvent> events;
};

struct StepRecording {
  std::string job;
  std::vector<RecordedPartition> partitions;

  // The turns [first, end) that all partitions were to record; empty if first >= end.
  uint64_t first() const;
  uint64_t end() const;
  // The first of those that they have recorded from its begin. A device may have been beyond
  // first() when its recording began: it has its first turn with events in part.
  uint64_t whole_first() const;
  // The end of those that they have recorded without a loss; at most end().
  uint64_t whole_end() const;
};

}  // namespace leat
