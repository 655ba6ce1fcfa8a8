#include "daemon/master/job_looks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/base/gathered.h"
#include "daemon/master/cluster_state.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/run_situations.h"
#include "daemon/master/running_jobs.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/workforce.h"
#include "daemon/remote/run_looks.h"
#include "daemon/wire/recording_file.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Part = PartitionSituation;

constexpr auto kLook = milliseconds(900);  // the time that runners and workers have to answer
// From a question to its answer, with one more look: `leat why` waits for 2.6 s.
constexpr auto kDiagnosis = milliseconds(2'000);
// Further looks at a job that moves.
constexpr int kMoreLooks = 14;
constexpr auto kMoreLook = milliseconds(200);
constexpr auto kBetween = milliseconds(35);
constexpr uint64_t kMostSteps = 1'000;
constexpr size_t kMostRecordings = 16;  // that wait for the one that is made

// The workers' answers about the processes of a job's runners. The callbacks share it.
struct Processes {
  Gathered gathered;
  std::map<std::string, Result<ProcessView>> by_worker;
};

std::shared_ptr<Processes> ask_workers(Workforce& workforce, const JobView& job,
                                       const std::vector<NodeView>& nodes, milliseconds deadline) {
  const auto all = std::make_shared<Processes>();
  for (const NodeView& node : nodes) {
    const WorkerRef& worker = node.worker.info.worker;
    const auto& of_job = job.condition.workers;
    if (std::find(of_job.begin(), of_job.end(), worker.name) == of_job.end()) continue;
    all->gathered.add();
    workforce.look(worker, job.id, job.condition.assembly, deadline,
                   [all, name = worker.name](Result<ProcessView> view) {
                     all->gathered.done([&] { all->by_worker.emplace(name, std::move(view)); });
                   });
  }
  return all;
}

RunnerSituation runner_of(const std::string& worker,
                          const std::map<std::string, Result<ProcessView>>& processes) {
  RunnerSituation runner;
  runner.worker = worker;
  const auto found = processes.find(worker);
  if (found == processes.end()) return runner;
  const Code code = found->second.status().code();
  runner.worker_answers = found->second.ok() || code == Code::failed_precondition;
  if (!found->second.ok()) return runner;
  runner.has_process = true;
  runner.process_state = found->second->state;
  runner.quiet = 1e-3 * static_cast<double>(found->second->quiet_ms);
  return runner;
}

// The runners of the job's assembly that the master has.
std::vector<std::shared_ptr<RemoteHost>> runners_of(Workforce& workforce, const JobView& job) {
  std::vector<std::shared_ptr<RemoteHost>> hosts;
  for (uint32_t task = 0; task < job.condition.workers.size(); ++task) {
    auto host = workforce.runner(job.id, job.condition.assembly, task);
    if (host.ok()) hosts.push_back(std::move(*host));
  }
  return hosts;
}

bool has_runners(JobState state) {
  return state == JobState::starting || state == JobState::running ||
         state == JobState::recovering || state == JobState::cancelling;
}

// Steps of the training that were done in all looks so far, for the speed.
uint64_t finished_steps(const Situation& situation) {
  uint64_t finished = 0;
  for (const Part& part : situation.partitions) {
    if (part.trains) finished = std::max(finished, part.finished);
  }
  return finished;
}

}  // namespace

void JobLooks::why(std::string id, Done<Diagnosis> done) {
  questions_.ask(std::move(id), std::move(done));
}

void JobLooks::record(std::string id, uint64_t steps, Steady::time_point deadline,
                      Done<std::vector<std::byte>> done) {
  if (recorder_.waiting() >= kMostRecordings) {
    return done(resource_exhausted(cat("record: expected at most ", kMostRecordings,
                                       " recordings to be asked for at a time")));
  }
  const bool posted = recorder_.post([this, id = std::move(id), steps, deadline, done] {
    if (stopping_) return done(is_stopping());
    // The caller has stopped waiting.
    if (Steady::now() >= deadline)
      return done(deadline_exceeded("record: other recordings were made until the deadline"));
    done(record_now(id, steps, deadline));
  });
  if (!posted) done(is_stopping());
}

void JobLooks::stop() {
  stopping_ = true;
  questions_.stop();
  recorder_.stop();
}

Result<Situation> JobLooks::look(const std::string& id, milliseconds deadline) const {
  const auto until = Steady::now() + deadline;
  Situation situation;
  LEAT_ASSIGN_OR_RETURN(situation.job, parts_.state->tables().job(id));
  situation.now_ms = moment_of(parts_.clock).wall_ms;
  situation.nodes = parts_.state->tables().nodes();
  situation.journal = parts_.state->tables().journal_status();
  situation.disk = parts_.runs->disk_wait(situation.job.id);
  situation.journal_disk = parts_.journal->disk_wait();
  if (situation.job.condition.state == JobState::queued || situation.job.position > 0)
    situation.jobs = parts_.state->tables().jobs();
  if (!has_runners(situation.job.condition.state)) return situation;
  const auto processes = ask_workers(*parts_.workforce, situation.job, situation.nodes, deadline);
  const auto hosts = runners_of(*parts_.workforce, situation.job);
  const std::vector<RunnerLook> runners = look_at_runs(hosts, deadline);
  (void)processes->gathered.wait(until);
  for (const std::string& worker : situation.job.condition.workers)
    situation.runners.push_back(runner_of(worker, processes->by_worker));
  add_runs(runners, situation);
  situation.session = parts_.sessions->situation(situation.job.id);
  return situation;
}

// A job that moves is looked at several times: what most looks have in common is what it waits for.
Result<Diagnosis> JobLooks::diagnose(const std::string& id, Steady::time_point asked) const {
  const auto begun = Steady::now();
  const auto until = std::min(begun + kLook, asked + kDiagnosis);
  const auto first_look = std::chrono::duration_cast<milliseconds>(until - begun);
  LEAT_ASSIGN_OR_RETURN(const Situation first, look(id, std::max(first_look, kMoreLook)));
  if (!moves(first)) return find_culprit(first);
  std::vector<Diagnosis> looks{find_culprit(first)};
  const uint64_t before = finished_steps(first);
  uint64_t after = before;
  for (int i = 0; i < kMoreLooks; ++i) {
    std::this_thread::sleep_for(kBetween);
    LEAT_ASSIGN_OR_RETURN(const Situation next, look(id, kMoreLook));
    // It has stopped between two looks, or it has ended.
    if (!moves(next)) return find_culprit(next);
    looks.push_back(find_culprit(next));
    after = std::max(after, finished_steps(next));
    if (Steady::now() > until) break;
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - begun).count();
  return most_common(looks, static_cast<double>(after - before) / seconds);
}

Result<std::vector<std::byte>> JobLooks::record_now(const std::string& id, uint64_t steps,
                                                    Steady::time_point deadline) const {
  if (steps < 1 || steps > kMostSteps) {
    return invalid_argument(cat("record: expected 1 to ", kMostSteps, " steps, received ", steps));
  }
  LEAT_ASSIGN_OR_RETURN(const JobView job, parts_.state->tables().job(id));
  if (job.condition.state != JobState::running) {
    return failed_precondition(cat("job '", job.id, "' is ", name_of(job.condition.state),
                                   "; expected one that is RUNNING"));
  }
  const auto hosts = runners_of(*parts_.workforce, job);
  LEAT_ASSIGN_OR_RETURN(StepRecording recording, record_steps(hosts, steps, deadline));
  recording.job = job.id;
  return write_recording(recording);
}

}  // namespace leat
