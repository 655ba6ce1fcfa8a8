// The graphs of a program: a job whose graph has its own gradients, optimizers and state. Private
// to train_graph.cc and its tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/graph/train_graph.h"

namespace leat {

// The nodes of these names: nodes themselves, or the producers of values. invalid_argument, with
// the nearest right name, for one that the graph does not have; `key` is that of the job file.
Result<std::vector<NodeId>> program_nodes(const Graph& graph, const std::vector<std::string>& names,
                                          std::string_view key);

// The graph of a program's step. Its inputs read columns of the data, if it has inputs. Nothing is
// added to what it writes: a value that all shards must agree on is the output of an AllReduce or
// another collective of the program. Targets: the nodes of program.step. Fetches: those of
// program.fetch, as scalars of the spec's precision. invalid_argument for unknown names, and for a
// fetch that is not one number.
// REQUIRES: spec.program.
Result<JobGraph> make_program_graph(const Graph& model, const TrainSpec& spec);

}  // namespace leat
