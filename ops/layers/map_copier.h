// leat.MapReduce and leat.MapGather, the primitives map_reduce and map_gather of TF-Replicator
// (Buchlovsky et al., 2019): a function is mapped over items that the replicas share, and all
// replicas get the results, reduced or gathered. Private to this folder.
//
//   y = leat.MapReduce <replicas = 4, op = "mean", body = f (float[3] x) => (z) { ... }> (items)
//
// becomes, with 8 items, on each of 4 shards:
//
//   own = ReplicaId * 2 + [0, 1]            the items of this shard
//   z0, z1 = f (each of Gather (items, own))
//   y = AllReduce (z0 + z1) / 8
#pragma once

#include <string>

#include "devices/base/status.h"
#include "ops/layers/region_copier.h"

namespace leat {

class MapCopier : public RegionCopier {
 public:
  using RegionCopier::RegionCopier;

 protected:
  // The values of a MapReduce's or MapGather's outputs. A reduction is one binary tree over the
  // numbers of the items, as an AllReduce's over the shards; so with powers of two the bits do not
  // depend on `replicas`.
  Result<ValueIds> mapped(const ControlNode& of);

 private:
  // The length of the first axis of all operands; it must be a multiple of `replicas`.
  Result<int64_t> items_of(const ControlNode& of, int64_t replicas) const;
  // By operand: the items of this shard, `own` of them.
  Result<std::vector<ValueIds>> own_items(const ControlNode& of, int64_t own);
  // values[first] to values[last - 1] as one.
  Result<ValueId> reduced(const ControlNode& of, std::string_view op, const ValueIds& values,
                          size_t first, size_t last);
  Result<ValueId> all_reduced(const ControlNode& of, ValueId value, int64_t replicas,
                              int64_t items);
};

}  // namespace leat
