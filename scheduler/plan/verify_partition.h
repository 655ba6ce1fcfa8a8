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

// How often the partitions of a plan use each edge and each fetch.
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

  // internal error for the first fault.
  Status run();

 private:
  // The instructions of one chain so far.
  struct Chain {
    uint32_t first = kNone;
    int64_t rows = 0, tile_rows = 0;
    std::map<uint32_t, bool> made;  // by root that a member writes: true if row by row
    std::set<uint32_t> read;        // the roots that members read
  };

  Status wrong(const std::string& what) const;
  Status wrong(const PlanInstruction& instruction, const std::string& what) const;

  Status check_sizes();
  Status take_memory(uint64_t bytes);
  Status check_resources();
  Status find_producers();

  Status check_feeds();
  Status check_value(uint32_t id);
  Status check_home(uint32_t id);
  Status check_view(uint32_t id) const;
  Status check_pieces(uint32_t id) const;
  bool is_there(uint32_t id) const;

  Status check_instruction(uint32_t index);
  Status check_reads(const PlanInstruction& instruction) const;
  Status check_send(const PlanInstruction& instruction);
  Status check_receive(const PlanInstruction& instruction);
  Status check_retire(const PlanInstruction& instruction);
  Status check_fetch(const PlanInstruction& instruction);

  Status check_commit() const;
  Status check_kernel(uint32_t index);
  Status check_types(const PlanInstruction& instruction, const OpTypes& types) const;
  Status check_outputs(const PlanInstruction& instruction);
  bool may_overwrite(const PlanInstruction& instruction, size_t output) const;
  Status check_chain(uint32_t index, const OpTypes& types);
  Status check_member(const PlanInstruction& instruction, const Tiling& tiling);

  const Plan& plan_;
  const Partition& part_;
  const uint32_t index_;
  PlanUses& uses_;
  std::vector<OperandType> resource_types_;
  std::vector<bool> fed_;                // by value
  std::vector<bool> produced_;           // by value: some instruction's output
  std::vector<uint32_t> contents_;       // by root: the value that its bytes hold now, kNone: none
  std::vector<uint32_t> dtypes_;         // by root: bits of those that its bytes are used with
  std::map<uint32_t, uint32_t> landed_;  // by edge: the value that was received
  Chain chain_;
  uint64_t memory_ = 0;
};

}  // namespace leat
