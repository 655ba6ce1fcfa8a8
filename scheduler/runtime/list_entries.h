// How the entries of a program are listed and ordered. Internal to the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/runtime/entry.h"
#include "scheduler/runtime/kernel_table.h"
#include "scheduler/runtime/value_memory.h"

namespace leat {

// The parts of a program that its entries are made from.
struct ProgramParts {
  const Plan& plan;
  const Partition& partition;
  const Device& device;
  const Exchange& exchange;
  const ValueMemory& memory;
  KernelTable& kernels;
};

// The entries of a step in the order of the partition's instructions, each with what it waits for
// from outside, and bundled. Binds the kernels that they run. order_entries() comes next.
EntryList list_entries(const ProgramParts& parts);

// Fills in which entries wait for which: after data, after memory that is reused, after pieces and
// places that channels have yet to give, and around the entry that decides a step. Finds that
// entry.
void order_entries(const ProgramParts& parts, EntryList& list);

// A half-open range of addresses that an entry reads or writes.
struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
};

// Fills Entry::after and after_previous from what each entry touches: entry e waits for f if both
// touch a byte and one of them writes it. Two rounds over the list stand for two steps: the
// dependencies of the second round on the first become after_previous. Dependencies that others
// imply are dropped.
void find_dependencies(const std::vector<std::vector<Access>>& accesses,
                       std::vector<Entry>& entries);

}  // namespace leat
