// Distribution strategies. A strategy is a pure function from the graph of one replica to the graph
// of all replicas, with every node on a worker. It decides sharding and the worker of each node,
// and names no op that computes.
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

// By the name of a variable: the number of the parameter server that holds it.
using VariableServers = std::map<std::string, int>;

// parameter_server: the first so many replicas close a step. There is one replica on each worker.
// It computes one shard, of as many as are aggregated, in a run of its own; one more run closes the
// steps.
struct Quorum {
  int replicas_to_aggregate = 0;  // 0: no quorum, all workers do each step together
  bool requeue = true;            // the rows of a dropped chunk are drawn again
  int replica = -1;               // makes the graph of its steps; -1: the graph that closes steps
};

// How a job's graph is divided, apart from the devices that the parts go to.
struct DivisionOptions {
  int shards = 1;   // logical replicas, independent of the number of workers
  int servers = 1;  // parameter_server: server i is on worker i; at most as many as workers
  // parameter_server: all graphs of a job need the same map, from spread_variables(). Empty: the
  // strategy spreads the variables of this graph.
  VariableServers variable_servers = {};
  // parameter_server: makes the graph of this worker's own steps, which computes all shards and
  // shares the variables with the other workers' runs. -1: the graph of steps that all workers do
  // together.
  int asynchronous_worker = -1;
  Quorum quorum = {};
};

// A worker as a strategy sees it. Which of its devices runs a node is decided later, by place().
struct StrategyWorker {
  std::string task;  // a constraint that its devices meet and no others: "job:worker/task:0"
  std::vector<std::string> devices;  // full names
};

struct StrategyOptions : DivisionOptions {
  std::vector<StrategyWorker> workers;
};

// A strategy is one file of this folder and one line of catalogue.cc. Nothing else knows its name,
// except the code of options that only this strategy has.
struct Strategy {
  std::string name;         // in job files
  std::string description;  // one line, for people
  // Changes the borders to the ids of the new graph. invalid_argument if the options do not fit the
  // graph.
  std::function<Result<Graph>(const Graph&, Borders&, const StrategyOptions&)> apply;
  // True if compile() may replace a table's gradient by the rows that the step touched, before the
  // strategy is applied. See sparsify().
  std::function<bool(const DivisionOptions&)> moves_rows;
  // Every worker holds all variables, so that a job may go on with fewer or more workers.
  bool replicates_variables = false;
  // Each variable is on one of DivisionOptions::servers: all graphs of a job need the same map.
  bool uses_servers = false;
  // One replica computes all shards. Several devices share it where constraints in the graph say
  // so.
  bool one_replica = false;
};

// invalid_argument, with the names that exist, for an unknown one.
Result<Strategy> find_strategy(std::string_view name);
// Every strategy of this build; catalogue.cc lists them.
const std::vector<Strategy>& all_strategies();

// Spreads the variables of a job's graphs over the servers: the largest first (then by name), each
// onto the server that has the fewest bytes (then the first). Variables that one node touches, such
// as a weight and its optimizer's state, stay together.
VariableServers spread_variables(const std::vector<const Graph*>& graphs, int servers);

// The first shard of a worker's block, which ends at first_shard(worker + 1, ...). The sizes of the
// blocks differ by one at most.
inline int first_shard(int worker, int workers, int shards) {
  return static_cast<int>(int64_t{worker} * shards / workers);
}

}  // namespace leat
