// Splits the graph of one replica where values cross replicas, for steps that are closed by the
// first N of M: see ops/definitions/quorum.h for what the nodes in between do.
#pragma once

#include <vector>

#include "scheduler/strategies/strategy.h"

namespace leat {

// The graph of options.quorum.replica's steps, or that which closes the steps of all; see Quorum.
// The graph that closes has one more fetch: how many replicas' chunks the step dropped.
// `owners`, by node: the server that adds up what the collective is of. `servers` gets the
// resources in between. invalid_argument or unimplemented names what cannot be split.
Result<Graph> split_for_quorum(const Graph& graph, Borders& borders, const StrategyOptions& options,
                               const std::vector<int>& owners, VariableServers& servers);

}  // namespace leat
