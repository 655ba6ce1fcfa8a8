#include "scheduler/runtime/workspaces.h"

#include <algorithm>

namespace leat {
namespace {

// The memory that large workspaces share has this size at least, and room for twice the largest.
constexpr uint64_t kLeastShared = 32 << 20;

// The instructions [first, last) whose large workspaces must not overlap, and their bytes.
struct WorkspaceGroup {
  size_t first = 0, last = 0;
  uint64_t bytes = 0;
};

// The members of a chain stand side by side.
std::vector<WorkspaceGroup> workspace_groups(const Partition& partition,
                                             const std::vector<uint64_t>& sizes) {
  std::vector<WorkspaceGroup> groups;
  for (size_t i = 0; i < sizes.size();) {
    WorkspaceGroup group{i, i + 1, 0};
    const uint32_t chain = partition.instructions[i].chain;
    while (chain != kNone && group.last < sizes.size() &&
           partition.instructions[group.last].chain == chain)
      ++group.last;
    for (i = group.first; i < group.last; ++i)
      group.bytes += sizes[i] >= kLargeWorkspace ? sizes[i] : 0;
    if (group.bytes > 0) groups.push_back(group);
  }
  return groups;
}

}  // namespace

WorkspacePlaces place_workspaces(const Partition& partition, const std::vector<uint64_t>& sizes,
                                 bool together) {
  WorkspacePlaces places;
  places.offsets.assign(sizes.size(), 0);
  uint64_t largest = 0;  // workspace
  for (size_t i = 0; i < sizes.size(); ++i) {
    largest = std::max(largest, sizes[i]);
    if (sizes[i] >= kLargeWorkspace) continue;
    places.offsets[i] = places.bytes;
    places.bytes += sizes[i];
  }
  const uint64_t begin = places.bytes;
  if (together) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] >= kLargeWorkspace) places.offsets[i] = begin;
    }
    if (largest >= kLargeWorkspace) places.bytes += largest;
    return places;
  }
  const std::vector<WorkspaceGroup> groups = workspace_groups(partition, sizes);
  uint64_t shared = kLeastShared;
  for (const WorkspaceGroup& group : groups) shared = std::max(shared, 2 * group.bytes);
  uint64_t at = 0;
  for (const WorkspaceGroup& group : groups) {
    if (at + group.bytes > shared) at = 0;
    for (size_t i = group.first; i < group.last; ++i) {
      if (sizes[i] < kLargeWorkspace) continue;
      places.offsets[i] = begin + at;
      at += sizes[i];
    }
    places.bytes = std::max(places.bytes, begin + at);
  }
  return places;
}

}  // namespace leat
