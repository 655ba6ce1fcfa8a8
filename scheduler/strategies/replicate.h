// Data parallelism over logical shards, as strategies share it: the graph of one replica becomes
// that of all of them. What differs between strategies is where the work is done that all shards
// have in common.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

// By node: does what it computes differ between shards? invalid_argument if such a node writes a
// variable. `order` is a topological one.
Result<std::vector<bool>> find_sharded(const Graph& graph, const std::vector<NodeId>& order);

// leat.AllReduce, AllGather, Broadcast, ReduceScatter or AllToAll: a border between shards.
bool is_collective(const Node& node);

// The name of the resource that a value is; "" if it is none.
std::string resource_name(const Graph& graph, ValueId value);

// Who does which work. Vectors but holders are by node of the source graph.
struct Division {
  // By shard: the worker that computes it, ascending.
  std::vector<int> holders;
  // Of a node that is not sharded, nor a collective of what is: the workers that have a copy,
  // ascending and at least one. A worker without one reads that of the first.
  std::vector<std::vector<int>> homes;
  // Of a collective: the worker that combines what no worker has alone; -1: the one that has the
  // least to combine so far.
  std::vector<int> owners;
  // Of a sharded node: the worker that computes it for all shards, as it has a variable of which
  // each reads a part; -1, or empty: each shard's holder.
  std::vector<int> pinned = {};
  // Leaves it to the placement where nodes are, by the constraints of the graph. Else each is on
  // its worker's device, and a constraint that this does not meet is an error.
  bool placed_by_hand = false;
};

// invalid_argument: no shards, or more devices than shards.
Status check_shards(const StrategyOptions& options);

// The workers of shards that are dealt out in blocks.
std::vector<int> blocks_of_shards(const StrategyOptions& options);

// One copy of each sharded node for each shard, on the worker that holds it; one copy of each other
// node on each of its homes; each collective as what it does. Names no compute op but those that
// combine: whoever adds, what is added to what is the same.
Result<Graph> replicate(const Graph& graph, Borders& borders, const StrategyOptions& options,
                        const Division& division);

}  // namespace leat
