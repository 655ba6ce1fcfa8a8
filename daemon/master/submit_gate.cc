#include "daemon/master/submit_gate.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "daemon/jobs/grammar.h"
#include "daemon/jobs/upload_account.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/resumed_job.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/submitted_job.h"
#include "daemon/master/visible_jobs.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kTableDeadline{
    30'000};  // of the table of jobs, and the journal

// A submit must not end processes of the cluster unless its operator allows it.
Status check_chaos_allowed(const Submission& submission, const MasterConfig& config) {
  if (submission.chaos.empty() || config.chaos) return {};
  return failed_precondition(
      cat("submit: --chaos '", submission.chaos.front(),
          "': expected a cluster that allows it: 'chaos: true' in the master's configuration"));
}

Status master_is_stopping() { return cancelled("the master is stopping"); }

}  // namespace

void SubmitGate::clear_checks() const {
  std::error_code ignored;
  std::filesystem::remove_all(checks_folder(), ignored);
}

Status SubmitGate::admit(const Submission& submission) const {
  LEAT_RETURN_IF_ERROR(check_chaos_allowed(submission, parts_.config));
  const Status& journal = parts_.cannot_write;
  // A full disk may have room again, so the journal is tried; any other failure stays until the
  // next start.
  const bool stays = !journal.ok() && journal.code() != Code::resource_exhausted;
  if (stays) return journal.while_doing("taking a job");
  const size_t checks = parts_.tuning.checks;
  if (parts_.disk->waiting() < checks) return {};
  return resource_exhausted(
      cat("submit: ", checks, " others wait to be checked; try again in a moment"));
}

void SubmitGate::submit(Submission submission, Done done) {
  if (const Status status = admit(submission); !status.ok()) return done(status);
  const bool posted = parts_.disk->post([this, submission = std::move(submission), done]() mutable {
    check(std::move(submission), std::move(done));
  });
  if (!posted) done(master_is_stopping());
}

void SubmitGate::resume(std::string job, Submission submission, Done done) {
  if (const Status status = admit(submission); !status.ok()) return done(status);
  const bool posted = parts_.disk->post(
      [this, job = std::move(job), submission = std::move(submission), done]() mutable {
        resume_checked(job, std::move(submission), std::move(done));
      });
  if (!posted) done(master_is_stopping());
}

// On the disk's thread.
void SubmitGate::check(Submission submission, Done done) {
  auto checked =
      check_submitted_job(*parts_.files, parts_.catalogue, parts_.journal->blobs(),
                          std::move(submission), cat(checks_folder(), "/", ++checks_begun_));
  if (!checked.ok()) return done(checked.status());
  ClusterState& state = *parts_.state;
  // A repeated submit is answered whatever has become of the workers and of other jobs.
  const Submission& asked = checked->submission;
  if (state.tables().job_of_request(asked.terms.user, asked.request_id).empty()) {
    Status status;
    if (!checked->data_root.empty())
      status = check_data_root(real_files(), checked->data_root, state.tables().nodes());
    if (status.ok() && !checked->evaluates.empty())
      status = check_followed(checked->evaluates, asked.sees_only);
    if (!status.ok()) return done(status);
    auto reserved = parts_.uploads->reserve_named(asked.terms.user, asked.files);
    if (!reserved.ok()) return done(reserved.status());
    // Until the journal has the job, or refuses it, no other submit may have the same bytes.
    done = [done = std::move(done), held = *std::move(reserved)](Result<JobView> view) {
      done(std::move(view));
    };
  }
  state.submit(std::move(checked->submission), std::move(done));
}

// On the disk's thread.
Status SubmitGate::check_followed(const std::string& job, const std::optional<std::string>& only) {
  const auto wrong = [&](const std::string& received) {
    return invalid_argument(
        cat("job.yaml: evaluates: expected the id of a job that trains on this "
            "cluster, received ",
            received));
  };
  const ClusterTables& tables = parts_.state->tables();
  Result<std::string> followed = job;
  if (only) followed = find_job_of(tables.jobs(), *only, job);
  if (followed.ok()) {
    const auto view = tables.job(*followed);
    followed = view.ok() ? Result<std::string>(view->id) : view.status();
  }
  if (!followed.ok() || *followed != job) {
    return wrong(
        cat(quoted_start(job), followed.ok() ? cat("; '", *followed, "' is one") : std::string()));
  }
  LEAT_ASSIGN_OR_RETURN(const Submission from, parts_.journal->submission(job, kTableDeadline));
  if (is_session(from)) return wrong(cat("session '", job, "'"));
  JobOverrides overrides;
  overrides.set = from.overrides;
  const auto read = parse_job(from.text, "job.yaml", overrides);
  if (!read.ok() || read->evaluates.empty()) return {};
  return wrong(cat("'", job, "', which evaluates job '", read->evaluates, "'"));
}

// On the disk's thread. A repeated request keeps the files that it had, whatever has become of the
// job that left them; other files would make it another submission.
void SubmitGate::resume_checked(const std::string& job, Submission submission, Done done) {
  for (const AttachedFile& file : submission.files) {
    if (!file.name.starts_with(kResumed)) continue;
    return done(invalid_argument(
        cat("submit: expected no '", file.name, "' in one that goes on from job '", job, "'")));
  }
  const auto known = job_of_request(submission);
  if (!known.ok()) return done(known.status());
  Blobs& blobs = parts_.journal->blobs();
  if (!known->empty()) {
    const auto first = parts_.journal->submission(*known, kTableDeadline);
    if (!first.ok()) return done(first.status());
    // The files of the checkpoint come from the first submit, and those of the request from this
    // one.
    std::copy_if(first->files.begin(), first->files.end(), std::back_inserter(submission.files),
                 [](const AttachedFile& file) { return file.name.starts_with(kResumed); });
    return check(std::move(submission), std::move(done));
  }
  const auto from = parts_.state->tables().job(job);
  if (!from.ok()) return done(from.status());
  // The checkpoint becomes blobs before the job that left it may remove it.
  auto kept = keep_checkpoint(*parts_.files, blobs, from->id, parts_.folders.path_of(from->id));
  if (!kept.ok()) return done(kept.status());
  std::move(kept->files.begin(), kept->files.end(), std::back_inserter(submission.files));
  check(std::move(submission), [this, from = from->id, passed_over = std::move(kept->passed_over),
                                done = std::move(done)](Result<JobView> view) {
    std::vector<std::string> lines;
    for (const std::string& each : passed_over)
      lines.push_back(cat("note: a checkpoint of job '", from, "' was passed over: ", each));
    if (view.ok() && !lines.empty()) parts_.logs->add(view->id, "master", std::move(lines));
    done(std::move(view));
  });
}

// The job that an earlier submit of the same user's request made, or "". It waits until the table
// has taken all submits that were handed to it before.
Result<std::string> SubmitGate::job_of_request(const Submission& submission) {
  // The promise is shared with the task, which may run after this call gave up.
  const auto passed = std::make_shared<std::promise<void>>();
  auto reached = passed->get_future();
  parts_.state->post([passed] { passed->set_value(); });
  if (reached.wait_for(kTableDeadline) != std::future_status::ready)
    return deadline_exceeded(
        cat("the table of jobs did not answer within ", kTableDeadline.count(), " ms"));
  return parts_.state->tables().job_of_request(submission.terms.user, submission.request_id);
}

}  // namespace leat
