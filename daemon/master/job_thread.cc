#include "daemon/master/job_thread.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <optional>

#include "daemon/base/retry_while_full.h"
#include "daemon/checkpoint/run_copier.h"
#include "daemon/checkpoint/set_aside.h"
#include "daemon/master/job_evaluation.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/lasting_host.h"
#include "daemon/master/master_faults.h"
#include "daemon/master/resumed_job.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/submitted_job.h"
#include "daemon/master/training_reporter.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kJournal{30'000};
// The longest wait for the last assembly's thread to finish with the job's folder.
constexpr std::chrono::milliseconds kBefore{30'000};
constexpr std::chrono::milliseconds kTells{250};  // between two reports of a lasting session
// The longest wait for the journal to have a drain.
constexpr std::chrono::milliseconds kDrain{10'000};

}  // namespace

JobThread::JobThread(const RunningJobsParts& parts, RunJob action,
                     std::shared_ptr<JobThread> before)
    : parts_(parts), action_(std::move(action)), files_(parts.files, parts.clock) {
  thread_ = std::thread([this, before = std::move(before)]() mutable { live(std::move(before)); });
}

JobThread::~JobThread() {
  end();
  thread_.join();
}

void JobThread::end() {
  std::shared_ptr<SessionHost> session;
  {
    const std::lock_guard lock(mutex_);
    // The flag is for the training and for await(), the condition for threads that wait for this
    // one.
    ended_ = true;
    session = session_;
    changed_.notify_all();
  }
  parts_.sessions.wake();
  // The session is ended without the mutex, since that calls completions of clients.
  if (session == nullptr) return;
  // The next assembly goes on with a lasting session.
  LastingHost* const lasting = session->as_lasting();
  lasting != nullptr ? lasting->halt() : session->end(told_to_end());
}

// A request to save a checkpoint stays in force even if a later call does not ask to save.
void JobThread::yield(bool save) {
  TrainYield before = TrainYield::no;
  if (save) {
    yields_ = TrainYield::saved;
  } else {
    yields_.compare_exchange_strong(before, TrainYield::kept);
  }
  const std::lock_guard lock(mutex_);
  LastingHost* const lasting = session_ != nullptr ? session_->as_lasting() : nullptr;
  if (lasting != nullptr) lasting->halt();
}

bool JobThread::save() {
  if (!trains_) return false;
  ++asked_;
  return true;
}

bool JobThread::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool JobThread::wait(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] { return done_; });
}

void JobThread::live(std::shared_ptr<JobThread> before) {
  // The kernel takes 15 bytes of a name.
  ::pthread_setname_np(::pthread_self(), cat("job ", action_.job).substr(0, 15).c_str());
  Result<JobResult> result = deadline_exceeded("the job's last run did not end");
  // Two runs must never write into the job's folder at the same time.
  if (before == nullptr || before->wait(std::chrono::steady_clock::now() + kBefore)) {
    before.reset();
    result = work();
  }
  // A run that yielded has told its end itself.
  if (result.ok() && !told_) {
    parts_.tell(JobFinished{action_.job, action_.assembly, *result});
  } else if (!result.ok()) {
    broke(result.status());
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

// Reports the failure once. After end() this reports only that the run was ended, which the table
// ignores.
void JobThread::broke(const Status& cause) {
  if (!std::exchange(told_, true))
    parts_.tell(JobBroke{action_.job, action_.assembly, cause, wrong_worker_});
}

Status JobThread::told_to_end() const {
  return cancelled(cat("job '", action_.job, "' was told to end"));
}

Result<JobResult> JobThread::work() {
  LEAT_ASSIGN_OR_RETURN(const Submission submission,
                        parts_.journal.submission(action_.job, kJournal));
  return is_session(submission) ? serve_session(submission) : train(submission);
}

Result<JobResult> JobThread::serve_session(const Submission& submission) {
  // The variables of a session live in its runners only, unless it is a lasting one.
  if (action_.assembly > 1 && !is_lasting_session(submission)) {
    return failed_precondition(
        cat("session '", action_.job, "': what it held is gone with the master's restart"));
  }
  LEAT_ASSIGN_OR_RETURN(const auto host, parts_.sessions.await(action_.job, submission,
                                                               [&] { return ended_.load(); }));
  if (host == nullptr) return told_to_end();
  LEAT_ASSIGN_OR_RETURN(const auto hosts, parts_.make_hosts(action_));
  {
    const std::lock_guard lock(mutex_);
    // end() either finds the session here, or is seen here; it cannot fall between the two.
    if (ended_) return told_to_end();
    session_ = host;
  }
  const auto leaves = [this] { return ended_.load() || yields_.load() != TrainYield::no; };
  // As often as a training tells its progress.
  std::optional<std::chrono::steady_clock::time_point> told_at;
  ProgressReport report;
  const auto taken = [&](uint64_t steps, bool idle) {
    const auto now = std::chrono::steady_clock::now();
    if (!told_at) report.first_step = steps;
    if (told_at && idle == report.idle && now - *told_at < kTells) return;
    told_at = now;
    report.step = steps;
    report.idle = idle;
    parts_.tell(ProgressMade{action_.job, action_.assembly, report});
  };
  const auto warn = [this](const std::string& text) { log("warning: " + text); };
  const Status served = host->serve(*hosts, {leaves, taken, warn});
  // The record has all that the workers hold.
  LastingHost* const lasting = host->as_lasting();
  if (!served.ok() && !ended_ && leaves() && lasting != nullptr) {
    tell_yielded(static_cast<int64_t>(lasting->steps()), true);
    return JobResult();
  }
  // A failure tells how far the session was: a step between two crashes makes them different ones.
  if (!served.ok() && told_at && lasting != nullptr && report.step < lasting->steps()) {
    report.step = lasting->steps();
    parts_.tell(ProgressMade{action_.job, action_.assembly, report});
  }
  LEAT_RETURN_IF_ERROR(served);
  return JobResult();
}

// The whole schedule is in the log before anything of it comes.
Result<std::vector<ArmedFault>> JobThread::faults_to_come(const Submission& submission) {
  std::vector<ArmedFault> armed;
  if (submission.chaos.empty()) return armed;
  LEAT_ASSIGN_OR_RETURN(const auto faults,
                        chaos_schedule(submission.chaos, submission.num_workers));
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < faults.size(); ++i) {
    // Later assemblies do not repeat the schedule. A fault that happened before is not armed again.
    if (action_.assembly == 1) lines.push_back(cat("chaos ", i, ": ", to_string(faults[i])));
    const bool fired =
        std::find(action_.fired.begin(), action_.fired.end(), i) != action_.fired.end();
    if (!fired) armed.push_back({i, faults[i]});
  }
  if (!lines.empty()) parts_.logs.add(action_.job, "master", std::move(lines));
  return armed;
}

void JobThread::log(std::string line) { parts_.logs.add(action_.job, "master", {std::move(line)}); }

void JobThread::tell_wait(std::string for_what) {
  parts_.tell(RunWaits{action_.job, action_.assembly, std::move(for_what)});
}

// Unpacks the job's files into `folder`, and waits while the disk is full.
Result<Job> JobThread::unpack_job(const Submission& submission, const std::string& folder) {
  const auto unpack_here = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("jobs/unpack"));
    return unpack(submission, parts_.journal.blobs(), folder + "/submitted");
  };
  LEAT_RETURN_IF_ERROR(retry_while_full(
      unpack_here, [&] { return ended_.load(); },
      [&](const Status& full) {
        const std::string text = cat(kWaitsForRoom, full.message());
        log("warning: " + text);
        tell_wait(text);
      }));
  tell_wait("");
  return read_submitted_job(submission, folder + "/submitted");
}

Result<TrainOptions> JobThread::train_options(const std::string& folder, const std::string& cpu) {
  TrainOptions options;
  options.folder = folder;
  options.run = action_.job;
  options.key = parts_.key;
  options.hosts_write_parts = parts_.checkpoint_keys->empty();
  // An elastic job trains with the workers that this assembly has.
  options.workers = static_cast<int>(action_.workers.size());
  options.yields = [this] { return yields_.load(); };
  options.checkpoints_asked = [this] { return asked_.load(); };
  // Runners that are kept from the last assembly may still hold the variables in memory.
  options.survivors = action_.assembly > 1;
  options.begin_anew = true;
  // As processors_of() joins them.
  if (cpu.find(" and ") != std::string::npos)
    options.no_audit = cat("the workers' processors differ (", cpu, "), and so may their bits");
  options.forget_saved = [this] { return parts_.forget_saved(action_.job); };
  options.first_checkpoint = [this, folder] {
    return take_checkpoint(files_, folder + "/submitted", folder);
  };
  LEAT_ASSIGN_OR_RETURN(const std::string aside,
                        make_way_for_folder(files_, folder + "/checkpoints"));
  if (!aside.empty())
    log(cat("warning: what stood in the place of the checkpoints was set aside, as ", aside));
  LEAT_ASSIGN_OR_RETURN(options.resume, options.first_checkpoint());
  return options;
}

Result<std::unique_ptr<RunCopier>> JobThread::start_copier(const Job& job,
                                                           const std::string& folder) {
  if (parts_.copies.empty()) return std::unique_ptr<RunCopier>();
  const RunCopyPlaces places{folder, cat(parts_.copies, "/", action_.job), job.checkpoint.keep,
                             parts_.checkpoint_keys, action_.job};
  if (action_.assembly == 1) log(cat("its folder is copied to ", places.to));
  return RunCopier::create(real_files(), places, RunCopier::Start::recovers);
}

void JobThread::offer_to(RunCopier* copier, int64_t step) {
  if (copier == nullptr) return;
  copier->offer(step);
  log_warnings(*copier);
}

void JobThread::log_warnings(RunCopier& copier) {
  for (const std::string& warning : copier.take_warnings()) log("warning: " + warning);
}

void JobThread::finish_copy(RunCopier* copier) {
  if (copier == nullptr) return;
  tell_wait(cat("copies what it has left to ", copier->place()));
  const Status whole = copier->finish(kCopyPatience, [&] { return ended_.load(); });
  tell_wait("");
  log_warnings(*copier);
  if (!whole.ok()) log("warning: " + whole.message());
}

void JobThread::tell_yielded(int64_t step, bool saved) {
  told_ = true;
  parts_.tell(RunYielded{action_.job, action_.assembly, static_cast<uint64_t>(step), saved});
  log(cat("came to a fence at step ", step));
}

// The next assembly must not begin with it, so this waits for the drain.
void JobThread::drain(const std::string& worker) {
  wrong_worker_ = worker;
  const auto told = std::make_shared<std::promise<Status>>();
  parts_.drain(worker, cat("the audit of job '", action_.job, "'"),
               [told](const Status& status) { told->set_value(status); });
  auto answer = told->get_future();
  const bool came = answer.wait_for(kDrain) == std::future_status::ready;
  const Status drained = came ? answer.get() : deadline_exceeded("no answer");
  log(drained.ok() ? cat("worker '", worker, "' drains now")
                   : cat("warning: worker '", worker, "' is not drained: ", drained.message()));
}

Result<JobResult> JobThread::evaluate(const Job& job, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(auto hosts, parts_.make_hosts(action_));
  const std::string& id = action_.job;
  JobEvaluation evaluation(parts_.catalogue, files_, job,
                           {folder, cat(parts_.folder, "/", job.evaluates, "/checkpoints")},
                           std::move(hosts),
                           {[&] { return parts_.job(job.evaluates); },
                            [this] { return ended_.load() || yields_.load() != TrainYield::no; },
                            [this](std::chrono::milliseconds time) {
                              std::unique_lock lock(mutex_);
                              changed_.wait_for(lock, time, [this] { return ended_.load(); });
                            },
                            [&](const ProgressReport& report) {
                              parts_.tell(ProgressMade{id, action_.assembly, report});
                            },
                            [this](std::string line) { log(std::move(line)); },
                            [this](std::string for_what) { tell_wait(std::move(for_what)); }});
  LEAT_ASSIGN_OR_RETURN(const auto copier, start_copier(job, folder));
  const Status done = evaluation.run();
  // The rows are on the disk, so that the next assembly needs none of these workers.
  if (done.code() == Code::cancelled && !ended_) {
    tell_yielded(evaluation.last_step(), true);
    return JobResult();
  }
  if (!done.ok()) return done;
  finish_copy(copier.get());
  return JobResult();
}

Result<JobResult> JobThread::train(const Submission& submission) {
  const std::string& id = action_.job;
  const std::string folder = cat(parts_.folder, "/", id);
  // The files come first, so that a full disk delays the job before its runners do any work.
  LEAT_ASSIGN_OR_RETURN(const Job job, unpack_job(submission, folder));
  if (!job.evaluates.empty()) return evaluate(job, folder);
  LEAT_ASSIGN_OR_RETURN(auto hosts, parts_.make_hosts(action_));
  const std::function<void()> note_steps = parts_.noter(action_);
  const std::string cpu = parts_.cpu_of(action_);
  LEAT_ASSIGN_OR_RETURN(const auto faults, faults_to_come(submission));
  MasterFaults master_faults(parts_, action_, faults, job.asynchronous() || job.has_quorum());
  // The runners must have their faults before the first step.
  if (!faults.empty()) LEAT_RETURN_IF_ERROR(parts_.arm(action_, master_faults.of_runners()));
  LEAT_ASSIGN_OR_RETURN(TrainOptions options, train_options(folder, cpu));
  LEAT_ASSIGN_OR_RETURN(auto trainer, Trainer::create(parts_.catalogue, files_, job,
                                                      std::move(options), std::move(hosts)));
  for (const std::string& note : trainer->notes()) log("note: " + note);
  // The reporter calls back on this thread, while run() trains.
  TrainingReporter reporter(
      job, trainer->rows(), parts_.clock,
      [&](const ProgressReport& report) {
        parts_.tell(ProgressMade{id, action_.assembly, report});
      },
      [this](std::string line) { log(std::move(line)); });
  reporter.on_wait([this](std::string for_what) { tell_wait(std::move(for_what)); });
  reporter.on_step([&](uint64_t step) { master_faults.on_step(step); });
  LEAT_ASSIGN_OR_RETURN(const auto copier, start_copier(job, folder));
  if (const auto view = parts_.job(id); view.ok()) reporter.add_audits(view->progress.last.audits);
  reporter.on_wrong_worker([this](const std::string& worker) { drain(worker); });
  reporter.on_checkpoint([&](int64_t step) { offer_to(copier.get(), step); });
  trains_ = true;
  const auto ran = trainer->run(reporter, [&] { return ended_.load(); });
  trains_ = false;
  if (!ran.ok() || ran->interrupted) note_steps();
  // The master learns the end here, since the release of the runners below takes a while.
  if (!ran.ok()) {
    reporter.report();
    broke(ran.status());
    return ran.status();
  }
  // The job came to a fence. It goes on in another assembly, so this is not the end of the job.
  if (ran->yielded) {
    reporter.report();
    tell_yielded(ran->steps, ran->saved);
    return JobResult();
  }
  // The table asked for this end, and ignores what is told of it.
  if (ran->interrupted) return told_to_end();
  finish_copy(copier.get());
  // The job has succeeded: the log gets the facts on which the weights depend.
  const JobResult result{ran->weights_sha256,     static_cast<uint64_t>(job.shards), job.seed, cpu,
                         job.depends_on_timing(), precision_of_weights(job)};
  log(cat("weights sha256 ", result.weights_sha256, ", shards ", result.shards, ", seed ",
          result.seed, precision_clause(result.precision), ", ", result.cpu,
          result.depends_on_timing ? ", depends on timing" : ""));
  return result;
}

}  // namespace leat
