#include "daemon/master/table_hands.h"

#include "daemon/master/heart_server.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/leftovers.h"
#include "daemon/master/running_jobs.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/workforce.h"
#include "daemon/process/config_reader.h"
#include "devices/base/text.h"

namespace leat {

namespace {

// A job has ended, but its thread may still release its runners.
constexpr std::chrono::milliseconds kEndOfRun{10'000};
constexpr std::chrono::milliseconds kReadOfSubmission{30'000};

}  // namespace

void TableHands::restore(const std::vector<StoredJob>& jobs) {
  for (const StoredJob& job : jobs) {
    if (has_ended(job.condition.state)) {
      parts_.logs->end(job.id);
      // No runner of the earlier master's life writes for this job, so its leftovers are due at
      // once.
      parts_.leftovers->ended(job.id, parts_.clock.steady() - parts_.tuning.sweep_after);
    } else {
      assemblies_[job.id] = job.condition.assembly;
      const Status read = job.session ? parts_.sessions->restore(job.id) : Status();
      if (!read.ok())
        parts_.log.warning("the client of session '", job.id, "' is not known: ", read.message());
    }
  }
}

void TableHands::write(WriteJournal action) {
  parts_.journal->write(std::move(action), [this](JournalWritten written) {
    // This runs on the thread "journal". The outcome goes to the table as an event.
    if (written.status.ok()) parts_.wrote = true;
    parts_.state->handle(std::move(written));
  });
}

void TableHands::start_runners(StartRunners action) {
  parts_.workforce->start_runners(std::move(action));
}

void TableHands::stop_runners(StopRunners action) {
  parts_.workforce->stop_runners(std::move(action));
}

void TableHands::run_job(RunJob action) { parts_.runs->run(std::move(action)); }

void TableHands::yield_run(YieldRun action) { parts_.runs->yield(action); }

void TableHands::end_run(EndRun action) {
  // The run is told first. The calls to its runners fail then, and wake it if it waits for one.
  parts_.runs->end(action);
  parts_.workforce->end_assembly(action.job, action.assembly, action.reason);
}

void TableHands::remove_job(RemoveJob action) {
  parts_.logs->remove(action.id);
  parts_.post_mortems.forget(action.id);
  // The disk's thread may wait for the run. The folder goes before the journal's record: after a
  // crash between them the next master clears the folder again.
  (void)parts_.disk->post([this, id = action.id] {
    if (!parts_.runs->await_end(id, kEndOfRun))
      parts_.log.warning("job ", id, " goes on after its end");
    if (const Status status = parts_.folders.clear(id); !status.ok()) {
      return parts_.log.warning(status.message(), "; it is tried again when the master starts");
    }
    (void)parts_.journal->post([id](Journal& journal) { (void)journal.append(JobCleared{id}); });
  });
}

void TableHands::worker_lost(const WorkerRef& worker, const std::string& reason) {
  parts_.workforce->worker_lost(worker, reason);
}

void TableHands::members_changed(const std::vector<WorkerView>& workers) {
  parts_.hearts->set_members(workers);
}

void TableHands::job_changed(const JobView& job) {
  const JobCondition& now = job.condition;
  std::string text(name_of(now.state));
  // A change of the assembly is told once, with the workers that it has.
  uint64_t& assembly = assemblies_[job.id];
  const bool assembled = std::exchange(assembly, now.assembly) != now.assembly &&
                         (now.state == JobState::starting || now.state == JobState::recovering);
  if (assembled) text += cat(", assembly ", now.assembly, " on ", join(now.workers, ", "));
  // The log has the reason of a recovery already: the change to RECOVERING wrote it.
  if (!now.reason.empty() && !assembled) text += ": " + now.reason;
  const bool ended = has_ended(now.state);
  // The runners of the job may still write for a while, so the sweep of its folder comes later.
  if (ended) {
    assemblies_.erase(job.id);
    parts_.leftovers->ended(job.id, parts_.clock.steady());
  }
  parts_.log.info("job ", job.id, ": ", text);
  parts_.logs->add(job.id, "master", {text});
  parts_.sessions->changed(job);
  if (!ended) return;
  // Posted, since this change may lead to further ones, which still write to the job's log.
  parts_.state->post([this, id = job.id] { parts_.workforce->end_log(id); });
  after_run(job.id, now.state == JobState::failed);
  weigh(job.id);
}

void TableHands::after_run(const std::string& id, bool failed) {
  (void)parts_.failures->post([this, id, failed] {
    // The end of the run notes the last steps.
    if (!stopping_ && !parts_.runs->await_end(id, kEndOfRun))
      parts_.log.warning("the run of job ", id, " goes on after the job's end");
    if (!failed) return parts_.post_mortems.forget(id);
    auto submission = parts_.journal->submission(id, kReadOfSubmission);
    if (!submission.ok()) return parts_.post_mortems.forget(id);  // it is removed
    const auto shared = std::make_shared<const Submission>(std::move(*submission));
    // On the thread that would remove the folder, so that it does not come back.
    (void)parts_.disk->post([this, id, shared] { explain_failure(id, *shared); });
  });
}

void TableHands::explain_failure(const std::string& id, const Submission& submission) {
  const auto job = parts_.state->tables().job(id);
  // Without the job, its id may be the beginning of another one.
  if (!job.ok() || job->id != id) return parts_.post_mortems.forget(id);
  const FailedJob failed{*job, submission, parts_.state->tables().nodes(),
                         print_config(parts_.config)};
  const Status written =
      parts_.post_mortems.write(failed, real_files(), parts_.folders.path_of(id));
  if (!written.ok()) parts_.log.warning("the post-mortem of job ", id, ": ", written.message());
  weigh(id);
}

void TableHands::weigh(const std::string& job) {
  if (parts_.config.retention.max_bytes == 0) return;
  (void)parts_.disk->post([this, job] {
    parts_.state->handle(JobWeighed{job, parts_.folders.bytes(job)});
  });
}

}  // namespace leat
