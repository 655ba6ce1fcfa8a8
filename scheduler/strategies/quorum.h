// Splits the graph of one replica where values cross replicas, for steps that the first N of M
// replicas close. The nodes that connect the halves are defined in ops/definitions/quorum.cc.
#pragma once

#include <vector>

#include "scheduler/strategies/strategy.h"

namespace leat {

// Makes one half of the graph: the steps of replica options.quorum.replica, or, if that is -1, the
// graph that closes the steps of all replicas. The closing graph has one fetch more: the number of
// replicas' chunks that the step dropped. `owners` has the server that adds up each collective, by
// node; `servers` gets the resources that connect the halves, too. invalid_argument or
// unimplemented names a node at which the graph cannot be split.
Result<Graph> split_for_quorum(const Graph& graph, Borders& borders, const StrategyOptions& options,
                               const std::vector<int>& owners, VariableServers& servers);

}  // namespace leat
