// The metrics of a worker's runners.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/status/metrics_text.h"
#include "daemon/worker/runners.h"

namespace leat {

// The runners of a worker, by its name.
struct RunnersOfWorker {
  std::string name;
  std::vector<RunnerWork> works;
};

// Returns metrics whose samples have the labels `node`, the worker, and `job`. Threads: a pure
// function.
std::vector<Metric> runner_metrics(std::span<const RunnersOfWorker> workers);

}  // namespace leat
