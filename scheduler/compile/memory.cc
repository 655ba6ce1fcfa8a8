// Static memory: each arena value lives from the instruction that makes it to the last one that
// reads it, in plan order, a chain counting as one instruction. Values whose lives do not meet may
// share bytes. Greedy by size (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
// Inference, 2020), which compares each value with all that live beside it; where there are too
// many for that, the best fit at each value's birth.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "devices/base/align.h"
#include "devices/base/shape.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

constexpr size_t kMostCompared = 8192;  // values; more are fitted one after the other

struct Life {
  uint32_t first = kNone, last = 0;
  void use(uint32_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

// The bytes of an arena that grows as it must: what is taken is the smallest free range that fits,
// the lowest of those.
class FreeRanges {
 public:
  uint64_t take(uint64_t bytes) {
    if (bytes == 0) return 0;
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) return cut(by_begin_.find(fit->second), bytes);
    // None fits: what is free at the end is made as long as it must be.
    const auto last = by_begin_.empty() ? by_begin_.end() : std::prev(by_begin_.end());
    const bool grows = last != by_begin_.end() && last->first + last->second == end_;
    const uint64_t begin = grows ? last->first : end_;
    if (grows) forget(last);
    end_ = begin + bytes;
    return begin;
  }

  void give_back(uint64_t begin, uint64_t bytes) {
    if (bytes == 0) return;
    auto after = by_begin_.lower_bound(begin);
    if (after != by_begin_.end() && after->first == begin + bytes) {
      bytes += after->second;
      after = forget(after);
    }
    if (after != by_begin_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        begin = before->first;
        bytes += before->second;
        forget(before);
      }
    }
    note(begin, bytes);
  }

 private:
  using Begins = std::map<uint64_t, uint64_t>;  // -> bytes

  uint64_t cut(Begins::iterator range, uint64_t bytes) {
    const auto [begin, size] = *range;
    forget(range);
    if (size > bytes) note(begin + bytes, size - bytes);
    return begin;
  }
  void note(uint64_t begin, uint64_t bytes) {
    by_begin_.emplace(begin, bytes);
    by_size_.emplace(bytes, begin);
  }
  Begins::iterator forget(Begins::iterator range) {
    by_size_.erase({range->second, range->first});
    return by_begin_.erase(range);
  }

  Begins by_begin_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (bytes, begin)
  uint64_t end_ = 0;
};

class MemoryPlanner {
 public:
  MemoryPlanner(Partition& partition, uint64_t alignment)
      : partition_(partition), alignment_(alignment) {}

  // Lives are found twice: once for the decision what is computed in place, and then with the
  // longer lives of the roots that took over other values.
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

  // All members of a chain run at the position of its first member: tile by tile, they live at one
  // time.
  void find_positions() {
    std::map<uint32_t, uint32_t> of_chain;
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const uint32_t chain = partition_.instructions[i].chain;
      position_.push_back(chain == kNone ? i : of_chain.try_emplace(chain, i).first->second);
    }
  }

  // A root lives from the first to the last position that touches it or one of its aliases. A feed
  // is written before the step begins.
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

  // An output may take over the bytes of an input that no instruction reads afterwards.
  void compute_in_place() {
    std::vector<uint32_t> last_reader(partition_.values.size(), 0);
    std::vector<bool> is_feed(partition_.values.size(), false);
    for (uint32_t feed : partition_.feeds) {
      if (feed != kNone) is_feed[feed] = true;
    }
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      for (uint32_t v : partition_.instructions[i].inputs) {
        if (v != kNone) last_reader[root(v)] = i;
      }
    }
    for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
      const PlanInstruction& instruction = partition_.instructions[i];
      look_at_chain(instruction.chain);
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
        // A feed's bytes are the caller's. Any other input must be read here for the last time.
        if (is_feed[from] || last_reader[from] != i ||
            std::find(taken.begin(), taken.end(), from) != taken.end())
          continue;
        if (times_read(instruction, from) != 1 || read_by_chain(i, from)) continue;
        if (partition_.values[from].type.bytes() != partition_.values[output].type.bytes())
          continue;
        if (partition_.values[from].type.layout != partition_.values[output].type.layout) continue;
        taken.push_back(from);
        partition_.values[output].alias = from;
        if (instruction.chain != kNone) of_chain_[from].made = true;
        // From here on the root has the output's readers, too.
        last_reader[from] = std::max(last_reader[from], last_reader[output]);
      }
    }
  }
  // How often the instruction reads a root, directly or through aliases.
  size_t times_read(const PlanInstruction& instruction, uint32_t value) const {
    return static_cast<size_t>(
        std::count_if(instruction.inputs.begin(), instruction.inputs.end(),
                      [&](uint32_t v) { return v != kNone && root(v) == value; }));
  }

  // Finds the values that the members of the chain that begins here make and read, by root.
  void look_at_chain(uint32_t chain) {
    if (chain == chain_) return;
    chain_ = chain;
    of_chain_.clear();
    for (uint32_t k = chain;
         k < partition_.instructions.size() && partition_.instructions[k].chain == chain; ++k) {
      const PlanInstruction& member = partition_.instructions[k];
      for (uint32_t v : member.outputs) {
        if (v != kNone) of_chain_[root(v)].made = true;
      }
      for (uint32_t v : member.inputs) {
        if (v == kNone) continue;
        InChain& read = of_chain_[root(v)];
        read.others = read.others || (read.reader != kNone && read.reader != k);
        read.reader = k;
      }
    }
  }

  // In a chain, another member may read all of `value` while this one, which reads it, already
  // overwrites its first rows, unless the chain itself makes the value, row by row.
  bool read_by_chain(uint32_t i, uint32_t value) const {
    if (partition_.instructions[i].chain == kNone) return false;
    const auto found = of_chain_.find(value);
    return found != of_chain_.end() && !found->second.made && found->second.others;
  }

  // Places the roots, and then their aliases within them.
  Status assign() {
    std::vector<uint32_t> roots;
    for (uint32_t v = 0; v < partition_.values.size(); ++v) {
      if (in_arena(v) && partition_.values[v].alias == kNone && lives_[v].first != kNone)
        roots.push_back(v);
    }
    bytes_.assign(partition_.values.size(), 0);
    for (uint32_t v : roots) bytes_[v] = align_up(partition_.values[v].type.bytes(), alignment_);
    if (roots.size() > kMostCompared)
      fit_by_birth(roots);
    else
      fit_by_size(roots);
    for (uint32_t v = 0; v < partition_.values.size(); ++v) {
      PlanValue& value = partition_.values[v];
      if (value.alias == kNone) continue;
      value.alias = root(v);
      value.offset += partition_.values[value.alias].offset;  // a range has begun at its own
    }
    return {};
  }

  void put(uint32_t v, uint64_t at) {
    partition_.values[v].offset = at;
    partition_.arena_bytes = std::max(partition_.arena_bytes, at + bytes_[v]);
  }

  // The largest value first, each at the lowest offset at which it meets no value that lives with
  // it.
  void fit_by_size(std::vector<uint32_t>& roots) {
    std::stable_sort(roots.begin(), roots.end(),
                     [&](uint32_t a, uint32_t b) { return bytes_[a] > bytes_[b]; });
    std::vector<uint32_t> placed;  // ascending by offset
    for (uint32_t v : roots) {
      uint64_t at = 0;
      for (uint32_t other : placed) {
        if (!lives_[v].meets(lives_[other])) continue;
        const uint64_t begin = partition_.values[other].offset;
        if (at + bytes_[v] <= begin) break;
        at = std::max(at, begin + bytes_[other]);
      }
      put(v, at);
      const auto where =
          std::upper_bound(placed.begin(), placed.end(), v, [&](uint32_t a, uint32_t b) {
            return partition_.values[a].offset < partition_.values[b].offset;
          });
      placed.insert(where, v);
    }
  }

  // In order of birth, as a heap would: the bytes of values that have died are free again.
  void fit_by_birth(std::vector<uint32_t>& roots) {
    std::vector<uint32_t> by_death = roots;
    std::stable_sort(roots.begin(), roots.end(),
                     [&](uint32_t a, uint32_t b) { return lives_[a].first < lives_[b].first; });
    std::stable_sort(by_death.begin(), by_death.end(),
                     [&](uint32_t a, uint32_t b) { return lives_[a].last < lives_[b].last; });
    FreeRanges free;
    auto dead = by_death.begin();
    for (uint32_t v : roots) {
      for (; lives_[*dead].last < lives_[v].first; ++dead)
        free.give_back(partition_.values[*dead].offset, bytes_[*dead]);
      put(v, free.take(bytes_[v]));
    }
  }

  // How the members of the current chain use a root.
  struct InChain {
    bool made = false;        // by a member
    bool others = false;      // several members read it
    uint32_t reader = kNone;  // the last one
  };

  Partition& partition_;
  const uint64_t alignment_;
  uint32_t chain_ = kNone;
  std::unordered_map<uint32_t, InChain> of_chain_;
  std::vector<uint32_t> position_;  // by instruction
  std::vector<Life> lives_;         // by root value
  std::vector<uint64_t> bytes_;     // by root value, aligned
};

}  // namespace

Status lay_out_memory(Partition& partition, uint64_t alignment) {
  return MemoryPlanner(partition, alignment).run();
}

}  // namespace leat
