// The list that a step runs through, from a partition's instructions.
#include <algorithm>
#include <set>
#include <utility>

#include "devices/base/align.h"
#include "ops/cpu/element_kernel.h"
#include "scheduler/runtime/program_builder.h"
#include "transport/links/frame.h"

namespace leat {
namespace {

// Waking another thread takes what a kernel needs for about so much.
constexpr uint64_t kCheapBytes = 16 << 10;
constexpr uint32_t kCheapTiles = 4;
constexpr size_t kMostBundled = 256;

bool is_variable(const PlanValue& value) { return value.type.dtype != DType::invalid; }

}  // namespace

// Phases [from, to) of one instruction, an entry each.
void Program::Builder::list_kernel(uint32_t index, int from, int to) {
  const PlanInstruction& instruction = partition_.instructions[index];
  const uint32_t kernel = bind(index);
  bool may_block = false;
  for (uint32_t input : instruction.inputs) {
    may_block = may_block || (input != kNone && partition_.values[input].home == Home::resource &&
                              !is_variable(partition_.values[input]));
  }
  for (int phase = from; phase < to; ++phase) {
    Entry entry;
    entry.phase = phase;
    entry.may_block = may_block;
    entry.commits = index == commit_;
    entry.first = kernel;
    entry.last = kernel + 1;
    entry.instruction = index;
    const auto tiles = static_cast<uint32_t>(program_.kernels_[kernel]->kernel->tiles(phase));
    uint32_t begin = 0;
    for (uint32_t end : cuts(index, tiles)) {
      entry.first_tile = begin;
      entry.tiles = end - begin;
      program_.entries_.push_back(entry);
      begin = end;
    }
  }
}

// Where a kernel's tiles are cut so that those of each piece of its operands can run by themselves:
// the tile behind each stretch, ascending. Only where every tile has elements of its own.
std::vector<uint32_t> Program::Builder::cuts(uint32_t index, uint32_t tiles) const {
  const int64_t per_tile = tile_elements(*program_.owned_kernels_[index]);
  std::set<uint32_t> ends{tiles};
  if (per_tile == 0 || tiles < 2) return {tiles};
  const PlanInstruction& instruction = partition_.instructions[index];
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (uint32_t operand : *operands) {
      if (operand == kNone || partition_.values[operand].type.kind == ValueKind::token) continue;
      const PlanValue& whole = partition_.values[operand];
      const uint64_t tile_bytes =
          static_cast<uint64_t>(per_tile) * std::max<uint64_t>(1, dtype_size(whole.type.dtype));
      const auto cut = [&](uint64_t byte) {
        const uint64_t tile = (byte + tile_bytes - 1) / tile_bytes;
        if (tile > 0 && tile < tiles) ends.insert(static_cast<uint32_t>(tile));
      };
      if (whole.type.shape.elements() < 2) continue;
      uint64_t at = 0;
      for (const ByteRange& part : parts_of(operand, 0, whole.type.bytes()))
        cut(at += part.end - part.begin);
      for (uint32_t v : aliases_[root(operand)]) {
        const PlanValue& range = partition_.values[v];
        if (range.offset < whole.offset || range.type.bytes() >= whole.type.bytes()) continue;
        cut(range.offset - whole.offset);
        cut(range.offset - whole.offset + range.type.bytes());
      }
    }
  }
  return {ends.begin(), ends.end()};
}

bool Program::Builder::chain_fits(uint32_t first, uint32_t last) const {
  int tiles = -1;
  for (uint32_t i = first; i < last; ++i) {
    const Kernel& kernel = *program_.owned_kernels_[i];
    const int own = kernel.tiles(kernel.row_phase());
    if (tiles >= 0 && own != tiles) return false;
    tiles = own;
  }
  return true;
}

// What comes before the rows of each member, then the rows of all of them tile by tile, then what
// comes after.
void Program::Builder::list_chain(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i)
    list_kernel(i, 0, program_.owned_kernels_[i]->row_phase());
  // Members stand side by side in kernels_, whether they were bound above or not.
  Entry entry;
  entry.first = static_cast<uint32_t>(program_.kernels_.size());
  entry.instruction = first;
  TileValues values;
  if (program_.device_->host_visible()) values = find_tile_values(partition_, *uses_, first, last);
  program_.tile_memory_bytes_ = std::max(program_.tile_memory_bytes_, align_up(values.bytes, 64));
  for (uint32_t i = first; i < last; ++i) {
    bound_[i] = kNone;
    program_.kernels_[bind(i)]->tile_operands =
        tile_operands(partition_, partition_.instructions[i], values);
  }
  entry.last = static_cast<uint32_t>(program_.kernels_.size());
  const Kernel& kernel = *program_.owned_kernels_[first];
  entry.tiles = static_cast<uint32_t>(kernel.tiles(kernel.row_phase()));
  entry.phase = -1;  // each member's row phase
  program_.entries_.push_back(std::move(entry));
  for (uint32_t i = first; i < last; ++i) {
    list_kernel(i, program_.owned_kernels_[i]->row_phase() + 1,
                program_.owned_kernels_[i]->phases());
  }
}

// A transfer, with what it waits for from the outside.
void Program::Builder::list_transfer(uint32_t index) {
  const PlanInstruction& instruction = partition_.instructions[index];
  const Exchange& exchange = program_.exchange_;
  Entry entry;
  static constexpr Entry::Kind kKinds[] = {Entry::Kind::kernel, Entry::Kind::send,
                                           Entry::Kind::receive, Entry::Kind::retire,
                                           Entry::Kind::fetch};
  entry.kind = kKinds[static_cast<int>(instruction.kind)];
  entry.instruction = index;
  entry.edge = instruction.edge;
  entry.cheap = true;
  const auto channel_to = [&](uint32_t partition) {
    return partition < exchange.channels.size() ? exchange.channels[partition] : nullptr;
  };
  if (entry.kind == Entry::Kind::receive) {
    entry.awaits.push_back({&exchange.slots->edge(entry.edge).arrived, 0, index});
  } else if (entry.kind == Entry::Kind::retire) {
    entry.channel = channel_to(plan_.edges[entry.edge].from);
  } else if (entry.kind == Entry::Kind::send) {
    const PlanEdge& edge = plan_.edges[entry.edge];
    entry.channel = channel_to(edge.to);
    if (entry.channel) {  // there are none where a plan is only tried
      entry.awaits.push_back({&entry.channel->credit(entry.edge), kSlotDepth, index});
      // A variable may be written to by another run as soon as this one has gone on.
      const bool variable = partition_.values[root(instruction.inputs[0])].home == Home::resource;
      Timeline* const sent = entry.channel->sent(entry.edge);
      if (sent && !variable && !is_small(entry)) {
        entry.in_place = true;
        program_.sent_.push_back(sent);
      }
    }
    const bool placed = entry.channel && is_in_place(index);
    entry.cheap = is_small(entry) || placed || entry.in_place;
  } else {
    entry.cheap = partition_.values[instruction.inputs[0]].type.bytes() <= kCheapBytes;
  }
  program_.entries_.push_back(std::move(entry));
}

// Does what the entry transfers fit into a bundle?
bool Program::Builder::is_small(const Entry& entry) const {
  if (entry.kind == Entry::Kind::fetch) return entry.cheap;
  return plan_.edges[entry.edge].bytes <= kSmallBytes;
}

// Kernels on few bytes, which is a guess at what they do; of one without operands there is nothing
// to guess from.
bool Program::Builder::is_cheap(const Entry& entry) const {
  if (entry.may_block || entry.tiles > kCheapTiles) return false;
  uint64_t bytes = 0;
  for (uint32_t k = entry.first; k < entry.last; ++k)
    bytes += touched_bytes(partition_.instructions[program_.kernels_[k]->instruction]);
  return bytes > 0 && bytes <= kCheapBytes;
}

uint64_t Program::Builder::touched_bytes(const PlanInstruction& instruction) const {
  const auto bytes = [&](uint32_t value) {
    return value == kNone ? 0 : partition_.values[value].type.bytes();
  };
  uint64_t written = 0, read = 0;
  for (uint32_t value : instruction.outputs) written += bytes(value);
  const std::vector<int>& picks = instruction.op->picks;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const uint64_t whole = bytes(instruction.inputs[i]);
    const bool picked = std::find(picks.begin(), picks.end(), static_cast<int>(i)) != picks.end();
    read += picked ? std::min(whole, written) : whole;
  }
  return read + written;
}

// Entries that a bundle may hold. What is sent in place may have to leave before others go on.
bool Program::Builder::fits_bundle(const Entry& entry) const {
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

// Rows of cheap entries from one send (or retired value) to another become bundles.
void Program::Builder::bundle() {
  const auto tells = [](const Entry& entry) {
    return entry.kind == Entry::Kind::send || entry.kind == Entry::Kind::retire;
  };
  if (std::none_of(program_.entries_.begin(), program_.entries_.end(), tells)) return;
  std::vector<Entry> listed = std::move(program_.entries_);
  program_.entries_.clear();
  program_.entries_.reserve(listed.size());
  for (size_t i = 0; i < listed.size();) {
    size_t end = i + 1;  // behind the last that tells
    if (tells(listed[i]) && fits_bundle(listed[i])) {
      for (size_t j = end; j < listed.size() && j - i < kMostBundled && fits_bundle(listed[j]); ++j)
        if (tells(listed[j])) end = j + 1;
    }
    if (end == i + 1) {
      program_.entries_.push_back(std::move(listed[i++]));
      continue;
    }
    Entry bundle;
    bundle.kind = Entry::Kind::bundle;
    bundle.cheap = true;
    bundle.instruction = listed[i].instruction;
    bundle.first = static_cast<uint32_t>(program_.bundled_.size());
    for (; i < end; ++i) {
      Entry& member = listed[i];
      bundle.awaits.insert(bundle.awaits.end(), member.awaits.begin(), member.awaits.end());
      if (member.channel && std::find(bundle.channels.begin(), bundle.channels.end(),
                                      member.channel) == bundle.channels.end())
        bundle.channels.push_back(member.channel);
      program_.bundled_.push_back(std::move(member));
    }
    bundle.last = static_cast<uint32_t>(program_.bundled_.size());
    program_.entries_.push_back(std::move(bundle));
  }
}

// Is it received only to be seen as part of a value?
bool Program::Builder::is_received_piece(uint32_t instruction) const {
  const PlanInstruction& i = partition_.instructions[instruction];
  return i.kind == PlanInstruction::Kind::receive && !i.outputs.empty() &&
         pieces_[i.outputs[0]] != kNone;
}

// Where bytes [begin, end) of a value are.
std::vector<ByteRange> Program::Builder::parts_of(uint32_t value, uint64_t begin,
                                                  uint64_t end) const {
  const PlanValue& of = partition_.values[root(value)];
  if (of.home != Home::joined) return {{value, begin, end}};
  begin += partition_.values[value].offset;
  end += partition_.values[value].offset;
  std::vector<ByteRange> parts;
  uint64_t at = 0;
  for (uint32_t piece : of.pieces) {
    const uint64_t bytes = partition_.values[piece].type.bytes();
    if (begin < at + bytes && end > at)
      parts.push_back({piece, std::max(begin, at) - at, std::min(end, at + bytes) - at});
    at += bytes;
  }
  return parts;
}

// What an entry touches of an operand of its instruction.
std::vector<ByteRange> Program::Builder::parts_of(const Entry& entry, uint32_t index,
                                                  uint32_t value) const {
  if (value == kNone || partition_.values[value].type.kind == ValueKind::token) return {};
  const PlanValue& v = partition_.values[value];
  const bool opaque = v.home == Home::resource && !is_variable(v);  // a queue: in plan order
  if (opaque) return {{value, 0, 1}};
  const uint64_t bytes = v.type.bytes();
  const Kernel* kernel = program_.owned_kernels_[index].get();
  const int64_t per_tile =
      entry.kind == Entry::Kind::kernel && entry.phase >= 0 && kernel ? tile_elements(*kernel) : 0;
  if (per_tile == 0 || v.type.shape.elements() < 2) return parts_of(value, 0, bytes);
  const uint64_t tile = static_cast<uint64_t>(per_tile) * dtype_size(v.type.dtype);
  return parts_of(value, std::min(bytes, entry.first_tile * tile),
                  std::min(bytes, (entry.first_tile + entry.tiles) * tile));
}

// visit(entry, instruction) for each that an entry runs.
template <typename Visit>
void Program::Builder::each_instruction(const Entry& entry, const Visit& visit) const {
  if (entry.kind == Entry::Kind::bundle) {
    for (uint32_t i = entry.first; i < entry.last; ++i)
      each_instruction(program_.bundled_[i], visit);
  } else if (entry.kind == Entry::Kind::kernel) {
    for (uint32_t k = entry.first; k < entry.last; ++k)
      visit(entry, program_.kernels_[k]->instruction);
  } else {
    visit(entry, entry.instruction);
  }
}

void Program::Builder::touch(const ByteRange& part, bool write, std::vector<Access>& out) const {
  const PlanValue& v = partition_.values[part.value];
  const bool opaque = v.home == Home::resource && !is_variable(v);
  const void* before = nullptr;  // mostly the same in both parities
  for (const void* address : program_.addresses_[part.value]) {
    if (address == std::exchange(before, address)) continue;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (address) out.push_back({begin + part.begin, begin + part.end, write || opaque});
  }
}

void Program::Builder::touch_instruction(const Entry& entry, uint32_t index,
                                         std::vector<Access>& out) const {
  const PlanInstruction& instruction = partition_.instructions[index];
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
  if (const Kernel* kernel = program_.owned_kernels_[index].get();
      kernel && kernel->workspace_bytes() > 0) {
    const auto begin =
        reinterpret_cast<uintptr_t>(program_.workspace_->data()) + workspace_offsets_[index];
    out.push_back({begin, begin + kernel->workspace_bytes(), true});
  }
}

// What an entry reads and writes.
void Program::Builder::touch_entry(const Entry& entry, std::vector<Access>& out) const {
  each_instruction(entry,
                   [&](const Entry& of, uint32_t index) { touch_instruction(of, index, out); });
}

// Whoever reads pieces waits for those that it reads.
void Program::Builder::await_pieces(const Entry& entry, std::vector<Await>& out) const {
  each_instruction(entry, [&](const Entry& of, uint32_t index) {
    for (uint32_t input : partition_.instructions[index].inputs) {
      for (const ByteRange& part : parts_of(of, index, input)) {
        const uint32_t receive = pieces_[root(part.value)];
        if (receive == kNone) continue;
        const uint32_t edge = partition_.instructions[receive].edge;
        out.push_back({&program_.exchange_.slots->edge(edge).arrived, 0, receive});
      }
    }
  });
}

// Whoever writes to a place of a channel's needs credit for it, like the push that follows.
void Program::Builder::await_places(const Entry& entry, std::vector<Await>& out) const {
  each_instruction(entry, [&](const Entry&, uint32_t index) {
    for (uint32_t output : partition_.instructions[index].outputs) {
      const auto it = places_.find(output);
      if (it == places_.end()) continue;
      for (Timeline* credit : it->second) out.push_back({credit, kSlotDepth, index});
    }
  });
}

// Bytes that were sent in place may be touched again when they have left. Who follows the send only
// by way of others needs no wait of its own: the first of those has waited.
void Program::Builder::await_sent() {
  std::vector<Entry>& entries = program_.entries_;
  const auto add = [&](Entry& entry, uint32_t before, uint64_t lag) {
    const Entry& send = entries[before];
    if (send.kind == Entry::Kind::send && send.in_place)
      entry.awaits.push_back({send.channel->sent(send.edge), lag, send.instruction});
  };
  for (Entry& entry : entries) {
    for (uint32_t before : entry.after) add(entry, before, 0);
    for (uint32_t before : entry.after_previous) add(entry, before, 1);
  }
}

// The entries of the Commit and of the writes that follow it: kernels all of them.
void Program::Builder::find_commit() {
  const uint32_t last_write = partition_.last_write();
  const std::vector<Entry>& entries = program_.entries_;
  for (uint32_t e = 0; e < entries.size(); ++e) {
    if (entries[e].commits) {
      program_.commit_ = e;
      program_.commit_end_ = e + 1;
    }
    if (program_.commit_ == kNone || last_write == kNone) continue;
    each_instruction(entries[e], [&](const Entry&, uint32_t index) {
      if (index <= last_write) program_.commit_end_ = e + 1;
    });
  }
}

// All that the writes wait for, the Commit waits for, and for all that could fail before it: in
// this step, and in the one before. Of entries that others follow, those tell.
void Program::Builder::order_commit() {
  if (program_.commit_ == kNone) return;
  std::vector<Entry>& entries = program_.entries_;
  Entry& commit = entries[program_.commit_];
  std::vector<bool> followed(entries.size(), false), followed_by_next(entries.size(), false);
  for (uint32_t e = 0; e < program_.commit_; ++e) {
    for (uint32_t before : entries[e].after) followed[before] = true;
    for (uint32_t before : entries[e].after_previous) followed_by_next[before] = true;
  }
  for (uint32_t e = program_.commit_ + 1; e < entries.size(); ++e) {
    for (uint32_t before : entries[e].after) followed_by_next[before] = true;
  }
  commit.after.clear();
  commit.after_previous.clear();
  for (uint32_t e = 0; e < program_.commit_; ++e)
    if (!followed[e]) commit.after.push_back(e);
  for (uint32_t e = program_.commit_; e < entries.size(); ++e)
    if (!followed_by_next[e]) commit.after_previous.push_back(e);
  for (uint32_t e = program_.commit_ + 1; e < program_.commit_end_; ++e) {
    for (const Await& await : entries[e].awaits) {
      const bool known = std::any_of(commit.awaits.begin(), commit.awaits.end(), [&](auto& other) {
        return other.timeline == await.timeline && other.lag <= await.lag;
      });
      if (!known) commit.awaits.push_back(await);
    }
    entries[e].awaits.clear();
    commit.cheap = commit.cheap && entries[e].cheap;
  }
}

void Program::Builder::list_entries() {
  bound_.assign(partition_.instructions.size(), kNone);
  commit_ = partition_.commit();
  uses_.emplace(partition_);
  program_.entries_.reserve(partition_.instructions.size());
  const auto n = static_cast<uint32_t>(partition_.instructions.size());
  for (uint32_t i = 0; i < n;) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::kernel) {
      if (!is_received_piece(i)) list_transfer(i);
      ++i;
      continue;
    }
    uint32_t last = i + 1;
    while (instruction.chain != kNone && last < n &&
           partition_.instructions[last].chain == instruction.chain)
      ++last;
    if (last > i + 1 && chain_fits(i, last)) {
      list_chain(i, last);
    } else {
      for (uint32_t k = i; k < last; ++k) list_kernel(k, 0, program_.owned_kernels_[k]->phases());
    }
    i = last;
  }
  // What an asynchronous device is given is cheap to give, but its own thread gives it.
  if (program_.device_->host_visible()) {
    for (Entry& entry : program_.entries_)
      if (entry.kind == Entry::Kind::kernel) entry.cheap = is_cheap(entry);
    bundle();
  } else {
    for (Entry& entry : program_.entries_) entry.cheap = false;
  }
  find_commit();
  std::vector<std::vector<Access>> accesses(program_.entries_.size());
  for (size_t e = 0; e < program_.entries_.size(); ++e) {
    touch_entry(program_.entries_[e], accesses[e]);
    await_places(program_.entries_[e], program_.entries_[e].awaits);
    await_pieces(program_.entries_[e], program_.entries_[e].awaits);
  }
  find_dependencies(accesses, program_.entries_);
  // The phases of one instruction follow each other even if they share no bytes.
  for (size_t e = 1; e < program_.entries_.size(); ++e) {
    Entry& entry = program_.entries_[e];
    const Entry& before = program_.entries_[e - 1];
    if (entry.kind == Entry::Kind::kernel && before.kind == Entry::Kind::kernel &&
        entry.phase > 0 && entry.instruction == before.instruction && entry.after.empty()) {
      entry.after.push_back(static_cast<uint32_t>(e - 1));
    }
  }
  await_sent();
  order_commit();
}

}  // namespace leat
