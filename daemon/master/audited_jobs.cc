#include "daemon/master/audited_jobs.h"

#include <chrono>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

// "'ann' at 127.0.0.1:40712": the name is what the client says.
std::string client_of(const std::string& user, const std::string& by) {
  // A token proves the name, and it is in `by` then.
  if (user.empty() || by.find(cat("'", user, "' at ")) != std::string::npos) return by;
  return cat("'", user, "'", by.empty() ? "" : " at ", by);
}
std::string client_of(const Submission& submission) {
  return client_of(submission.terms.user, submission.by);
}

// The subject of an entry, once the outcome names it in full.
const std::string& name_of_subject(const JobView& job) { return job.id; }
const std::string& name_of_subject(const NodeView& node) { return node.worker.info.worker.name; }
std::string name_of_subject(const TokenView& token) {
  return cat(right_name(token.grant.right), " ", token.grant.name, " ", token.grant.number);
}
std::string name_of_subject(const TokenGiven& given) { return name_of_subject(given.view); }

}  // namespace

template <typename T, typename Ask>
void AuditedJobs::audit(AuditEntry entry, Done<T> done, Ask ask) {
  if (const Status status = check_log(entry); !status.ok()) return done(status);
  ask([&log = log_, entry = std::move(entry), done = std::move(done)](Result<T> result) mutable {
    entry.outcome = result.status();
    if (result.ok()) entry.subject = name_of_subject(*result);
    // The request is done: its outcome is the answer, whether the log could be written or not.
    log.add(std::move(entry), [done, result](const Status&) { done(result); });
  });
}

Status AuditedJobs::check_log(const AuditEntry& entry) {
  const Status log = log_.status();
  if (log.ok()) return {};
  AuditEntry refused = entry;
  refused.outcome = Status(log.code(), cat("the audit log cannot be written, so that nothing is ",
                                           "changed: ", log.message()));
  const Status outcome = refused.outcome;
  log_.add(std::move(refused));
  return outcome;
}

void AuditedJobs::submit(Submission submission, Done<JobView> done) {
  AuditEntry entry{"submit", submission.request_id, client_of(submission)};
  audit(std::move(entry), std::move(done),
        [&](Done<JobView> then) { jobs_.submit(std::move(submission), std::move(then)); });
}

void AuditedJobs::resume(std::string job, Submission submission, Done<JobView> done) {
  AuditEntry entry{cat("submit with the checkpoint of ", job), job, client_of(submission)};
  audit(std::move(entry), std::move(done), [&](Done<JobView> then) {
    jobs_.resume(std::move(job), std::move(submission), std::move(then));
  });
}

Result<std::unique_ptr<ArrivingBlob>> AuditedJobs::begin_blob(const BlobUpload& upload) {
  auto blob = jobs_.begin_blob(upload);
  if (!blob.ok())
    log_.add({"upload", to_hex(upload.sha256), client_of(upload.user, upload.by), blob.status()});
  return blob;
}

void AuditedJobs::open_session(Submission submission, Done<JobView> done,
                               const std::function<void(Submission, Done<JobView>)>& submit) {
  AuditEntry entry{"open session", submission.request_id, client_of(submission)};
  if (const Status status = check_log(entry); !status.ok()) return done(status);
  submit(std::move(submission), [&log = log_, entry = std::move(entry),
                                 done = std::move(done)](const Result<JobView>& view) mutable {
    entry.outcome = view.status();
    if (view.ok()) entry.subject = view->id;
    log.add(std::move(entry));
    done(view);
  });
}

Status AuditedJobs::attaches(const std::string& job, const std::string& by) {
  AuditEntry entry{"attach session", job, by};
  LEAT_RETURN_IF_ERROR(check_log(entry));
  log_.add(std::move(entry));
  return {};
}

void AuditedJobs::create_token(const Grant& wanted, uint64_t seconds, std::string by,
                               Done<TokenGiven> done) {
  const std::string subject = cat(right_name(wanted.right), " ", wanted.name);
  audit<TokenGiven>({"create token", subject, by}, std::move(done), [&](Done<TokenGiven> then) {
    const std::string secret = secrets_().first;
    if (secret.empty()) {
      return then(failed_precondition(
          "tokens: expected a cluster with a secret_file or a certificate_file, and this one "
          "has none: everyone on the machine may do everything"));
    }
    constexpr uint64_t kMostSeconds = uint64_t{100} * 365 * 24 * 3600;
    if (seconds > kMostSeconds)
      return then(invalid_argument(cat("expected at most 100 years, received ", seconds, " s")));
    Grant grant = wanted;
    if (seconds != 0) {
      grant.expires = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count() +
                      static_cast<int64_t>(seconds);
    }
    const auto view = tokens_.add(grant, by, secret);
    if (!view.ok()) return then(view.status());
    then(TokenGiven{*view, write_token({view->grant, key_of(view->grant, secret)})});
  });
}

void AuditedJobs::revoke_token(uint64_t number, std::string by, Done<TokenView> done) {
  audit<TokenView>({"revoke token", cat(number), by}, std::move(done),
                   [&](Done<TokenView> then) { then(tokens_.revoke(number)); });
}

void AuditedJobs::cancel(std::string id, std::string by, Done<JobView> done) {
  audit({"cancel", id, by}, std::move(done),
        [&](Done<JobView> then) { jobs_.cancel(std::move(id), std::move(by), std::move(then)); });
}

void AuditedJobs::pause(std::string id, bool undo, std::string by, Done<JobView> done) {
  audit({undo ? "resume" : "pause", id, by}, std::move(done), [&](Done<JobView> then) {
    jobs_.pause(std::move(id), undo, std::move(by), std::move(then));
  });
}

void AuditedJobs::save(std::string id, std::string by, Done<JobView> done) {
  audit({"save", id, by}, std::move(done),
        [&](Done<JobView> then) { jobs_.save(std::move(id), std::move(by), std::move(then)); });
}

void AuditedJobs::remove(std::string id, std::string by, Done<JobView> done) {
  audit({"remove", id, by}, std::move(done),
        [&](Done<JobView> then) { jobs_.remove(std::move(id), std::move(by), std::move(then)); });
}

void AuditedJobs::drain(std::string worker, bool draining, std::string by, Done<NodeView> done) {
  audit({draining ? "drain" : "undrain", worker, by}, std::move(done), [&](Done<NodeView> then) {
    jobs_.drain(std::move(worker), draining, std::move(by), std::move(then));
  });
}

// The entry is written beside the file's way to the client, which does not wait for it.
Result<std::string> AuditedJobs::file_path(const std::string& id, const std::string& name,
                                           const std::string& by) {
  auto path = jobs_.file_path(id, name, by);
  log_.add({"fetch", cat(id, "/", name), by, path.status()});
  return path;
}

}  // namespace leat
