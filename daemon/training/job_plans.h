// The plans of a job, and where its variables are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/training/checkpoint_task.h"
#include "daemon/training/training_parts.h"
#include "scheduler/plan/plan.h"

namespace leat {

// Trainer owns it. All plans of a job are compiled here, because they must agree on the device of
// each variable; the class remembers where they put them.
// Threads: one.
class JobPlans {
 public:
  using SharedPlan = std::shared_ptr<const Plan>;

  // `parts` outlives it.
  explicit JobPlans(const TrainingParts& parts) : parts_(parts) {}

  // Compiles the plans that initialize the variables and that train. invalid_argument if the graph,
  // the strategy and the hosts do not fit together. The results are init() and training().
  // REQUIRES: called before any other plan of the job is compiled and at most once.
  Status compile();
  // Compiles the plans of the training step: one if all hosts do each step together; one for each
  // host if they step by themselves; with a quorum the plan that closes the steps, and then one for
  // each replica. Keeps no plan itself; compile() does.
  Result<std::vector<SharedPlan>> compile_training();
  // Compiles another graph of the job, of `shards` shards, as the plan "<job>/<what>". The plan's
  // variables count for held_by() and shares() from now on. invalid_argument if it puts a variable
  // on another device than the plans before it, unless the strategy replicates variables.
  Result<SharedPlan> compile(JobGraph graph, const std::string& what, int64_t shards);

  // The same on hosts that are those of the job in another order, or some of them.
  Result<SharedPlan> compile_on(HostGroup& hosts, JobGraph graph, const std::string& what,
                                int64_t shards);

  // The results of compile(). Null if the model has no variables.
  const SharedPlan& init() const { return init_; }
  const std::vector<SharedPlan>& training() const { return training_; }
  // The plan init() has been run: it is null from now on, and its constants are given back.
  void drop_init() { init_.reset(); }
  // Compiles init() again after that, from the job's model as its file has it. REQUIRES: compile()
  // returned ok.
  Status make_init(const Graph& model);
  // The training plans make all variables that the plan init() fills. A start from the memory of
  // hosts then needs no run of init(). REQUIRES: init() is not null.
  bool training_makes_variables() const;

  // The names of the variables that the plans so far have on a host, and on any. Empty for a host
  // without variables. The reference is valid until another plan is compiled.
  const std::set<std::string>& held_by(const HostHandle& host) const;
  std::set<std::string> held_by_any() const;
  // One share of a checkpoint for each host that has one. Equal plans give equal shares: see
  // share_out().
  std::vector<CheckpointShare> shares() const;

 private:
  // Chooses the parameter server of each variable once for all graphs. Does nothing for other
  // strategies.
  Status spread();
  // Notes that a plan has a variable on a device. invalid_argument if another plan, or another
  // partition of the same one, has it elsewhere, and the strategy does not replicate it there.
  Status note_holder(const std::string& name, const std::string& device);
  void keep_devices(Graph& graph) const;
  // The options that all plans of the job have in common.
  PlanOptions options(const std::string& what, int64_t shards) const;
  Result<SharedPlan> compile(HostGroup& hosts, JobGraph graph, const PlanOptions& options);

  const TrainingParts& parts_;
  VariableServers servers_;                             // strategy parameter_server
  std::map<std::string, std::set<std::string>> holds_;  // by task: names of its variables
  std::map<std::string, std::string> part_of_;  // by variable: the last part of its device's name
  // By the task, or "" for all tasks, and the name of a variable: its device.
  std::map<std::pair<std::string, std::string>, std::string> device_of_;
  std::map<std::string, uint64_t> bytes_;  // by variable
  SharedPlan init_;
  std::vector<SharedPlan> training_;
};

}  // namespace leat
