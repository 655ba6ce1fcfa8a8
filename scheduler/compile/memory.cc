// Static memory: each arena value lives from the instruction that makes it to the last one that
// reads it, in plan order, a chain counting as one instruction. Values whose lives do not meet may
// share bytes. Greedy by size (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
// Inference, 2020).
#include <algorithm>
#include <map>
#include <numeric>

#include "devices/base/shape.h"
#include "devices/base/text.h"
#include "ops/op.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

constexpr uint64_t kAlignment = 64;

struct Life {
  uint32_t first = kNone, last = 0;
  void use(uint32_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

class MemoryPlanner {
 public:
  explicit MemoryPlanner(Partition& partition) : partition_(partition) {}

  Status run() {
    find_positions();
    find_lives();
    compute_in_place();
    find_lives();
    LEAT_RETURN_IF_ERROR(assign());
    return {};
  }

 private:
  uint32_t root(uint32_t value) const {
    while (partition_.values[value].alias != kNone) value = partition_.values[value].alias;
    return value;
  }
  bool in_arena(uint32_t value) const {
    return value != kNone && partition_.values[value].home == Home::arena;
  }

  void find_positions() {
    std::map<uint32_t, uint32_t> of_chain;
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const uint32_t chain = partition_.instructions[i].chain;
      position_.push_back(chain == kNone ? i : of_chain.try_emplace(chain, i).first->second);
    }
  }

  void find_lives() {
    lives_.assign(partition_.values.size(), Life());
    for (uint32_t feed : partition_.feeds) {
      if (in_arena(feed)) lives_[root(feed)].use(0);
    }
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const PlanInstruction& instruction = partition_.instructions[i];
      for (uint32_t v : instruction.inputs) {
        if (in_arena(v)) lives_[root(v)].use(position_[i]);
      }
      for (uint32_t v : instruction.outputs) {
        if (in_arena(v)) lives_[root(v)].use(position_[i]);
      }
    }
  }

  // An output may take over the bytes of an input that nobody reads afterwards.
  void compute_in_place() {
    std::vector<uint32_t> last_reader(partition_.values.size(), 0);
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      for (uint32_t v : partition_.instructions[i].inputs) {
        if (v != kNone) last_reader[root(v)] = i;
      }
    }
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const PlanInstruction& instruction = partition_.instructions[i];
      if (!instruction.op) continue;
      std::vector<uint32_t> taken;
      for (auto [out, in] : instruction.op->in_place) {
        if (out >= static_cast<int>(instruction.outputs.size()) ||
            in >= static_cast<int>(instruction.inputs.size()))
          continue;
        const uint32_t output = instruction.outputs[static_cast<size_t>(out)],
                       input = instruction.inputs[static_cast<size_t>(in)];
        if (!in_arena(output) || !in_arena(input) || partition_.values[output].alias != kNone)
          continue;
        const uint32_t from = root(input);
        const bool is_feed = std::find(partition_.feeds.begin(), partition_.feeds.end(), from) !=
                             partition_.feeds.end();
        if (is_feed || last_reader[from] != i ||
            std::find(taken.begin(), taken.end(), from) != taken.end())
          continue;
        if (times_read(instruction, from) != 1 || read_by_chain(i, from)) continue;
        if (partition_.values[from].type.bytes() != partition_.values[output].type.bytes())
          continue;
        if (partition_.values[from].type.layout != partition_.values[output].type.layout) continue;
        taken.push_back(from);
        partition_.values[output].alias = from;
        last_reader[from] = std::max(last_reader[from], last_reader[output]);
      }
    }
  }
  size_t times_read(const PlanInstruction& instruction, uint32_t value) const {
    return static_cast<size_t>(
        std::count_if(instruction.inputs.begin(), instruction.inputs.end(),
                      [&](uint32_t v) { return v != kNone && root(v) == value; }));
  }

  // In a chain, another member may read all of `value` while this one already overwrites its first
  // rows, unless the chain itself makes the value, row by row.
  bool read_by_chain(uint32_t i, uint32_t value) const {
    const uint32_t chain = partition_.instructions[i].chain;
    if (chain == kNone) return false;
    bool read = false;
    for (uint32_t k = chain;
         k < partition_.instructions.size() && partition_.instructions[k].chain == chain; ++k) {
      for (uint32_t v : partition_.instructions[k].outputs) {
        if (v != kNone && root(v) == value) return false;
      }
      read = read || (k != i && times_read(partition_.instructions[k], value) > 0);
    }
    return read;
  }

  Status assign() {
    std::vector<uint32_t> roots;
    for (uint32_t v = 0; v < partition_.values.size(); ++v) {
      if (in_arena(v) && partition_.values[v].alias == kNone && lives_[v].first != kNone)
        roots.push_back(v);
    }
    const auto bytes = [&](uint32_t v) {
      return (partition_.values[v].type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    };
    std::stable_sort(roots.begin(), roots.end(),
                     [&](uint32_t a, uint32_t b) { return bytes(a) > bytes(b); });
    std::vector<uint32_t> placed;  // ascending by offset
    for (uint32_t v : roots) {
      uint64_t at = 0;
      for (uint32_t other : placed) {
        if (!lives_[v].meets(lives_[other])) continue;
        const uint64_t begin = partition_.values[other].offset;
        if (at + bytes(v) <= begin) break;
        at = std::max(at, begin + bytes(other));
      }
      partition_.values[v].offset = at;
      const auto where =
          std::upper_bound(placed.begin(), placed.end(), v, [&](uint32_t a, uint32_t b) {
            return partition_.values[a].offset < partition_.values[b].offset;
          });
      placed.insert(where, v);
      partition_.arena_bytes = std::max(partition_.arena_bytes, at + bytes(v));
    }
    for (uint32_t v = 0; v < partition_.values.size(); ++v) {
      PlanValue& value = partition_.values[v];
      if (value.alias == kNone) continue;
      value.alias = root(v);
      value.offset += partition_.values[value.alias].offset;  // a range has begun at its own
    }
    return {};
  }

  Partition& partition_;
  std::vector<uint32_t> position_;  // by instruction
  std::vector<Life> lives_;         // by root value
};

}  // namespace

Status lay_out_memory(Partition& partition) { return MemoryPlanner(partition).run(); }

}  // namespace leat
