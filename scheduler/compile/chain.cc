#include <algorithm>
#include <map>

#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

// Bytes that the tiles of a chain should touch: they stay in a core's second-level cache. A
// constant, not this machine's cache: tiles must not depend on where a plan is made.
constexpr uint64_t kChainTileBytes = 1 << 20;
constexpr int64_t kMinTiles = 16;     // for parallelism, where there are rows enough
constexpr size_t kMostMembers = 256;  // what is found out of a chain takes their square

struct Member {
  Tiling tiling;
  OpTypes types;
};

// Goes through the instructions once. A chain grows as long as the next instruction may join it.
class Chains {
 public:
  explicit Chains(Partition& partition) : partition_(partition) {}

  void run() {
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const Member member = look(partition_.instructions[i]);
      if (!members_.empty() && joins(i, member)) {
        add(i, member);
        continue;
      }
      close();
      // An instruction that cannot join the chain may begin the next one.
      if (member.tiling.rows > 1) add(i, member);
    }
    close();
  }

 private:
  // The tiling of an instruction; one without rows for a transfer or an op that is never cut.
  Member look(const PlanInstruction& instruction) const {
    Member member;
    if (instruction.kind != PlanInstruction::Kind::kernel || !instruction.op->tiling) return member;
    const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
    member.types = partition_.types_of(instruction, attrs);
    member.tiling = instruction.op->tiling(member.types);
    // The attributes with their defaults end with this function.
    member.types.attrs = nullptr;
    return member;
  }

  bool has_rows(uint32_t value) const {
    const Shape& shape = partition_.values[value].type.shape;
    return shape.rank() > 0 && shape[0] == rows_;
  }

  // A member reads what the chain made row by row, and makes nothing that the chain has read whole.
  bool joins(uint32_t i, const Member& member) const {
    if (member.tiling.rows != rows_ || members_.size() == kMostMembers) return false;
    // Ops go together only if the smallest tiles that suit them differ by a factor of 4 at most:
    // one size of tiles has to suit all members.
    if (member.tiling.min_rows > 4 * min_rows_ || min_rows_ > 4 * member.tiling.min_rows)
      return false;
    // The bits of such an op depend on its tiles, so the chain must take exactly these.
    const int64_t fixed = member.tiling.fixed_rows;
    if (fixed > 0 && ((fixed_rows_ > 0 && fixed != fixed_rows_) || min_rows_ > fixed)) return false;
    if (fixed_rows_ > 0 && member.tiling.min_rows > fixed_rows_) return false;
    const PlanInstruction& instruction = partition_.instructions[i];
    // A member must share rows with the chain. Otherwise tiles would gain nothing by running
    // together.
    bool connected = false;
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      const uint32_t value = instruction.inputs[k];
      if (value == kNone) continue;
      const auto made = made_.find(partition_.root(value));
      if (made == made_.end()) {
        const auto read = read_by_rows_.find(partition_.root(value));
        connected =
            connected || (read != read_by_rows_.end() && (member.tiling.row_inputs >> k & 1));
        continue;
      }
      const bool whole = partition_.values[value].type.bytes() ==
                         partition_.values[partition_.root(value)].type.bytes();
      const bool by_rows =
          (member.tiling.row_inputs >> k & 1) && made->second && has_rows(value) && whole;
      if (!by_rows) return false;
      connected = true;
    }
    return connected;
  }

  void add(uint32_t i, const Member& member) {
    if (members_.empty()) {
      first_ = i;
      rows_ = member.tiling.rows;
      min_rows_ = member.tiling.min_rows;
      fixed_rows_ = 0;
    }
    if (member.tiling.fixed_rows > 0) fixed_rows_ = member.tiling.fixed_rows;
    min_rows_ = std::max(min_rows_, member.tiling.min_rows);
    members_.push_back(i);
    const PlanInstruction& instruction = partition_.instructions[i];
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      if (instruction.inputs[k] != kNone && (member.tiling.row_inputs >> k & 1)) {
        read_by_rows_[partition_.root(instruction.inputs[k])] = true;
        row_bytes_[partition_.root(instruction.inputs[k])] =
            partition_.values[instruction.inputs[k]].type.bytes() / static_cast<uint64_t>(rows_);
      }
    }
    for (size_t k = 0; k < instruction.outputs.size(); ++k) {
      if (instruction.outputs[k] == kNone) continue;
      const bool by_rows = member.tiling.row_outputs >> k & 1;
      made_[partition_.root(instruction.outputs[k])] = by_rows;
      if (by_rows)
        row_bytes_[partition_.root(instruction.outputs[k])] =
            partition_.values[instruction.outputs[k]].type.bytes() / static_cast<uint64_t>(rows_);
    }
  }

  void close() {
    // A chain of one instruction is none: its kernel chooses its own tiles.
    if (members_.size() > 1) {
      uint64_t bytes = 1;
      for (auto [value, row] : row_bytes_) bytes += row;
      // As many rows as fit the cache, fewer if there would be less than kMinTiles tiles, but never
      // less than some member needs. A member with fixed rows decides alone.
      int64_t tile = static_cast<int64_t>(kChainTileBytes / bytes);
      tile = std::min(tile, std::max<int64_t>(1, rows_ / kMinTiles));
      tile =
          fixed_rows_ > 0 ? fixed_rows_ : std::clamp<int64_t>(std::max(tile, min_rows_), 1, rows_);
      for (uint32_t i : members_) {
        partition_.instructions[i].chain = first_;
        partition_.instructions[i].tile_rows = tile;
      }
    }
    members_.clear();
    made_.clear();
    read_by_rows_.clear();
    row_bytes_.clear();
  }

  Partition& partition_;
  std::vector<uint32_t> members_;
  uint32_t first_ = 0;
  int64_t rows_ = 0, min_rows_ = 1, fixed_rows_ = 0;
  std::map<uint32_t, bool> made_;  // root value -> by rows
  std::map<uint32_t, bool> read_by_rows_;
  std::map<uint32_t, uint64_t> row_bytes_;
};

}  // namespace

void form_chains(Partition& partition) { Chains(partition).run(); }

}  // namespace leat
