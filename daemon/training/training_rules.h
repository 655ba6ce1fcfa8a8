// The properties of a job's strategy that its training depends on. training_rules() is the only
// place in this folder that asks for the strategy and its mode.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/spec/job.h"

namespace leat {

// How the steps of a job run on its hosts.
enum class StepMode : uint8_t {
  together,  // all hosts do each step together
  apart,     // each host does steps of its own: asynchronous
  quorum,    // the first replicas that are ready close a step
};

// Threads: a value. training_rules() makes it; a default-constructed value has the rules of a job
// on one host.
struct TrainingRules {
  StepMode mode = StepMode::together;
  // Every host holds all variables, so a checkpoint or a new host can take all values from any of
  // them.
  bool replicated = true;
  bool spreads_variables = false;  // over parameter servers
  bool one_replica = false;        // several hosts need a graph with device constraints
  // The shards of the graphs that all hosts run together, such as the evaluation. At least the
  // number of hosts where these step by themselves, because each host then takes one shard.
  int64_t common_shards = 1;

  // All hosts come to the state after each step: it can be kept, copied in passing and repeated.
  bool has_common_steps() const { return mode == StepMode::together; }
  // A step can be closed without some replicas, whose rows are then counted in a fetch.
  bool drops_rows() const { return mode == StepMode::quorum; }
  // Step n uses the learning rate of step n, on every host.
  bool has_learning_rate_of_step() const { return mode != StepMode::apart; }
};

// `workers`: the number of hosts that the job trains on.
TrainingRules training_rules(const Job& job, int64_t workers);

// "quorum 3 of 4: 128 rows came too late ...", for people. REQUIRES: drops_rows().
std::string quorum_note(const Job& job, int64_t dropped_rows);

}  // namespace leat
