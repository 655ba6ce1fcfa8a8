// A distribution strategy: a pure function from the graph of one replica to the graph of all of
// them, with every node on a device. It knows sharding and placement, and names no compute op.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// By a variable's name: the number of the parameter server that holds it.
using VariableServers = std::map<std::string, int>;

// parameter_server: a step is closed by the first so many replicas, one of which is on each worker.
// Each replica computes a shard, of as many as are aggregated, in a run of its own; another run
// closes the steps.
struct Quorum {
  int replicas_to_aggregate = 0;  // 0: all workers do each step together
  bool requeue = true;            // dropped rows are drawn again
  int replica = -1;  // whose steps the graph is of; -1: the graph that closes the steps
};

struct StrategyOptions {
  int shards = 1;                    // logical replicas, whoever computes them
  std::vector<std::string> devices;  // one for each worker
  // parameter_server: server i is on device i; at most as many as devices.
  int servers = 1;
  // All graphs of a job need the same one, from spread_variables(); empty: spread here.
  VariableServers variable_servers = {};
  // parameter_server: makes the graph of one worker's steps, which computes all shards and shares
  // the variables with the others' runs. -1: of the steps that all workers do together.
  int asynchronous_worker = -1;
  Quorum quorum = {};
};

struct Strategy {
  std::string name;
  std::string description;  // one line, for people
  std::function<Result<Graph>(const Graph&, Borders&, const StrategyOptions&)> apply;
};

// invalid_argument with the names that exist.
Result<Strategy> find_strategy(std::string_view name);
std::vector<Strategy> all_strategies();

// One replica computes all shards, one after the other: on one device, or on those that the
// graph's constraints spread it over.
Result<Graph> apply_single(const Graph& graph, Borders& borders, const StrategyOptions& options);
// Every device holds all variables and a block of the shards; gradients are summed over all shards.
Result<Graph> apply_mirrored(const Graph& graph, Borders& borders, const StrategyOptions& options);
// Each variable is on one device, its server, where its gradients are summed and applied; workers
// get its value at the start of a step. The bits are those of mirrored. In the graph of one worker
// that steps by itself, step numbers are drawn from a counter, and variables are copied when read.
Result<Graph> apply_parameter_server(const Graph& graph, Borders& borders,
                                     const StrategyOptions& options);

// Spreads the variables of a job's graphs by bytes, the largest first onto the server that has the
// least (then by name, and onto the first). Those that one node touches stay together: a weight and
// its optimizer's state.
VariableServers spread_variables(const std::vector<const Graph*>& graphs, int servers);

// The shards that worker w of `workers` holds: [first, last). Blocks differ by one at most.
inline int first_shard(int worker, int workers, int shards) {
  return static_cast<int>(int64_t{worker} * shards / workers);
}

}  // namespace leat
