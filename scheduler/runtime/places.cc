#include "scheduler/runtime/places.h"

#include <algorithm>
#include <map>

#include "transport/links/frame.h"

namespace leat {
namespace {

// So many values at most are announced to each peer before the first step.
constexpr size_t kMostForMany = 1024;

}  // namespace

bool may_be_placed(const Partition& partition, uint32_t send) {
  const uint32_t value = partition.instructions[send].inputs[0];
  const uint32_t first = partition.root(value);
  for (uint32_t v = 0; v < partition.values.size(); ++v) {
    if (partition.root(v) != first) continue;
    // All values that share the bytes move together, so each must begin where the sent value begins
    // and fit into the place. A feed cannot move, because the caller has its address.
    const PlanValue& alias = partition.values[v];
    const bool fed =
        std::find(partition.feeds.begin(), partition.feeds.end(), v) != partition.feeds.end();
    if ((alias.home != Home::arena && alias.home != Home::pages) || fed ||
        alias.offset != partition.values[value].offset ||
        alias.type.bytes() > partition.values[value].type.bytes())
      return false;
  }
  // A later write would change the value in the place after it was sent.
  for (uint32_t i = send + 1; i < partition.instructions.size(); ++i) {
    for (uint32_t output : partition.instructions[i].outputs)
      if (output != kNone && partition.root(output) == first) return false;
  }
  return true;
}

std::vector<ValueForMany> values_for_many(const Plan& plan, uint32_t from,
                                          const std::vector<bool>& to) {
  const Partition& partition = plan.partitions[from];
  std::map<uint32_t, size_t> known;  // by root
  std::vector<ValueForMany> values;
  for (uint32_t i = 0; i < partition.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::send) continue;
    const PlanEdge& edge = plan.edges[instruction.edge];
    // A small value travels in a frame with others, which costs less than a place of its own.
    if (edge.bytes <= kSmallBytes || !to[edge.to] || !may_be_placed(partition, i)) continue;
    const auto [it, fresh] =
        known.try_emplace(partition.root(instruction.inputs[0]), values.size());
    if (fresh) values.push_back({edge.bytes, {}});
    values[it->second].edges.push_back(instruction.edge);
  }
  // A value with one receiver needs no place that several share.
  std::erase_if(values, [](const ValueForMany& value) { return value.edges.size() < 2; });
  if (values.size() > kMostForMany) values.resize(kMostForMany);
  for (ValueForMany& value : values) std::sort(value.edges.begin(), value.edges.end());
  return values;
}

}  // namespace leat
