#include "scheduler/runtime/tile_values.h"

#include <algorithm>
#include <map>

#include "devices/base/align.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

constexpr uint64_t kLine = 64;            // bytes of a cache line
constexpr uint64_t kMostBytes = 4 << 20;  // beyond, it is no cache that they would stay in

// A value with the members that touch it, as positions in the chain.
struct Candidate {
  uint64_t tile_bytes = 0;
  uint32_t first = kNone, last = 0;
  bool fits = true;

  bool meets(const Candidate& other) const { return first <= other.last && other.first <= last; }
};

class Search {
 public:
  Search(const Partition& partition, const ValueUses& uses, uint32_t first, uint32_t last)
      : partition_(partition), uses_(uses), first_(first), last_(last) {}

  TileValues run() {
    for (uint32_t i = first_; i < last_; ++i) look_at_member(i);
    for (auto& [value, candidate] : candidates_)
      // A value that others touch must be whole in the arena when the chain is done.
      candidate.fits = candidate.fits && uses_.only_within(value, first_, last_);
    return place();
  }

 private:
  // Notes how a member of the chain touches its operands. An operand is a candidate only if the op
  // says that its row phase uses it row by row, and not after that.
  void look_at_member(uint32_t i) {
    const PlanInstruction& instruction = partition_.instructions[i];
    const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
    const OpTypes types = partition_.types_of(instruction, attrs);
    const Tiling tiling = instruction.op->tiling(types);
    const bool many = std::max(types.inputs.size(), types.outputs.size()) > kMostTileOperands;
    look_at_operands(i, instruction.inputs, tiling,
                     many ? 0 : tiling.row_inputs & ~tiling.late_inputs);
    look_at_operands(i, instruction.outputs, tiling, many ? 0 : tiling.row_outputs);
  }
  void look_at_operands(uint32_t i, const std::vector<uint32_t>& operands, const Tiling& tiling,
                        uint32_t by_rows) {
    const int64_t tile_rows = partition_.instructions[i].tile_rows;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k] == kNone) continue;
      const PlanValue& value = partition_.values[operands[k]];
      // Every use narrows the candidate. One use that is not by rows leaves the value in the arena.
      Candidate& candidate = candidates_[partition_.root(operands[k])];
      candidate.first = std::min(candidate.first, i);
      candidate.last = std::max(candidate.last, i);
      const Shape& shape = value.type.shape;
      const bool has_rows = shape.rank() > 0 && shape[0] == tiling.rows && tiling.rows > 0;
      const uint64_t tile_bytes = has_rows
                                      ? value.type.bytes() / static_cast<uint64_t>(tiling.rows) *
                                            static_cast<uint64_t>(tile_rows)
                                      : 0;
      if (candidate.tile_bytes == 0) candidate.tile_bytes = tile_bytes;
      const bool rows_alone = k < 32 && (by_rows >> k & 1) && has_rows;
      // All uses must have the same bytes in a row, so that a tile has the same rows in each of
      // them.
      const bool whole =
          value.type.bytes() == partition_.values[partition_.root(operands[k])].type.bytes();
      candidate.fits = candidate.fits && rows_alone && whole && value.home == Home::arena &&
                       tile_bytes == candidate.tile_bytes && tile_bytes > 0;
    }
  }

  // The largest first, each as low as it fits: as in the arena.
  TileValues place() const {
    std::vector<std::pair<uint32_t, Candidate>> sorted;
    for (const auto& [value, candidate] : candidates_) {
      if (candidate.fits) sorted.emplace_back(value, candidate);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.tile_bytes > b.second.tile_bytes;
    });
    TileValues out;
    std::vector<std::pair<TileValue, Candidate>> placed;  // ascending by offset
    for (const auto& [value, candidate] : sorted) {
      const uint64_t size = aligned(candidate.tile_bytes);
      // The lowest gap between the values that live with this one. `placed` is in the order of
      // offsets, so the first gap that is large enough is the lowest.
      uint64_t at = 0;
      for (const auto& [other, life] : placed) {
        if (!candidate.meets(life)) continue;
        if (at + size <= other.offset) break;
        at = std::max(at, other.offset + aligned(other.tile_bytes));
      }
      // A value that does not fit stays in the arena.
      if (at + size > kMostBytes) continue;
      const TileValue made{value, candidate.tile_bytes, at};
      const auto where = std::upper_bound(
          placed.begin(), placed.end(), at,
          [](uint64_t offset, const auto& other) { return offset < other.first.offset; });
      placed.insert(where, {made, candidate});
      out.values.push_back(made);
      out.bytes = std::max(out.bytes, at + size);
    }
    std::sort(out.values.begin(), out.values.end(),
              [](const TileValue& a, const TileValue& b) { return a.value < b.value; });
    return out;
  }
  static uint64_t aligned(uint64_t bytes) { return align_up(bytes, kLine); }

  const Partition& partition_;
  const ValueUses& uses_;
  uint32_t first_, last_;
  std::map<uint32_t, Candidate> candidates_;  // by root value
};

}  // namespace

ValueUses::ValueUses(const Partition& partition)
    : first_(partition.values.size(), kNone), last_(partition.values.size(), 0) {
  const auto use = [&](uint32_t value, uint32_t first, uint32_t last) {
    if (value == kNone) return;
    const uint32_t root = partition.root(value);
    first_[root] = std::min(first_[root], first);
    last_[root] = std::max(last_[root], last);
  };
  // The caller writes a feed, so it is used outside of any chain.
  for (uint32_t feed : partition.feeds) use(feed, 0, kNone);
  for (uint32_t i = 0; i < partition.instructions.size(); ++i) {
    for (uint32_t v : partition.instructions[i].inputs) use(v, i, i);
    for (uint32_t v : partition.instructions[i].outputs) use(v, i, i);
  }
}

TileValues find_tile_values(const Partition& partition, const ValueUses& uses, uint32_t first,
                            uint32_t last) {
  return Search(partition, uses, first, last).run();
}

std::vector<TileOperand> tile_operands(const Partition& partition,
                                       const PlanInstruction& instruction,
                                       const TileValues& values) {
  std::vector<TileOperand> out;
  const auto add = [&](const std::vector<uint32_t>& operands, bool output) {
    for (uint32_t k = 0; k < operands.size(); ++k) {
      if (operands[k] == kNone) continue;
      const uint32_t root = partition.root(operands[k]);
      const auto at = std::lower_bound(
          values.values.begin(), values.values.end(), root,
          [](const TileValue& value, uint32_t wanted) { return value.value < wanted; });
      if (at != values.values.end() && at->value == root)
        out.push_back({output, k, at->tile_bytes, at->offset});
    }
  };
  add(instruction.inputs, false);
  add(instruction.outputs, true);
  return out;
}

}  // namespace leat
