// Decides by the digests of an audit whether computations differ, and which hosts are wrong.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/graph/audit_graph.h"

namespace leat {

// A difference between what should have the same bits.
struct AuditFinding {
  size_t value = 0;    // the first of the values that differs
  int64_t shard = -1;  // the first shard of which it differs; -1: it belongs to no shard
  // The hosts that differ from most others, ascending. Empty: it cannot be told which are wrong.
  std::vector<size_t> wrong;
  // If it cannot be told: the hosts of which one is wrong.
  std::vector<size_t> suspects;
  bool operator==(const AuditFinding&) const = default;
};

// A computation of a step. Host (w + rotation) % hosts has computed the shards of block w: see
// first_shard().
struct AuditedRun {
  size_t rotation = 0;
  std::vector<int64_t> digests;  // as AuditGraph::fetch has them
};

// The host that computes `shard` in a run.
size_t host_of_shard(int64_t shard, size_t rotation, int64_t shards, size_t hosts);

// Compares computations of one step, each by other hosts than the ones before. Of a difference that
// others follow from, the first counts. A host is wrong if most of the computations contradict it:
// that takes three of them. A sum that differs on all hosts of a run was wrong before it came to
// them, and no host is named. Nothing if all are equal.
// REQUIRES: each run has shards * values.size() digests.
std::optional<AuditFinding> compare_computations(const std::vector<AuditedValue>& values,
                                                 const std::vector<AuditedRun>& runs,
                                                 int64_t shards, size_t hosts);

// Compares what the hosts hold. `digests`: of each host in turn, those of its `values` values. A
// host is wrong if more than half of the hosts agree on another digest.
std::optional<AuditFinding> compare_holdings(const std::vector<int64_t>& digests, size_t values,
                                             size_t hosts);

}  // namespace leat
