// The graphs of the measured steps. In each, one kind of traffic crosses processes, and there is
// almost nothing to compute.
#pragma once

#include <cstdint>

#include "ops/catalogue.h"
#include "scheduler/graph/train_graph.h"

namespace leat::step_graphs {

// The graph that is measured, and the one that makes its variables. Task t of the graphs is
// "job:worker/task:t/cpu:0".
struct StepGraph {
  JobGraph step;  // fetch 0: a scalar that depends on the whole step
  JobGraph init;
  int tasks = 1;
};

// Every step begins after the one before it, because it reads values that the other wrote. The
// catalogue outlives the graphs.

// Task 0 sends a scalar to each worker, which sends one back; task 0 adds them up. Fetch: `workers`
// times the number of steps so far, if `workers` is a power of two.
StepGraph null_step(const Catalogue& catalogue, int workers);
// A scalar goes through `adds` additions, on tasks 0 and 1 in turn. Fetch: steps times `adds`.
StepGraph chain(const Catalogue& catalogue, int adds);
// `count` values of `elements` floats from task 0 to task 1, and one scalar back.
StepGraph transfer(const Catalogue& catalogue, int count, int64_t elements);
// A variable goes from task 0 to task 1; then its gradient goes back, and is applied by SGD.
StepGraph server_step(const Catalogue& catalogue, int64_t elements);
// Task 1 asks task 0 for 32 rows of a table of `rows` rows of 100 floats. Then their gradient goes
// back, and SGD applies it to the rows. The graph has a dense gradient of the table.
StepGraph sparse_step(const Catalogue& catalogue, int64_t rows);
// Every task has `pieces` values of `elements` floats, and gets their sums over all tasks. As for a
// mirrored job's gradients, each piece has a binary tree, and owners alternate.
StepGraph all_reduce(const Catalogue& catalogue, int tasks, int pieces, int64_t elements);

}  // namespace leat::step_graphs
