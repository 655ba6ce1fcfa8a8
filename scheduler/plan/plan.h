// A plan: what a graph became. Immutable, wired by integers, routed and laid out in memory; made
// once by compile(), verified once, then executed unchecked for any number of steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat {

// How many steps' fetches are kept before the oldest is overwritten.
inline constexpr uint64_t kFetchDepth = 16;

// Where the bytes of a plan value are.
enum class Home : uint8_t {
  none,      // a token: order only
  arena,     // at an offset of the partition's arena
  resource,  // the storage of a variable, or the address of another resource
  constant,  // known when the plan was made
  slot,      // lands from another partition: the slot of an incoming edge
  pages,     // in memory of its own, which a joined value shows again
  joined,    // the bytes of its pieces, which show as one
};

struct PlanValue {
  OperandType type;
  Home home = Home::none;
  // Bytes, of the arena. A view may begin behind its value and be shorter: a range of it. Where
  // the value is not in the arena, a range's offset counts from the value.
  uint64_t offset = 0;
  uint32_t index = 0;      // of the resource, the constant, or the edge
  uint32_t alias = kNone;  // shares the bytes of this earlier value (a view, or computed in place)
  // joined: earlier values in slots or pages, of whole pages but for the last. To read it is to
  // read all of them.
  std::vector<uint32_t> pieces;
  std::string name;  // for people
};

// One kernel's worth of work, or a transfer.
struct PlanInstruction {
  enum class Kind : uint8_t {
    kernel,
    send,     // pushes input 0 along `edge`
    receive,  // waits until `edge` has the step's value
    retire,   // gives the slot of `edge` back: its last reader is done
    fetch,    // copies input 0 to fetch `edge`
  };
  Kind kind = Kind::kernel;
  const OpDef* op = nullptr;  // kernel
  Attrs attrs;
  std::vector<uint32_t> inputs;  // plan values; kNone where absent
  std::vector<uint32_t> outputs;
  std::string name;         // "conv2d_1", for messages
  uint32_t source = kNone;  // Node::source
  int64_t first_row = 0;    // Node::first_row
  uint32_t edge = kNone;    // send, receive, retire: the edge; fetch: the fetch's index
  uint32_t chain = kNone;   // instructions of one chain run tile by tile, together
  int64_t tile_rows = 0;    // of phase 0, for members of a chain; 0: the kernel's own
};

// A variable, a queue: a node whose output is a resource.
struct PlanResource {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::string name;
  uint64_t bytes = 0;  // of a variable
};

// One device's part of a plan.
struct Partition {
  std::string device;      // "job:worker/task:0/cpu:0"
  bool elsewhere = false;  // nothing but the device is known here: another runner has the rest
  std::vector<PlanValue> values;
  std::vector<PlanInstruction> instructions;  // in the order in which they are issued
  std::vector<PlanResource> resources;
  std::vector<Tensor> constants;
  std::vector<uint32_t> feeds;  // values, by feed of the plan; kNone if it is not used here
  uint64_t arena_bytes = 0;
  uint64_t resource_bytes() const;
  uint64_t constant_bytes() const;
  uint64_t slot_bytes() const;
  uint64_t page_bytes() const;  // of values in pages of their own
  // Instructions that write to variables: the last of them, kNone if there are none. And the
  // leat.Commit, kNone if there is none: see ops/definitions/commits.h.
  uint32_t last_write() const;
  uint32_t commit() const;
  // What the device needs for it, workspaces of kernels not counted.
  uint64_t memory_bytes() const {
    return arena_bytes + resource_bytes() + constant_bytes() + slot_bytes() + page_bytes();
  }
};

// A value that crosses partitions.
struct PlanEdge {
  uint32_t from = 0, to = 0;  // partitions
  uint64_t bytes = 0;         // a step; 0: order only
  std::string name;
};

// What the caller feeds and fetches, in its order.
struct PlanBorder {
  std::string name;
  DType dtype = DType::invalid;
  Shape shape;
  uint32_t partition = 0;  // of a fetch
};

struct Plan {
  std::string name;
  std::vector<Partition> partitions;
  std::vector<PlanEdge> edges;
  std::vector<PlanBorder> feeds;
  std::vector<PlanBorder> fetches;

  // Does each partition that writes variables have a leat.Commit? REQUIRES: none is elsewhere.
  bool commits() const;
  // Equal plans give equal text. What golden tests compare and `leat plan --text` prints.
  std::string text() const;
  // What `leat plan` prints: partitions, memory, transfers a step.
  std::string summary() const;
};

// The gate that a plan passes once, before it is executed unchecked: every index, range, edge,
// alias and chain, each op's own inference on the types of its operands, that no two values that
// live at one time share bytes, and that the partitions come to the end of a step. It believes
// nothing, so that a plan from outside can make no kernel touch memory that is not its own. (What
// the values in the memory are, kernels check themselves.) Where partitions are elsewhere, the ends
// of edges there are taken on trust. internal error that names the first thing that is wrong.
Status verify(const Plan& plan);

}  // namespace leat
