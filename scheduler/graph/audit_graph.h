// The graphs of an audit: they fetch digests (leat.Digest) of what workers compute and hold, so
// that two computations of the same thing can be compared to the bit.
//
// All functions are pure. They return invalid_argument for a model that they cannot use.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// A value that an audit compares.
struct AuditedValue {
  std::string name;  // "gradient of d1/kernel", "variable d1/kernel"
  // True for a sum over the shards, which all workers have alike; false for what a shard adds to
  // it.
  bool sum = false;
};

struct AuditGraph {
  JobGraph job;
  // The fetch of `job` with the digests: int64[S * V], those of shard 0 first, where S is the
  // number of shards that the graph is compiled for, and V that of `values`.
  uint32_t fetch = 0;
  // In an order in which no value follows from one behind it, except that values between two sums
  // may come in any order.
  std::vector<AuditedValue> values;
};

// The graph of make_train_graph() with one fetch more, the last one. Its values are what each shard
// adds to each sum over the shards, and those sums: gradients, running statistics, the loss. The
// trained weights have the same bits as those of the other graph. REQUIRES: `spec` has no program.
Result<AuditGraph> make_audited_train_graph(const Graph& model, const TrainSpec& spec);
// The same values of a step that writes nothing.
Result<AuditGraph> make_step_audit_graph(const Graph& model, const TrainSpec& spec);
// The digests of the variables of the training, the optimizer's among them, as each of `workers`
// workers holds them: it is to be compiled for so many shards, one on each worker. `held`: the
// names of variables that workers hold; others are left out.
Result<AuditGraph> make_variable_audit_graph(const Graph& model, const TrainSpec& spec,
                                             const std::set<std::string>& held, int64_t workers);

}  // namespace leat
