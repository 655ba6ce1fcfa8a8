// How a Program is made. Internal to the runtime.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "scheduler/runtime/program.h"

namespace leat {

// Allocates, binds, makes kernels, lists entries and finds their dependencies, in that order.
class Program::Builder {
 public:
  Builder(Program& program, const Plan& plan, uint32_t partition);
  Status build();

 private:
  Status allocate_memory();
  Status open_resources();
  Status bind_addresses();
  Status make_kernel(uint32_t instruction);
  Status make_kernels();
  Status allocate_workspaces();
  void list_entries();
  void list_kernel(uint32_t instruction, int from_phase, int to_phase);
  void list_chain(uint32_t first, uint32_t last);
  bool chain_fits(uint32_t first, uint32_t last) const;
  uint32_t bind(uint32_t instruction);
  Status allocate_fetches();

  Program& program_;
  const Plan& plan_;
  const Partition& partition_;
  std::vector<void*> resource_addresses_;
  std::vector<uint64_t> workspace_offsets_;  // by instruction
  std::vector<uint32_t> bound_;              // by instruction: index in kernels_, or kNone
  uint64_t workspace_bytes_ = 0;
};

// A half-open range of addresses that an entry reads or writes.
struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
};

// Fills Entry::after and after_previous from what each entry touches: entry e waits for f if both
// touch a byte and one of them writes it. Two rounds over the list stand for two steps; what the
// second owes to the first is carried. Dependencies that others imply are dropped.
void find_dependencies(const std::vector<std::vector<Access>>& accesses,
                       std::vector<Entry>& entries);

}  // namespace leat
