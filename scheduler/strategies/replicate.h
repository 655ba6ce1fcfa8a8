// Data parallelism over logical shards, which strategies share: it makes the graph of all replicas
// from the graph of one. Strategies differ in where they do the work that all shards have in
// common; a Division says that.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

// By node: true if its outputs differ between shards. invalid_argument if such a node writes a
// variable. `order` is a topological order.
Result<std::vector<bool>> find_sharded(const Graph& graph, const std::vector<NodeId>& order);

// True for leat.AllReduce, AllGather, Broadcast, ReduceScatter and AllToAll, which combine values
// of several shards.
bool is_collective(const Node& node);

// The name of the resource that a value stands for; "" if it stands for none.
std::string resource_name(const Graph& graph, ValueId value);

// Which worker does which work. The vectors other than `holders` are indexed by node of the source
// graph.
struct Division {
  // By shard: the worker that computes it. Ascending.
  std::vector<int> holders;
  // For a node that is neither sharded nor a collective of sharded values: the workers that have a
  // copy of it, ascending, at least one. Other workers read the copy of the first.
  std::vector<std::vector<int>> homes;
  // For a collective: the worker that combines values of several workers; -1: the one with the
  // least to combine so far.
  std::vector<int> owners;
  // For a sharded node: the worker that computes it for all shards, because it has the variable of
  // which each shard reads a part. -1, or an empty vector: each shard's holder computes it.
  std::vector<int> pinned = {};
  // True: nodes keep the constraints of the graph, and place() chooses their devices. False: each
  // is on its worker, and a constraint that none of the worker's devices meets is an error.
  bool placed_by_hand = false;
};

// invalid_argument if there are no shards, or more workers than shards.
Status check_shards(const StrategyOptions& options);

// By shard: its worker, where each worker has one block of the shards. See first_shard().
std::vector<int> blocks_of_shards(const StrategyOptions& options);

// Makes one copy of each sharded node for each shard, on the worker that holds the shard, and one
// copy of each other node on each of its homes. Replaces each collective by nodes that combine the
// shards' values. Which values are added to which depends on the number of shards alone, not on the
// division, so that the bits of all sums are the same for every division. `borders` gets the ids of
// the new graph.
Result<Graph> replicate(const Graph& graph, Borders& borders, const StrategyOptions& options,
                        const Division& division);

}  // namespace leat
