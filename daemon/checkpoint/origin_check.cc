#include "daemon/checkpoint/origin_check.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// "run 'mnist-1a2b' (job 'mnist')"; a run of `leat train` has no id.
std::string run_text(const std::string& run, const std::string& job) {
  const std::string of_job = job.empty() ? "" : cat(" (job '", job, "')");
  return run.empty() ? cat("a run of leat train", of_job) : cat("run '", run, "'", of_job);
}

Status differs(std::string_view subject, const std::string& expected, const std::string& received) {
  return invalid_argument(cat(subject, ": expected ", expected, ", received ", received));
}

}  // namespace

Status OriginCheck::check_link(const Manifest& manifest, std::string_view subject) const {
  const auto& parent = after_->previous;
  if (!parent) {
    return differs(subject,
                   cat("no checkpoint before step ", after_->step, ", which names none before it"),
                   cat("one of step ", manifest.step));
  }
  if (parent->step != manifest.step) {
    return differs(subject,
                   cat("the checkpoint of step ", parent->step, " before that of step ",
                       after_->step, ", whose manifest has SHA-256 ", parent->sha256),
                   cat("one of step ", manifest.step, ": it is missing"));
  }
  const std::string received = parent_of(manifest).sha256;
  if (parent->sha256 == received) return {};
  return invalid_argument(cat(subject, ": step ", after_->step, " came after a checkpoint of step ",
                              manifest.step, " whose manifest has SHA-256 ", parent->sha256,
                              ", not after this one, ", received));
}

Status OriginCheck::check_key(const Manifest& manifest, bool is_linked, std::string_view subject) {
  LEAT_RETURN_IF_ERROR(check_signature(manifest, subject));
  const bool is_vouched_for = is_linked && trust_ != OriginTrust::not_signed;
  const auto& signature = manifest.signature;
  const bool is_expected = expected_.key.empty() || (signature && signature->key == expected_.key);
  trust_ = OriginTrust::not_signed;
  if (signature && is_expected) {
    trust_ = OriginTrust::signed_by_key;
  } else if (is_vouched_for) {
    trust_ = OriginTrust::vouched_for;
  } else if (!is_expected) {
    return differs(subject, cat("a signature by key ", expected_.key),
                   signature ? cat("one by key ", signature->key) : "none");
  }
  return {};
}

Status OriginCheck::check_run(const Manifest& manifest, std::string_view subject) const {
  const auto& identity = expected_.identity;
  if (!identity && expected_.run.empty()) return {};
  // The run has written no checkpoint of its own yet.
  if (identity && !identity->from.empty() && parent_of(manifest).sha256 == identity->from)
    return {};
  const std::string& run = expected_.run.empty() ? identity->run : expected_.run;
  const auto& provenance = manifest.provenance;
  if (!provenance) {
    if (!identity) return {};  // both are of an older version
    return differs(subject, cat("a checkpoint of ", run_text(run, "")), "one without provenance");
  }
  if (provenance->run != run) {
    return differs(subject, cat("a checkpoint of ", run_text(run, "")),
                   cat("one of ", run_text(provenance->run, manifest.job)));
  }
  if (!identity) return {};
  const auto& jobs = identity->jobs;
  if (std::find(jobs.begin(), jobs.end(), provenance->job_sha256) != jobs.end()) return {};
  return differs(subject,
                 cat("a checkpoint of the run's job file, whose SHA-256 is ", join(jobs, " or ")),
                 cat("one of job '", manifest.job, "', whose file has ", provenance->job_sha256));
}

Status OriginCheck::check(const Manifest& manifest, std::string_view subject) {
  const bool is_gap =
      expected_.allows_gaps && after_ && after_->previous && after_->previous->step > manifest.step;
  const bool is_linked = after_.has_value() && !is_gap;
  const auto all = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(is_linked ? check_link(manifest, subject) : check_run(manifest, subject));
    return check_key(manifest, is_linked, subject);
  };
  const Status checked = all();
  if (!checked.ok()) trust_ = OriginTrust::not_signed;
  if (checked.ok()) {
    after_ = manifest;
  } else {
    after_.reset();
  }
  return checked;
}

}  // namespace leat
