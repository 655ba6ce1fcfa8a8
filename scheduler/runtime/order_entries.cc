// Which entries of a program wait for which.
#include <algorithm>
#include <utility>

#include "ops/cpu/element_kernel.h"
#include "scheduler/runtime/list_entries.h"

namespace leat {
namespace {

class EntryOrder {
 public:
  EntryOrder(const ProgramParts& parts, EntryList& list)
      : partition_(parts.partition),
        exchange_(parts.exchange),
        memory_(parts.memory),
        kernels_(parts.kernels),
        list_(list),
        entries_(list.entries) {}
  void run();

 private:
  template <typename Visit>
  void each_instruction(const Entry& entry, const Visit& visit) const;
  std::vector<ByteRange> parts_of(const Entry& entry, uint32_t instruction, uint32_t value) const;
  void touch(const ByteRange& part, bool write, std::vector<Access>& out) const;
  void touch_instruction(const Entry& entry, uint32_t instruction, std::vector<Access>& out) const;
  void await_pieces(const Entry& entry, uint32_t instruction, std::vector<Await>& out) const;
  void await_places(uint32_t instruction, std::vector<Await>& out) const;
  void order_phases();
  void await_sent();
  void find_commit();
  void order_commit();

  const Partition& partition_;
  const Exchange& exchange_;
  const ValueMemory& memory_;
  const KernelTable& kernels_;
  EntryList& list_;
  std::vector<Entry>& entries_;  // of list_
};

void EntryOrder::run() {
  // The awaits of places and pieces are added before order_commit(), which moves those of the
  // writes to the deciding entry.
  find_commit();
  std::vector<std::vector<Access>> accesses(entries_.size());
  for (size_t e = 0; e < entries_.size(); ++e) {
    std::vector<Await> places, pieces;
    each_instruction(entries_[e], [&](const Entry& of, uint32_t index) {
      touch_instruction(of, index, accesses[e]);
      await_places(index, places);
      await_pieces(of, index, pieces);
    });
    std::vector<Await>& awaits = entries_[e].awaits;
    awaits.insert(awaits.end(), places.begin(), places.end());
    awaits.insert(awaits.end(), pieces.begin(), pieces.end());
  }
  find_dependencies(accesses, entries_);
  order_phases();
  await_sent();
  order_commit();
}

// visit(entry, instruction) for each instruction that an entry runs; of a bundle, for those of each
// member.
template <typename Visit>
void EntryOrder::each_instruction(const Entry& entry, const Visit& visit) const {
  if (entry.kind == Entry::Kind::bundle) {
    for (uint32_t i = entry.first; i < entry.last; ++i) each_instruction(list_.bundled[i], visit);
  } else if (entry.kind == Entry::Kind::kernel) {
    for (uint32_t k = entry.first; k < entry.last; ++k) {
      for (uint32_t i : kernels_.work_of(kernels_.bound(k).instruction)) visit(entry, i);
    }
  } else {
    visit(entry, entry.instruction);
  }
}

// The bytes that an entry touches of an operand of its instruction.
std::vector<ByteRange> EntryOrder::parts_of(const Entry& entry, uint32_t index,
                                            uint32_t value) const {
  if (value == kNone || partition_.values[value].type.kind == ValueKind::token) return {};
  const PlanValue& v = partition_.values[value];
  // A queue has no bytes in the plan. One byte at its address stands for all of it.
  if (v.is_opaque()) return {{value, 0, 1}};
  const uint64_t bytes = v.type.bytes();
  const Kernel* kernel = kernels_.of(index);
  // A stretch of tiles of an element-wise kernel touches its own elements of each operand. A single
  // element is used by all tiles.
  const int64_t per_tile =
      entry.kind == Entry::Kind::kernel && entry.phase >= 0 && kernel ? tile_elements(*kernel) : 0;
  if (per_tile == 0 || v.type.shape.elements() < 2) return memory_.parts_of(value, 0, bytes);
  const uint64_t tile = static_cast<uint64_t>(per_tile) * dtype_size(v.type.dtype);
  return memory_.parts_of(value, std::min(bytes, entry.first_tile * tile),
                          std::min(bytes, (entry.first_tile + entry.tiles) * tile));
}

void EntryOrder::touch(const ByteRange& part, bool write, std::vector<Access>& out) const {
  write = write || partition_.values[part.value].is_opaque();  // queues are used in plan order
  const void* before = nullptr;                                // mostly the same in both parities
  for (const void* address : memory_.addresses(part.value)) {
    if (address == std::exchange(before, address)) continue;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (address) out.push_back({begin + part.begin, begin + part.end, write});
  }
}

// Lists the bytes that an entry reads and writes for one of its instructions.
void EntryOrder::touch_instruction(const Entry& entry, uint32_t index,
                                   std::vector<Access>& out) const {
  const PlanInstruction& instruction = partition_.instructions[index];
  // A retire counts as a write: the sender overwrites the slot, so all readers must be done before.
  const bool hands_back = instruction.kind == PlanInstruction::Kind::retire;
  for (size_t k = 0; k < instruction.inputs.size(); ++k) {
    const auto& writes = instruction.op ? instruction.op->writes : std::vector<int>();
    const bool written =
        std::find(writes.begin(), writes.end(), static_cast<int>(k)) != writes.end();
    for (const ByteRange& part : parts_of(entry, index, instruction.inputs[k]))
      touch(part, written || hands_back, out);
  }
  for (uint32_t output : instruction.outputs) {
    for (const ByteRange& part : parts_of(entry, index, output)) touch(part, true, out);
  }
  // A workspace counts as written, so that two steps never use it at the same time.
  const Kernel* kernel = kernels_.of(index);
  if (!kernel || kernel->workspace_bytes() == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(kernels_.workspace(index));
  out.push_back({begin, begin + kernel->workspace_bytes(), true});
}

// An entry that reads pieces waits for those that it reads.
void EntryOrder::await_pieces(const Entry& entry, uint32_t index, std::vector<Await>& out) const {
  for (uint32_t input : partition_.instructions[index].inputs) {
    for (const ByteRange& part : parts_of(entry, index, input)) {
      const uint32_t receive = memory_.receiver_of_piece(part.value);
      if (receive == kNone) continue;
      const uint32_t edge = partition_.instructions[receive].edge;
      out.push_back({&exchange_.slots->edge(edge).arrived, 0, receive});
    }
  }
}

// An entry that writes to a channel's place needs credit for it, like the push that follows.
void EntryOrder::await_places(uint32_t index, std::vector<Await>& out) const {
  for (uint32_t output : partition_.instructions[index].outputs) {
    if (const auto* credits = memory_.credits(output)) {
      for (Timeline* credit : *credits) out.push_back({credit, kSlotDepth, index});
    }
  }
}

// The phases of one instruction follow each other even if they share no bytes.
void EntryOrder::order_phases() {
  for (size_t e = 1; e < entries_.size(); ++e) {
    Entry& entry = entries_[e];
    const Entry& before = entries_[e - 1];
    if (entry.kind == Entry::Kind::kernel && before.kind == Entry::Kind::kernel &&
        entry.phase > 0 && entry.instruction == before.instruction && entry.after.empty())
      entry.after.push_back(static_cast<uint32_t>(e - 1));
  }
}

// Bytes that were sent in place may be touched again when they have left. An entry that follows the
// send only by way of other entries needs no wait of its own: the first of those has waited.
void EntryOrder::await_sent() {
  const auto add = [&](Entry& entry, uint32_t before, uint64_t lag) {
    const Entry& send = entries_[before];
    if (send.kind == Entry::Kind::send && send.in_place)
      entry.awaits.push_back({send.channel->sent(send.edge), lag, send.instruction});
  };
  for (Entry& entry : entries_) {
    for (uint32_t before : entry.after) add(entry, before, 0);
    for (uint32_t before : entry.after_previous) add(entry, before, 1);
  }
}

// Finds the entry that decides a step, and the writes that follow it: all of them are kernels.
void EntryOrder::find_commit() {
  const uint32_t last_write = partition_.last_write();
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    if (entries_[e].commits) {
      list_.commit = e;
      list_.commit_end = e + 1;
    }
    if (list_.commit == kNone || last_write == kNone) continue;
    each_instruction(entries_[e], [&](const Entry&, uint32_t index) {
      if (index <= last_write) list_.commit_end = e + 1;
    });
  }
}

// The deciding entry waits for all that the writes wait for, and for every entry before it that
// could fail, in this step and in the step before. If others follow such an entry, it is enough
// to wait for the last of them.
void EntryOrder::order_commit() {
  if (list_.commit == kNone) return;
  Entry& commit = entries_[list_.commit];
  std::vector<bool> followed(entries_.size(), false), followed_by_next(entries_.size(), false);
  for (uint32_t e = 0; e < list_.commit; ++e) {
    for (uint32_t before : entries_[e].after) followed[before] = true;
    for (uint32_t before : entries_[e].after_previous) followed_by_next[before] = true;
  }
  for (uint32_t e = list_.commit + 1; e < entries_.size(); ++e) {
    for (uint32_t before : entries_[e].after) followed_by_next[before] = true;
  }
  commit.after.clear();
  commit.after_previous.clear();
  for (uint32_t e = 0; e < list_.commit; ++e)
    if (!followed[e]) commit.after.push_back(e);
  for (uint32_t e = list_.commit; e < entries_.size(); ++e)
    if (!followed_by_next[e]) commit.after_previous.push_back(e);
  for (uint32_t e = list_.commit + 1; e < list_.commit_end; ++e) {
    for (const Await& await : entries_[e].awaits) {
      const bool known = std::any_of(commit.awaits.begin(), commit.awaits.end(), [&](auto& other) {
        return other.timeline == await.timeline && other.lag <= await.lag;
      });
      if (!known) commit.awaits.push_back(await);
    }
    entries_[e].awaits.clear();
    commit.cheap = commit.cheap && entries_[e].cheap;
  }
}

}  // namespace

void order_entries(const ProgramParts& parts, EntryList& list) { EntryOrder(parts, list).run(); }

}  // namespace leat
