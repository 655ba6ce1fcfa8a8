// Has the audit log tell of every request that changes something, and of every file that is
// fetched.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/audit/audit_log.h"
#include "daemon/master/job_service.h"
#include "daemon/master/token_table.h"

namespace leat {

// Passes requests on to another service, and answers when the log has them with their outcome.
// While the log cannot be written it refuses what changes anything, with the code of the log's
// failure; requests that read are passed on as they are. Threads: as JobService.
class AuditedJobs final : public JobService {
 public:
  // All outlive it. `secrets` returns that of the cluster, which keys of tokens are made from, and
  // the one before; empty: none.
  AuditedJobs(JobService& jobs, AuditLog& log, TokenTable& tokens,
              std::function<std::pair<std::string, std::string>()> secrets)
      : jobs_(jobs), log_(log), tokens_(tokens), secrets_(std::move(secrets)) {}

  // As AuditLog::add_refused().
  void refused(const std::string& by, const Status& why) override { log_.add_refused(by, why); }
  Status attaches(const std::string& job, const std::string& by) override;
  void create_token(const Grant& wanted, uint64_t seconds, std::string by,
                    Done<TokenGiven> done) override;
  void revoke_token(uint64_t number, std::string by, Done<TokenView> done) override;
  Result<std::vector<TokenView>> tokens() override {
    const auto [secret, previous] = secrets_();
    return tokens_.all(secret, previous);
  }

  void submit(Submission submission, Done<JobView> done) override;
  void resume(std::string job, Submission submission, Done<JobView> done) override;
  // An entry has only an upload that fails when it begins, by a quota or for another reason: one
  // that begins changes nothing until a job names it.
  Result<std::unique_ptr<ArrivingBlob>> begin_blob(const BlobUpload& upload) override;
  // As submit(), for a session, whose job `submit` brings to the table. `done` is called when the
  // table has the job, before later events of it; the entry is written meanwhile.
  void open_session(Submission submission, Done<JobView> done,
                    const std::function<void(Submission, Done<JobView>)>& submit);
  void cancel(std::string id, std::string by, Done<JobView> done) override;
  void pause(std::string id, bool undo, std::string by, Done<JobView> done) override;
  void save(std::string id, std::string by, Done<JobView> done) override;
  void remove(std::string id, std::string by, Done<JobView> done) override;
  void drain(std::string worker, bool draining, std::string by, Done<NodeView> done) override;
  void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
             Done<JobView> done) override {
    jobs_.watch(std::move(id), seen, deadline, std::move(done));
  }
  void logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
            Done<LogPage> done) override {
    jobs_.logs(std::move(id), from, deadline, std::move(done));
  }
  void why(std::string id, Done<Diagnosis> done) override {
    jobs_.why(std::move(id), std::move(done));
  }
  void record(std::string id, uint64_t steps, std::chrono::steady_clock::time_point deadline,
              Done<std::vector<std::byte>> done) override {
    jobs_.record(std::move(id), steps, deadline, std::move(done));
  }
  Result<std::vector<JobFile>> files(const std::string& id) override { return jobs_.files(id); }
  Result<std::string> file_path(const std::string& id, const std::string& name,
                                const std::string& by) override;

 private:
  // Ok if the log can be written; else what to answer, after an entry that says so.
  Status check_log(const AuditEntry& entry);
  // Calls `ask` with a Done that writes the entry with its outcome before it calls `done`.
  template <typename T, typename Ask>
  void audit(AuditEntry entry, Done<T> done, Ask ask);

  JobService& jobs_;
  AuditLog& log_;
  TokenTable& tokens_;
  const std::function<std::pair<std::string, std::string>()> secrets_;
};

}  // namespace leat
