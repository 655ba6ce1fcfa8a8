// A plan is what compile() makes of a graph: instructions wired by integers, with their order, the
// devices that run them and the memory of their values. compile() makes a plan once, verify()
// checks it once, and then hosts execute it unchecked for any number of steps.
//
// A plan is a plain record. Nothing changes it once it is verified, so any thread may read it.
//
// A step of a plan goes so: the caller writes its feeds into the arenas; each partition issues its
// instructions in their order, on a host of its own; a send pushes a value into the slot of its
// edge, which a receive waits for; a retire lets the sender write to the slot again; fetches are
// copied out; and, in a plan that commits, variables change behind the Commit alone. The order is
// fixed, so that the sums, and with them the weights, have the same bits in each execution.
//
// scheduler/capnp has the form in which a plan goes to other processes. docs/life-of-a-step.md
// follows one from the graph to the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat {

// A run keeps the fetches of so many steps before it overwrites the oldest.
inline constexpr uint64_t kFetchDepth = 16;

// The place of a plan value's bytes.
enum class Home : uint8_t {
  none,      // a token: order only
  arena,     // at an offset of the partition's arena
  resource,  // in a variable; of another resource, such as a queue, the value is its address
  constant,  // in a constant of the partition
  slot,      // in the slot of an incoming edge, where another partition's value lands
  pages,     // in memory pages of its own, which a joined value maps a second time
  joined,    // in its pieces, which one range of addresses shows as a whole
};

// One result of an instruction, a feed, a constant, or a variable as operands name it. Operands are
// indices of the partition's `values`. The types are concrete: sizes that a graph leaves open are
// known when it is compiled.
struct PlanValue {
  OperandType type;
  Home home = Home::none;
  // In bytes, from the beginning of the arena. A view may be a range of its value, which begins
  // behind it and is shorter; outside the arena, the range's offset counts from its value.
  uint64_t offset = 0;
  uint32_t index = 0;  // of the resource, the constant, or the edge
  // The earlier value whose bytes this one shares, as a view or computed in place. The earlier one
  // is itself no alias, but the root of all that share its bytes. kNone: this value is a root.
  uint32_t alias = kNone;
  // joined: earlier values in slots or pages. All but the last are whole memory pages. An
  // instruction that reads the joined value reads all of them.
  std::vector<uint32_t> pieces;
  std::string name;  // for people

  // True for a resource that is no variable: its bytes are not the plan's to see.
  bool is_opaque() const { return home == Home::resource && type.dtype == DType::invalid; }
};

// The work of one kernel, or one transfer. A kernel is cut into tiles, which the threads of the
// device share; the cut follows from the shapes alone, never from the number of threads. The
// members of a chain run one behind the other on each tile, while its rows are in the cache.
struct PlanInstruction {
  enum class Kind : uint8_t {
    kernel,
    send,     // pushes input 0 along `edge`
    receive,  // waits until `edge` has the step's value
    retire,   // returns the slot of `edge` to its sender: the last reader is done
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
  uint32_t chain = kNone;   // instructions with the same chain run together, tile by tile
  int64_t tile_rows = 0;    // rows of a tile, for members of a chain; 0: the kernel decides
};

// A resource that instructions use, such as a variable or a queue. The job keeps it between runs.
struct PlanResource {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::string name;
  uint64_t bytes = 0;  // of a variable
};

// One device's part of a plan.
struct Partition {
  std::string device;  // "job:worker/task:0/cpu:0"
  // True in a copy of the plan for another runner: then only the device is known of this partition.
  bool elsewhere = false;
  std::vector<PlanValue> values;
  std::vector<PlanInstruction> instructions;  // in the order in which they are issued
  std::vector<PlanResource> resources;
  std::vector<Tensor> constants;
  std::vector<uint32_t> feeds;  // values, by feed of the plan; kNone if it is not used here
  uint64_t arena_bytes = 0;
  // A device that has TF32 may round the factors of products of float32 to it, to 10 bits behind
  // the point, and still adds up in float32. Others, CPUs among them, compute as without it.
  bool tf32 = false;

  // The value itself, or the value whose bytes it shares.
  uint32_t root(uint32_t value) const {
    const uint32_t alias = values[value].alias;
    return alias == kNone ? value : alias;
  }
  // The types of the instruction's operands. `attrs` are its attributes with their defaults, and
  // outlive the result.
  OpTypes types_of(const PlanInstruction& instruction, const Attrs& attrs) const;
  uint64_t resource_bytes() const;
  uint64_t constant_bytes() const;
  uint64_t slot_bytes() const;
  uint64_t page_bytes() const;  // of values in pages of their own
  // The last instruction that writes to a variable; kNone if there is none.
  uint32_t last_write() const;
  // The leat.Commit, which decides whether a step's writes are made; kNone if there is none. See
  // ops/state/commits.h.
  uint32_t commit() const;
  // The memory that the device needs for the partition, workspaces of kernels not counted.
  uint64_t memory_bytes() const {
    return arena_bytes + resource_bytes() + constant_bytes() + slot_bytes() + page_bytes();
  }
};

// A value that crosses partitions: it has one send in `from`, and one receive and one retire in
// `to`. The slot of an edge has room for kSlotDepth steps (transport/slots.h), so a sender may be
// that far ahead of the receiver.
struct PlanEdge {
  uint32_t from = 0, to = 0;  // partitions
  uint64_t bytes = 0;         // in a step; 0: the edge is there for order only
  std::string name;
};

// One tensor that the caller feeds or fetches. A feed may be used in several partitions; a fetch
// comes from one.
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
  std::vector<PlanBorder> feeds;  // in the caller's order, as are the fetches
  std::vector<PlanBorder> fetches;

  // True if each partition that writes variables has a leat.Commit. REQUIRES: none is elsewhere.
  bool commits() const;
  // The whole plan as text, for tests to compare: equal plans have equal texts.
  std::string text() const;
  // Partitions, memory and transfers of a step in a few lines, which `leat plan` prints.
  // `workspaces`: the bytes of kernels' workspaces by partition, if they are known.
  std::string summary(const std::vector<uint64_t>& workspaces = {}) const;
};

// Checks a plan before it is executed unchecked: every index, range, edge, alias and chain; each
// op's own inference on the types of its operands; that no two values that live at one time share
// bytes; and that the partitions come to the end of a step. It trusts nothing that it can check, so
// that a plan from outside can make no kernel touch memory that is not the plan's. Two things are
// left: kernels check the values that they read, and the ends of edges in partitions that are
// elsewhere are taken on trust. Returns an internal error that names the first fault.
Status verify(const Plan& plan);

}  // namespace leat
