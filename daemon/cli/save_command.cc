// leat checkpoint save: has a job of the cluster write a checkpoint now.
#include <chrono>
#include <iostream>

#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/status/status_json.h"

namespace leat {
namespace {

// How long the master holds a call that has nothing to tell.
constexpr std::chrono::milliseconds kHold{10'000};

// Prints the job, or the step of its checkpoint.
int print_saved(const JobView& job, bool waited, bool json) {
  if (json)
    std::cout << job_json(job);
  else if (waited)
    std::cout << job.id << " " << job.progress.last.checkpoint_step << "\n";
  else
    std::cout << job.id << "\n";
  return kExitOk;
}

}  // namespace

int run_checkpoint_save(const CheckpointSaveCommand& command) {
  ClusterConnection connection(command.cluster);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(true); code != kExitOk) return code;
  auto job = connection.client().save(command.id);
  if (!job.ok()) return connection.report(job.status(), About::state);
  const uint64_t before = job->progress.last.checkpoint_step;
  while (command.wait && job->progress.last.checkpoint_step <= before) {
    if (has_ended(job->condition.state)) {
      std::cerr << "leat: " << job->id << " " << name_of(job->condition.state)
                << " before it was saved\n";
      return kExitState;
    }
    auto next = connection.client().watch(job->id, job->version, connection.left(kHold));
    if (connection.timed_out()) return kExitTimeout;
    if (connection.over()) return connection.interrupt().exit_code();
    if (!next.ok()) return connection.report(next.status(), About::name);
    job = std::move(next);
  }
  return print_saved(*job, command.wait, command.cluster.json);
}

}  // namespace leat
