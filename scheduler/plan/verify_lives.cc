#include <algorithm>

#include "scheduler/plan/verify_partition.h"

namespace leat {
namespace {

// The first and the last instruction that touch a value, or of a chain, its first member.
struct Life {
  uint32_t first = kNone, last = 0;
};

// By value; of roots in the arena that are used at all.
std::vector<Life> find_lives(const Partition& partition) {
  std::vector<Life> lives(partition.values.size());
  const auto use = [&](uint32_t v, uint32_t at) {
    if (v == kNone || partition.values[v].home != Home::arena) return;
    Life& life = lives[partition.root(v)];
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  };
  for (const uint32_t v : partition.feeds) use(v, 0);
  for (uint32_t i = 0; i < partition.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition.instructions[i];
    const uint32_t at = instruction.chain == kNone ? i : instruction.chain;
    for (const uint32_t v : instruction.inputs) use(v, at);
    for (const uint32_t v : instruction.outputs) use(v, at);
  }
  return lives;
}

}  // namespace

// Values in order of birth, each against those that live then, which lie side by side.
std::optional<std::pair<uint32_t, uint32_t>> find_overlap(const Partition& partition) {
  // An offset and a size were checked against the arena, so their sum does not overflow. Values
  // without bytes overlap nothing.
  const std::vector<Life> lives = find_lives(partition);
  const auto offset = [&](uint32_t v) { return partition.values[v].offset; };
  const auto end = [&](uint32_t v) { return offset(v) + partition.values[v].type.bytes(); };
  std::vector<uint32_t> by_birth;
  for (uint32_t v = 0; v < lives.size(); ++v) {
    if (lives[v].first != kNone && end(v) > offset(v)) by_birth.push_back(v);
  }
  std::vector<uint32_t> by_death = by_birth;
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](uint32_t a, uint32_t b) { return lives[a].first < lives[b].first; });
  std::stable_sort(by_death.begin(), by_death.end(),
                   [&](uint32_t a, uint32_t b) { return lives[a].last < lives[b].last; });
  // The values that live are disjoint until the first overlap is found, so the neighbours of a new
  // one in the order of offsets are the only ones that it can overlap.
  std::map<uint64_t, uint32_t> living;  // by offset
  auto dead = by_death.begin();
  for (const uint32_t v : by_birth) {
    for (; lives[*dead].last < lives[v].first; ++dead) living.erase(offset(*dead));
    const auto after = living.lower_bound(offset(v));
    if (after != living.end() && after->first < end(v)) return std::pair(v, after->second);
    if (after != living.begin() && end(std::prev(after)->second) > offset(v))
      return std::pair(v, std::prev(after)->second);
    living.emplace(offset(v), v);
  }
  return std::nullopt;
}

}  // namespace leat
