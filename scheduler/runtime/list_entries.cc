#include "scheduler/runtime/list_entries.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/cpu/element_kernel.h"
#include "ops/definitions/input.h"
#include "transport/links/frame.h"

namespace leat {
namespace {

// A kernel on so few bytes takes about as long as waking another thread.
constexpr uint64_t kCheapBytes = 16 << 10;
constexpr uint32_t kCheapTiles = 4;
// A bundle runs on one thread in one go, so it must not hold a step's worth of work.
constexpr size_t kMostBundled = 256;

bool reads_rows(const PlanInstruction& instruction) {
  return instruction.op && instruction.op->full_name() == kReadBatch;
}

class EntryLister {
 public:
  explicit EntryLister(const ProgramParts& parts)
      : plan_(parts.plan),
        partition_(parts.partition),
        device_(parts.device),
        exchange_(parts.exchange),
        memory_(parts.memory),
        kernels_(parts.kernels),
        commit_(parts.partition.commit()),
        uses_(parts.partition) {}
  EntryList run();

 private:
  void list_kernel(uint32_t instruction, int from_phase, int to_phase);
  std::vector<uint32_t> cuts(uint32_t instruction, uint32_t tiles) const;
  bool chain_fits(uint32_t first, uint32_t last) const;
  void list_chain(uint32_t first, uint32_t last);
  void list_transfer(uint32_t instruction);
  void await_credit(Entry& send);
  bool is_small(const Entry& entry) const;
  bool is_cheap(const Entry& entry) const;
  uint64_t touched_bytes(const PlanInstruction& instruction) const;
  bool fits_bundle(const Entry& entry) const;
  void bundle();
  bool is_received_piece(const PlanInstruction& instruction) const {
    return instruction.kind == PlanInstruction::Kind::receive && !instruction.outputs.empty() &&
           memory_.receiver_of_piece(instruction.outputs[0]) != kNone;
  }

  const Plan& plan_;
  const Partition& partition_;
  const Device& device_;
  const Exchange& exchange_;
  const ValueMemory& memory_;
  KernelTable& kernels_;
  const uint32_t commit_;  // the instruction that commits, or kNone
  const ValueUses uses_;
  EntryList list_;
};

EntryList EntryLister::run() {
  list_.entries.reserve(partition_.instructions.size());
  const auto n = static_cast<uint32_t>(partition_.instructions.size());
  for (uint32_t i = 0; i < n;) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::kernel) {
      // A piece has no entry: the entries that read it wait for it.
      if (!is_received_piece(instruction)) list_transfer(i);
      ++i;
      continue;
    }
    // The members of a chain stand side by side. A chain that cannot be cut into common tiles is
    // listed as single kernels, which gives the same bits.
    uint32_t last = i + 1;
    while (instruction.chain != kNone && last < n &&
           partition_.instructions[last].chain == instruction.chain)
      ++last;
    if (last > i + 1 && chain_fits(i, last)) {
      list_chain(i, last);
    } else {
      for (uint32_t k = i; k < last; ++k) list_kernel(k, 0, kernels_.of(k)->phases());
    }
    i = last;
  }
  // Work for an asynchronous device is cheap to issue, but only the thread that advances issues it.
  const bool host = device_.host_visible();
  for (Entry& entry : list_.entries) {
    if (!host || entry.kind == Entry::Kind::kernel) entry.cheap = host && is_cheap(entry);
  }
  if (host) bundle();
  return std::move(list_);
}

// Phases [from, to) of one instruction, an entry each; nothing if the entry of another one does its
// work.
void EntryLister::list_kernel(uint32_t index, int from, int to) {
  if (kernels_.work_of(index).empty()) return;
  const PlanInstruction& instruction = partition_.instructions[index];
  const uint32_t kernel = kernels_.bind(index);
  const bool may_block =
      kernels_.of(index)->may_block() ||
      std::any_of(instruction.inputs.begin(), instruction.inputs.end(), [&](uint32_t input) {
        return input != kNone && partition_.values[input].is_opaque();
      });
  for (int phase = from; phase < to; ++phase) {
    Entry entry;
    entry.phase = phase;
    entry.may_block = may_block;
    entry.commits = index == commit_;
    entry.reads_rows = reads_rows(instruction);
    entry.first = kernel;
    entry.last = kernel + 1;
    entry.instruction = index;
    // Usually there is one stretch with all tiles.
    uint32_t begin = 0;
    for (uint32_t end : cuts(index, static_cast<uint32_t>(kernels_.of(index)->tiles(phase)))) {
      entry.first_tile = begin;
      entry.tiles = end - begin;
      list_.entries.push_back(entry);
      begin = end;
    }
  }
}

// Cuts a kernel's tiles so that those of each piece of its operands can run by themselves: the tile
// behind each stretch, ascending. Only a kernel of which each tile has its own elements is cut.
std::vector<uint32_t> EntryLister::cuts(uint32_t index, uint32_t tiles) const {
  const int64_t per_tile = tile_elements(*kernels_.of(index));
  if (per_tile == 0 || tiles < 2) return {tiles};
  std::set<uint32_t> ends{tiles};
  const PlanInstruction& instruction = partition_.instructions[index];
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (uint32_t operand : *operands) {
      if (operand == kNone || partition_.values[operand].type.kind == ValueKind::token) continue;
      const PlanValue& whole = partition_.values[operand];
      const uint64_t tile_bytes =
          static_cast<uint64_t>(per_tile) * std::max<uint64_t>(1, dtype_size(whole.type.dtype));
      // A tile that has a part of two pieces belongs to the earlier stretch, so that stretch waits
      // for both.
      const auto cut = [&](uint64_t byte) {
        const uint64_t tile = (byte + tile_bytes - 1) / tile_bytes;
        if (tile > 0 && tile < tiles) ends.insert(static_cast<uint32_t>(tile));
      };
      if (whole.type.shape.elements() < 2) continue;
      uint64_t at = 0;
      for (const ByteRange& part : memory_.parts_of(operand, 0, whole.type.bytes()))
        cut(at += part.end - part.begin);
      // Ranges of the value are sent one by one, so the tiles of each range form a stretch, too.
      for (uint32_t v : memory_.aliases(partition_.root(operand))) {
        const PlanValue& range = partition_.values[v];
        if (range.offset < whole.offset || range.type.bytes() >= whole.type.bytes()) continue;
        cut(range.offset - whole.offset);
        cut(range.offset - whole.offset + range.type.bytes());
      }
    }
  }
  return {ends.begin(), ends.end()};
}

// True if the row phases of all members have the same tiles.
bool EntryLister::chain_fits(uint32_t first, uint32_t last) const {
  const auto tiles = [&](uint32_t i) {
    const Kernel& kernel = *kernels_.of(i);
    return kernel.tiles(kernel.row_phase());
  };
  for (uint32_t i = first + 1; i < last; ++i) {
    if (tiles(i) != tiles(first)) return false;
  }
  return true;
}

// Each member's phases before its rows, then the rows of all members tile by tile, then each
// member's phases after its rows.
void EntryLister::list_chain(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i) list_kernel(i, 0, kernels_.of(i)->row_phase());
  TileValues values;
  if (device_.host_visible()) values = find_tile_values(partition_, uses_, first, last);
  Entry entry;
  entry.instruction = first;
  entry.reads_rows = reads_rows(partition_.instructions[first]);
  entry.first = kernels_.bind_chain(first, last, values);
  entry.last = entry.first + (last - first);
  const Kernel& kernel = *kernels_.of(first);
  entry.tiles = static_cast<uint32_t>(kernel.tiles(kernel.row_phase()));
  entry.phase = -1;
  list_.entries.push_back(std::move(entry));
  for (uint32_t i = first; i < last; ++i)
    list_kernel(i, kernels_.of(i)->row_phase() + 1, kernels_.of(i)->phases());
}

// A transfer, with what it waits for from outside.
void EntryLister::list_transfer(uint32_t index) {
  const PlanInstruction& instruction = partition_.instructions[index];
  Entry entry;
  static constexpr Entry::Kind kKinds[] = {Entry::Kind::kernel, Entry::Kind::send,
                                           Entry::Kind::receive, Entry::Kind::retire,
                                           Entry::Kind::fetch};
  entry.kind = kKinds[static_cast<int>(instruction.kind)];
  entry.instruction = index;
  entry.edge = instruction.edge;
  entry.cheap = true;
  const auto channel_to = [&](uint32_t partition) {
    return partition < exchange_.channels.size() ? exchange_.channels[partition] : nullptr;
  };
  if (entry.kind == Entry::Kind::receive) {
    entry.awaits.push_back({&exchange_.slots->edge(entry.edge).arrived, 0, index});
  } else if (entry.kind == Entry::Kind::retire) {
    entry.channel = channel_to(plan_.edges[entry.edge].from);
  } else if (entry.kind == Entry::Kind::send) {
    entry.channel = channel_to(plan_.edges[entry.edge].to);
    // A plan that is only tried has no channels; and a device with a memory of its own pushes when
    // the value is on the host, see DeviceTransfers.
    if (entry.channel && device_.host_visible()) await_credit(entry);
    // A send is cheap if its value is small, lies in its place already, or is read by the channel
    // later. The copy of a large value is work that another thread may take.
    const bool placed = entry.channel && memory_.is_in_place(index);
    entry.cheap = is_small(entry) || placed || entry.in_place;
  } else {
    entry.cheap = partition_.values[instruction.inputs[0]].type.bytes() <= kCheapBytes;
  }
  list_.entries.push_back(std::move(entry));
}

// A send waits for its channel's credit. A large value is sent in place if the channel can, and if
// it is no variable: another run may write to a variable as soon as this run has gone on.
void EntryLister::await_credit(Entry& send) {
  send.awaits.push_back({&send.channel->credit(send.edge), kSlotDepth, send.instruction});
  const uint32_t value = partition_.root(partition_.instructions[send.instruction].inputs[0]);
  Timeline* const sent = send.channel->sent(send.edge);
  if (!sent || partition_.values[value].home == Home::resource || is_small(send)) return;
  send.in_place = true;
  list_.sent.push_back({sent, send.instruction});
}

// True if what the entry transfers fits into a bundle.
bool EntryLister::is_small(const Entry& entry) const {
  if (entry.kind == Entry::Kind::fetch) return entry.cheap;
  return plan_.edges[entry.edge].bytes <= kSmallBytes;
}

// Guesses a kernel's work from the bytes of its operands. A kernel without operands gives nothing
// to guess from, and is not cheap.
bool EntryLister::is_cheap(const Entry& entry) const {
  if (entry.may_block || entry.tiles > kCheapTiles) return false;
  uint64_t bytes = 0;
  for (uint32_t k = entry.first; k < entry.last; ++k)
    bytes += touched_bytes(partition_.instructions[kernels_.bound(k).instruction]);
  return bytes > 0 && bytes <= kCheapBytes;
}

uint64_t EntryLister::touched_bytes(const PlanInstruction& instruction) const {
  const auto bytes = [&](uint32_t value) {
    return value == kNone ? 0 : partition_.values[value].type.bytes();
  };
  uint64_t written = 0, read = 0;
  for (uint32_t value : instruction.outputs) written += bytes(value);
  const std::vector<int>& picks = instruction.op->picks;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const uint64_t whole = bytes(instruction.inputs[i]);
    // An input of which the kernel picks some rows counts no more bytes than the outputs have.
    const bool picked = std::find(picks.begin(), picks.end(), static_cast<int>(i)) != picks.end();
    read += picked ? std::min(whole, written) : whole;
  }
  return read + written;
}

// Which entries a bundle may hold. A value that is sent in place may have to leave before others go
// on, so it is small ones that are bundled.
bool EntryLister::fits_bundle(const Entry& entry) const {
  switch (entry.kind) {
    case Entry::Kind::kernel:
      return entry.cheap && !entry.commits;
    case Entry::Kind::send:
    case Entry::Kind::fetch:
      return is_small(entry);
    case Entry::Kind::retire:
      return true;
    default:
      return false;
  }
}

// Makes bundles of the rows of entries that begin and end with a send or a retired value.
void EntryLister::bundle() {
  const auto tells = [](const Entry& entry) {
    return entry.kind == Entry::Kind::send || entry.kind == Entry::Kind::retire;
  };
  // From each send or retire, the row is extended as long as its entries fit and another one tells.
  std::vector<Entry> listed = std::exchange(list_.entries, {});
  list_.entries.reserve(listed.size());
  for (size_t i = 0; i < listed.size();) {
    size_t end = i + 1;  // behind the last that tells
    if (tells(listed[i]) && fits_bundle(listed[i])) {
      for (size_t j = end; j < listed.size() && j - i < kMostBundled && fits_bundle(listed[j]); ++j)
        if (tells(listed[j])) end = j + 1;
    }
    if (end == i + 1) {
      list_.entries.push_back(std::move(listed[i++]));
      continue;
    }
    Entry bundle;
    bundle.kind = Entry::Kind::bundle;
    bundle.cheap = true;
    bundle.instruction = listed[i].instruction;
    bundle.first = static_cast<uint32_t>(list_.bundled.size());
    for (; i < end; ++i) {
      Entry& member = listed[i];
      bundle.awaits.insert(bundle.awaits.end(), member.awaits.begin(), member.awaits.end());
      if (member.channel && std::find(bundle.channels.begin(), bundle.channels.end(),
                                      member.channel) == bundle.channels.end())
        bundle.channels.push_back(member.channel);
      list_.bundled.push_back(std::move(member));
    }
    bundle.last = static_cast<uint32_t>(list_.bundled.size());
    list_.entries.push_back(std::move(bundle));
  }
}

}  // namespace

EntryList list_entries(const ProgramParts& parts) { return EntryLister(parts).run(); }

}  // namespace leat
