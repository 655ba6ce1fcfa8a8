// The output of `leat top`: the jobs and workers of a cluster at two moments, and the rates
// between.
//
// Threads: pure functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "daemon/jobs/views.h"

namespace leat {

// The cluster at one moment.
struct TopSample {
  std::chrono::steady_clock::time_point at;
  ClusterView cluster;
  std::vector<JobView> jobs;
  std::vector<NodeView> nodes;
};

// A worker's rates between two samples. NaN stands for one that is not known: the worker was not
// there in the first sample, or has another process since.
struct NodeRates {
  double cpu = 0;       // CPU seconds per second: 2 means two cores
  double sent = 0;      // bytes per second, to other runners
  double received = 0;  // the same, from them
  double steps = 0;     // steps of its runners per second
};
NodeRates rates_of(const NodeView& before, const NodeView& after,
                   std::chrono::duration<double> time);

// The worker that the other workers of the job wait for; "" if none is clearly slower: it waits at
// least 0.2 of the time less than each of them.
std::string slowest_worker(const JobView& job, const std::vector<NodeView>& nodes);

// Returns the lines for people, `columns` wide at most; 0: no limit.
std::string top_text(const TopSample& before, const TopSample& after, size_t columns);
// Returns one JSON object on one line: `kind` "Top", `jobs` by their ids and `nodes` by their
// names, with the numbers of top_text().
std::string top_json(const TopSample& before, const TopSample& after);

}  // namespace leat
