// The checks that verify() makes of one partition. Internal to verify().
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/kernel.h"
#include "scheduler/plan/plan.h"

namespace leat {

// How often the partitions of a plan use each edge and each fetch. The vectors are indexed by the
// number of the edge, or of the fetch. verify() compares the counts once all partitions are
// checked: each edge is sent, received and retired once, and each fetch has one instruction.
struct PlanUses {
  explicit PlanUses(const Plan& plan)
      : sent(plan.edges.size(), 0),
        received(plan.edges.size(), 0),
        retired(plan.edges.size(), 0),
        fetched(plan.fetches.size(), 0) {}
  std::vector<uint32_t> sent, received, retired, fetched;
};

// Finds two values of the arena, neither an alias, that share bytes while both live. A value lives
// from the instruction that writes it to the last that reads it; a chain counts as one instruction.
// REQUIRES: indices, offsets and aliases are checked.
std::optional<std::pair<uint32_t, uint32_t>> find_overlap(const Partition& partition);

// Goes through a partition in the order of a step and trusts nothing in it. If run() finds no
// fault, then
//  - every operand of a kernel lies inside memory that the partition has, aligned, and is of the
//    type that the op's inference gives;
//  - a kernel writes to the arena, to pages, and to the variables that its op writes, and nowhere
//    else;
//  - a value is read after it was written and before its bytes serve another; values that live at
//    the same time share no bytes, but for views and for what a kernel computes in place;
//  - a tile of a chain depends on rows of its own tile alone;
//  - with a Commit, variables are written by kernels behind it, among which nothing can wait.
//
// One object checks one partition, on one thread. It adds what it has seen to `uses`, which the
// verifiers of all partitions share. REQUIRES: the edges and borders of the plan are checked.
class PartitionVerifier {
 public:
  PartitionVerifier(const Plan& plan, uint32_t partition, PlanUses& uses)
      : plan_(plan), part_(plan.partitions[partition]), index_(partition), uses_(uses) {}

  // internal error for the first fault, with the device of the partition and the name of the
  // instruction or the number of the value. A partition that is elsewhere must be empty. The time
  // is linear in the operands, but for find_overlap(). Called once.
  Status run();

 private:
  // The instructions of one chain so far.
  struct Chain {
    uint32_t first = kNone;
    int64_t rows = 0, tile_rows = 0;
    std::map<uint32_t, bool> made;  // by root that a member writes: true if row by row
    std::set<uint32_t> read;        // the roots that members read
  };

  // The error of a fault in the partition, or in one of its instructions.
  Status wrong(const std::string& what) const;
  Status wrong(const PlanInstruction& instruction, const std::string& what) const;

  // The numbers of values, instructions, resources and constants are within the limits.
  Status check_sizes();
  // Counts bytes that the device needs. Their sum is at most limits::kPartitionBytes, so that no
  // address that is computed later can overflow.
  Status take_memory(uint64_t bytes);
  // Each resource has as many bytes as the type that its op infers from its attributes.
  Status check_resources();
  // Every operand is the number of a value, and no two instructions make one value. Fills
  // produced_.
  Status find_producers();

  // Each feed has a value of its own in the arena, of the type of the plan's border, which no
  // instruction makes. Fills fed_.
  Status check_feeds();
  // The value has a type, and a place that fits its kind. An alias lies in the bytes of an earlier
  // value that is no alias itself.
  Status check_value(uint32_t id);
  // The place of a value that is no alias is there: it lies inside the arena, or its resource,
  // constant or edge has its type or its size.
  Status check_home(uint32_t id);
  // A view has a type with which its bytes were used before: the bits of another type may be no
  // valid elements, as those of a bool are 0 or 1 alone.
  Status check_view(uint32_t id) const;
  // The pieces of a joined value add up to it, and all but the last are whole memory pages.
  Status check_pieces(uint32_t id) const;
  // True if the bytes of the value hold it at this point of the step.
  bool is_there(uint32_t id) const;

  // The values that the instruction reads are there, and its fields fit its kind. Afterwards
  // contents_ shows the step behind it. REQUIRES: the instructions before it are checked.
  Status check_instruction(uint32_t index);
  Status check_reads(const PlanInstruction& instruction) const;
  // A transfer belongs to an edge that begins or ends in this partition, and its value has the
  // edge's size. A received value lands in the edge's slot, and nothing reads it behind its retire.
  Status check_send(const PlanInstruction& instruction);
  Status check_receive(const PlanInstruction& instruction);
  Status check_retire(const PlanInstruction& instruction);
  // The fetched value is a plain tensor of the border's type and shape.
  Status check_fetch(const PlanInstruction& instruction);

  // All writes to variables stand behind the Commit, and nothing between them can wait: a run that
  // failed there would leave half of a step written.
  Status check_commit() const;
  Status check_kernel(uint32_t index);
  // The outputs have the types that the op's own rule infers from the inputs, and from the elements
  // of those that are constants.
  Status check_types(const PlanInstruction& instruction, const OpTypes& types) const;
  // The outputs are in the arena or in pages, and are no feeds. An output that shares the bytes of
  // another value computes it in place.
  Status check_outputs(const PlanInstruction& instruction);
  // True if the op allows this output to take the bytes of an input, and no other input has them.
  bool may_overwrite(const PlanInstruction& instruction, size_t output) const;
  // The members of a chain follow each other and are cut into the same tiles, as their ops allow.
  Status check_chain(uint32_t index, const OpTypes& types);
  // A member reads only its own rows of what the chain has made, and overwrites nothing that
  // members before it read: those have not run on their last tiles when it runs on its first.
  Status check_member(const PlanInstruction& instruction, const Tiling& tiling);

  const Plan& plan_;
  const Partition& part_;
  const uint32_t index_;
  PlanUses& uses_;
  std::vector<OperandType> resource_types_;  // by resource, as its op infers them
  std::vector<bool> fed_;                    // by value
  std::vector<bool> produced_;               // by value: some instruction's output
  std::vector<uint32_t> contents_;       // by root: the value that its bytes hold now, kNone: none
  std::vector<uint32_t> dtypes_;         // by root: bits of those that its bytes are used with
  std::map<uint32_t, uint32_t> landed_;  // by edge: the value that was received
  Chain chain_;          // that of the last instruction; empty behind one without a chain
  uint64_t memory_ = 0;  // bytes that take_memory() has counted
};

}  // namespace leat
