// How a Program is made. Internal to the runtime.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/runtime/program.h"

namespace leat {

// A half-open range of addresses that an entry reads or writes.
struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
};

// Bytes [begin, end) of a value that has its own: what is joined has those of its pieces.
struct ByteRange {
  uint32_t value = kNone;
  uint64_t begin = 0, end = 0;
};

// Allocates, binds, makes kernels, lists entries and finds their dependencies, in that order.
class Program::Builder {
 public:
  Builder(Program& program, const Plan& plan, uint32_t partition);
  Status build();

 private:
  Status allocate_memory();
  Status open_resources();
  Status bind_addresses();
  void list_aliases();
  Result<void*> home_address(const PlanValue& value, uint64_t parity);
  void bind_places();
  Status bind_joined();
  uint32_t root(uint32_t value) const;
  bool is_in_place(uint32_t send) const;
  Status make_kernel(uint32_t instruction);
  Status make_kernels();
  Status allocate_workspaces();
  void list_entries();
  void list_kernel(uint32_t instruction, int from_phase, int to_phase);
  void list_chain(uint32_t first, uint32_t last);
  void list_transfer(uint32_t instruction);
  bool is_small(const Entry& entry) const;
  bool is_cheap(const Entry& entry) const;
  uint64_t touched_bytes(const PlanInstruction& instruction) const;
  bool fits_bundle(const Entry& entry) const;
  void bundle();
  bool is_received_piece(uint32_t instruction) const;
  std::vector<ByteRange> parts_of(uint32_t value, uint64_t begin, uint64_t end) const;
  std::vector<ByteRange> parts_of(const Entry& entry, uint32_t instruction, uint32_t value) const;
  std::vector<uint32_t> cuts(uint32_t instruction, uint32_t tiles) const;
  void touch(const ByteRange& part, bool write, std::vector<Access>& out) const;
  void touch_instruction(const Entry& entry, uint32_t instruction, std::vector<Access>& out) const;
  void touch_entry(const Entry& entry, std::vector<Access>& out) const;
  void await_pieces(const Entry& entry, std::vector<Await>& out) const;
  template <typename Visit>
  void each_instruction(const Entry& entry, const Visit& visit) const;
  void await_places(const Entry& entry, std::vector<Await>& out) const;
  void await_sent();
  void find_commit();
  void order_commit();
  bool chain_fits(uint32_t first, uint32_t last) const;
  uint32_t bind(uint32_t instruction);
  Status allocate_fetches();

  Program& program_;
  const Plan& plan_;
  const Partition& partition_;
  std::vector<void*> resource_addresses_;
  std::vector<uint64_t> workspace_offsets_;  // by instruction
  std::vector<uint32_t> bound_;              // by instruction: index in kernels_, or kNone
  // Values that are written where channels want them: the credit that writing needs, of each.
  std::map<uint32_t, std::vector<Timeline*>> places_;
  // By value: of pieces that come from elsewhere, the instruction that receives them; else kNone.
  // Who touches such a piece waits for it, and nobody else.
  std::vector<uint32_t> pieces_;
  std::vector<std::vector<uint32_t>> aliases_;  // by root: the values that share its bytes
  uint32_t commit_ = kNone;                     // as the partition says
  std::optional<ValueUses> uses_;
  uint64_t workspace_bytes_ = 0;
};

// Fills Entry::after and after_previous from what each entry touches: entry e waits for f if both
// touch a byte and one of them writes it. Two rounds over the list stand for two steps; what the
// second owes to the first is carried. Dependencies that others imply are dropped.
void find_dependencies(const std::vector<std::vector<Access>>& accesses,
                       std::vector<Entry>& entries);

}  // namespace leat
