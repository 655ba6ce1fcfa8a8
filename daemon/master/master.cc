#include "daemon/master/master.h"

#include <filesystem>
#include <future>
#include <set>

#include "daemon/base/version.h"
#include "daemon/jobs/grammar.h"
#include "daemon/master/heart_server.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/leftovers.h"
#include "daemon/master/resumed_job.h"
#include "daemon/master/running_jobs.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/submitted_job.h"
#include "daemon/master/wire_client_service.h"
#include "daemon/master/wire_workforce.h"
#include "daemon/process/state_folder.h"
#include "daemon/remote/remote_hosts.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "transport/rpc/server.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kJournal{30'000};
constexpr std::chrono::milliseconds kEndOfRun{10'000};  // of a job that is removed

uint64_t random_number() {
  const Nonce nonce = random_nonce();
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | nonce[i];
  return number;
}

std::string port_zero(const std::string& address) {
  return address.substr(0, address.rfind(':')) + ":0";
}

RpcIdentity identity_of(const MasterConfig& config) {
  RpcIdentity identity;
  identity.role = RpcRole::master;
  identity.cluster = config.cluster;
  identity.secret = config.security.secret;
  return identity;
}

// Nobody ends a worker by a submit, unless whoever runs the cluster lets them.
Status check_chaos_allowed(const Submission& submission, const MasterConfig& config) {
  if (submission.chaos.empty()) return {};
  if (!config.chaos) {
    return failed_precondition(
        cat("submit: --chaos '", submission.chaos.front(),
            "': expected a cluster that allows it: 'chaos: true' in the master's configuration"));
  }
  return {};
}

std::set<std::string, std::less<>> names_in(const std::string& folder) {
  const auto names = real_files().list(folder);
  if (!names.ok()) return {};  // it is not there yet
  return {names->begin(), names->end()};
}

// What is in a folder, and below; not what is being written. A folder that is not there, or no
// more, has nothing.
void list_files(const std::filesystem::path& folder, const std::string& prefix,
                std::vector<JobFile>& files) {
  namespace fs = std::filesystem;
  std::error_code gone;
  for (auto at = fs::directory_iterator(folder, gone); !gone && at != fs::directory_iterator();
       at.increment(gone)) {
    const std::string name = prefix + at->path().filename().string();
    if (name == "submitted" || name.find(".tmp") != std::string::npos) continue;
    if (!is_left_file(name)) continue;  // no client takes it
    std::error_code error;
    if (at->is_directory(error)) {
      if (at->is_symlink(error)) continue;
      list_files(at->path(), name + "/", files);
    } else if (at->is_regular_file(error)) {
      const auto size = at->file_size(error);
      if (!error) files.push_back({name, size});
    }
  }
}

}  // namespace

// Life --------------------------------------------------------------------------------------------

Master::Master(const MasterConfig& config, const MasterTuning& tuning, Logger log)
    : config_(config), tuning_(tuning), log_(std::move(log)), catalogue_(standard_catalogue()) {}

Result<std::unique_ptr<Master>> Master::start(const MasterConfig& config,
                                              const MasterTuning& tuning, Logger log) {
  std::unique_ptr<Master> daemon(new Master(config, tuning, std::move(log)));
  LEAT_RETURN_IF_ERROR(daemon->open());
  LEAT_RETURN_IF_ERROR(daemon->listen());
  return daemon;
}

Master::~Master() { (void)stop(); }

Status Master::open() {
  started_ms_ = moment_of(clock_).wall_ms;
  LEAT_ASSIGN_OR_RETURN(const std::string warning, take_state_folder(config_.state_dir));
  if (!warning.empty()) log_.warning(warning);
  JournalLimits limits = tuning_.journal;
  limits.new_journal = config_.new_journal;
  LEAT_ASSIGN_OR_RETURN(auto journal, Journal::open(real_files(), config_.state_dir, limits));
  cannot_write_ = journal->opened();
  if (!cannot_write_.ok()) {
    log_.error(
        "the journal cannot be written, so that no job is taken, begun or ended, while all "
        "that there is can be looked at and fetched: ",
        cannot_write_.message());
  }
  LEAT_ASSIGN_OR_RETURN(const std::vector<StoredJob> jobs, journal->replay());
  LEAT_ASSIGN_OR_RETURN(const auto drained, journal->drained_workers());
  std::error_code ignored;
  std::filesystem::remove_all(checks_folder(), ignored);
  clear_forgotten(*journal, jobs);
  journal_ = std::make_unique<JournalThread>(std::move(journal));
  logs_ = std::make_unique<JobLogs>(jobs_folder(), tuning_.log_bytes, clock_, log_.named("logs"));
  LEAT_ASSIGN_OR_RETURN(loop_, RpcLoop::start(log_, RpcLoop::kSpin));
  leftovers_ = std::make_unique<Leftovers>(real_files(), jobs_folder(), tuning_.sweep_after,
                                           log_.named("leftovers"));
  disk_ = std::make_unique<TaskThread>("disk", tuning_.sweep, [this] { sweep(); });
  ClusterStateOptions options = tuning_.cluster;
  options.members.max_workers = static_cast<size_t>(config_.max_workers);
  options.jobs.grow_after = config_.grow_after;
  options.jobs.taken_ids = names_in(jobs_folder());
  options.jobs.retention = config_.retention;
  state_ = std::make_unique<ClusterState>(options, random_number, clock_,
                                          static_cast<ClusterHands&>(*this));
  LEAT_ASSIGN_OR_RETURN(
      hearts_, HeartServer::open(
                   *state_, {.address = port_zero(config_.listen),
                             .identity = identity_of(config_),
                             .insecure_allow_network_without_authentication =
                                 config_.security.insecure_allow_network_without_authentication,
                             .connections = 2 * options.members.max_workers + 16,
                             .log = log_.named("heart")}));
  WorkforceOptions workforce;
  workforce.cluster_id = journal_->cluster_id();
  workforce.generation = journal_->generation();
  workforce.heart_address = hearts_->address();
  workforce.heartbeat = options.members.heartbeat;
  workforce.exit_deadline = tuning_.runner_exit;
  workforce.shared_threads = static_cast<uint32_t>(config_.shared_threads);
  workforce.log = log_.named("workers");
  workforce_ = std::make_unique<Workforce>(*loop_, *state_, *logs_, std::move(workforce));
  sessions_ = std::make_unique<SessionHosts>(SessionHostsParts{
      *loop_, catalogue_,
      [this](Submission submission, Done<JobView> done) {
        state_->submit(std::move(submission), std::move(done));
      },
      [this](std::string id, std::string by) {
        state_->cancel(std::move(id), std::move(by), [](const Result<JobView>&) {});
      },
      [this](const std::string& id) {
        const auto view = state_->job(id);
        return view.ok() && view->condition.state == JobState::running;
      },
      tuning_.session_lease});
  runs_ = std::make_unique<RunningJobs>(RunningJobsParts{
      real_files(), catalogue_, *journal_, *logs_, *sessions_, clock_, jobs_folder(),
      [this](const RunJob& action) { return make_hosts(action); },
      [this](const RunJob& action) { return cpu_of(action); },
      [this](JobEvent event) { state_->handle(std::move(event)); },
      [this](const RunJob& action, const auto& faults) { return arm(action, faults); },
      [this](FaultAsked fault, auto done) { state_->fault_due(std::move(fault), std::move(done)); },
      log_.named("jobs")});
  for (const StoredJob& job : jobs) {
    if (has_ended(job.condition.state)) {
      logs_->end(job.id);
      leftovers_->ended(job.id, clock_.steady() - tuning_.sweep_after);
    } else {
      assemblies_[job.id] = job.condition.assembly;
    }
  }
  state_->start(jobs, {drained.begin(), drained.end()}, journal_->generation());
  for (const StoredJob& job : jobs) {
    if (has_ended(job.condition.state)) weigh(job.id);
  }
  log_.info("journal of cluster ", journal_->cluster_id(), ", start ", journal_->generation(), ": ",
            counted(jobs.size(), "job"));
  return {};
}

Status Master::listen() {
  LEAT_ASSIGN_OR_RETURN(
      clients_, ClientService::start(*loop_, *this, *this, real_files(), {}, sessions_.get()));
  RpcServerOptions options;
  options.address = config_.listen;
  options.identity = identity_of(config_);
  options.insecure_allow_network_without_authentication =
      config_.security.insecure_allow_network_without_authentication;
  options.same_user = config_.same_user;
  options.log = log_.named("rpc");
  LEAT_ASSIGN_OR_RETURN(
      server_,
      RpcServer::listen(*loop_, std::move(options),
                        [this](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
                          switch (peer.role) {
                            case RpcRole::client:
                              return capnp::Capability::Client(clients_->serve(peer));
                            case RpcRole::worker:
                            case RpcRole::runner:
                              return capnp::Capability::Client(
                                  make_registry(workforce_->inside(), peer));
                            default:
                              return nullptr;
                          }
                        }));
  address_ = server_->address();
  workforce_->use(server_.get());
  return {};
}

Status Master::stop() {
  if (std::exchange(stopped_, true)) return stop_status_;
  if (disk_ != nullptr) disk_->stop();
  if (state_ != nullptr) {
    state_->settle(tuning_.settle);
    state_->stop();  // who still waits is told, here and below
  }
  if (sessions_ != nullptr) sessions_->stop(unavailable("the master is stopping"));
  // Jobs that the next master goes on with leave a checkpoint, while their runners are there.
  if (runs_ != nullptr) (void)runs_->stop(tuning_.farewell);
  if (logs_ != nullptr) logs_->stop();
  if (workforce_ != nullptr) workforce_->end_all("the master is stopping");
  if (runs_ != nullptr && !runs_->stop(tuning_.end)) {
    stop_status_ =
        deadline_exceeded(cat("the runs of these jobs did not end within ", tuning_.end.count(),
                              " ms: ", join(runs_->running(), ", ")));
  }
  server_.reset();
  clients_.reset();
  hearts_.reset();
  if (journal_ != nullptr) journal_->stop();
  return stop_status_;
}

void Master::beat_rpc(std::function<void()> beat) { (void)loop_->post(std::move(beat)); }
void Master::beat_hearts(std::function<void()> beat) {
  (void)hearts_->loop().post(std::move(beat));
}
void Master::beat_jobs(std::function<void()> beat) { state_->post(std::move(beat)); }
void Master::beat_journal(std::function<void()> beat) {
  (void)journal_->post([beat = std::move(beat)](Journal&) { beat(); });
}

// Requests ----------------------------------------------------------------------------------------

Status Master::admit(const Submission& submission) const {
  LEAT_RETURN_IF_ERROR(check_chaos_allowed(submission, config_));
  const bool stays = !cannot_write_.ok() && cannot_write_.code() != Code::resource_exhausted;
  if (stays) return cannot_write_.while_doing("taking a job");
  if (disk_->waiting() < tuning_.checks) return {};
  return resource_exhausted(
      cat("submit: ", tuning_.checks, " others wait to be checked; try again in a moment"));
}

void Master::submit(Submission submission, Done<JobView> done) {
  if (const Status status = admit(submission); !status.ok()) return done(status);
  const bool posted = disk_->post([this, submission = std::move(submission), done]() mutable {
    check(std::move(submission), std::move(done));
  });
  if (!posted) done(cancelled("the master is stopping"));
}

void Master::resume(std::string job, Submission submission, Done<JobView> done) {
  if (const Status status = admit(submission); !status.ok()) return done(status);
  const bool posted =
      disk_->post([this, job = std::move(job), submission = std::move(submission), done]() mutable {
        resume_checked(job, std::move(submission), std::move(done));
      });
  if (!posted) done(cancelled("the master is stopping"));
}

// On the disk's thread.
void Master::check(Submission submission, Done<JobView> done) {
  auto checked =
      check_submitted_job(real_files(), catalogue_, journal_->blobs(), std::move(submission),
                          cat(checks_folder(), "/", ++checks_begun_));
  if (!checked.ok()) return done(checked.status());
  // A repeated submit is answered whatever has become of the workers.
  if (state_->job_of_request(checked->submission.request_id).empty()) {
    const Status data = check_data_root(real_files(), checked->data_root, state_->nodes());
    if (!data.ok()) return done(data);
  }
  state_->submit(std::move(checked->submission), std::move(done));
}

// On the disk's thread. A repeated request has the files that it had, whatever has become of the
// job that left them: else it would be another content.
void Master::resume_checked(const std::string& job, Submission submission, Done<JobView> done) {
  for (const AttachedFile& file : submission.files) {
    if (!file.name.starts_with(kResumed)) continue;
    return done(invalid_argument(
        cat("submit: expected no '", file.name, "' in one that goes on from job '", job, "'")));
  }
  const auto known = job_of_request(submission.request_id);
  if (!known.ok()) return done(known.status());
  if (!known->empty()) {
    const auto first = journal_->submission(*known, kJournal);
    if (!first.ok()) return done(first.status());
    std::copy_if(first->files.begin(), first->files.end(), std::back_inserter(submission.files),
                 [](const AttachedFile& file) { return file.name.starts_with(kResumed); });
    return check(std::move(submission), std::move(done));
  }
  const auto from = state_->job(job);
  if (!from.ok()) return done(from.status());
  auto kept =
      keep_checkpoint(real_files(), journal_->blobs(), from->id, cat(jobs_folder(), "/", from->id));
  if (!kept.ok()) return done(kept.status());
  std::move(kept->files.begin(), kept->files.end(), std::back_inserter(submission.files));
  check(std::move(submission), [this, from = from->id, passed_over = std::move(kept->passed_over),
                                done = std::move(done)](Result<JobView> view) {
    std::vector<std::string> lines;
    for (const std::string& each : passed_over)
      lines.push_back(cat("note: a checkpoint of job '", from, "' was passed over: ", each));
    if (view.ok() && !lines.empty()) logs_->add(view->id, "master", std::move(lines));
    done(std::move(view));
  });
}

// After all submits that were handed on before.
Result<std::string> Master::job_of_request(const std::string& request_id) {
  const auto passed = std::make_shared<std::promise<void>>();
  auto reached = passed->get_future();
  state_->post([passed] { passed->set_value(); });
  if (reached.wait_for(kJournal) != std::future_status::ready)
    return deadline_exceeded(
        cat("the table of jobs did not answer within ", kJournal.count(), " ms"));
  return state_->job_of_request(request_id);
}

Result<std::unique_ptr<ArrivingBlob>> Master::begin_blob(const Sha256Digest& sha256,
                                                         uint64_t size) {
  return journal_->blobs().begin(sha256, size);
}

void Master::cancel(std::string id, std::string by, Done<JobView> done) {
  state_->cancel(std::move(id), std::move(by), [done = std::move(done)](Result<JobView> view) {
    const JobState state = view.ok() ? view->condition.state : JobState::cancelled;
    if (has_ended(state) && state != JobState::cancelled) {
      return done(failed_precondition(cat("job '", view->id, "' has ended: it is ", name_of(state),
                                          "; expected one that goes on")));
    }
    done(std::move(view));
  });
}

// The folder goes on the disk's thread, before what is posted there now.
void Master::remove(std::string id, std::string by, Done<JobView> done) {
  state_->remove(std::move(id), [this, by = std::move(by), done](Result<JobView> view) {
    if (view.ok()) {
      log_.info("job ", view->id, " is removed, asked by ", by.empty() ? "somebody" : by);
    }
    const bool posted = disk_->post([view, done] { done(view); });
    if (!posted) done(cancelled("the master is stopping"));
  });
}

// What is in the journal holds also for processes of that name that are not there yet.
void Master::drain(std::string worker, bool draining, std::string by, Done<NodeView> done) {
  const std::vector<NodeView> nodes = state_->nodes();
  const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const NodeView& node) {
    return node.worker.info.worker.name == worker;
  });
  if (draining && !known)
    return done(failed_precondition(cat("there is no worker '", worker, "'")));
  log_.info("worker '", worker, "' ", draining ? "is to drain" : "drains no more", ", asked by ",
            by.empty() ? "somebody" : by);
  const bool posted = journal_->post([this, worker, draining, done](Journal& journal) {
    const Status written = journal.append(WorkerDrained{worker, draining});
    if (!written.ok()) return done(written.while_doing(cat("draining worker '", worker, "'")));
    state_->drain(worker, draining, done);
  });
  if (!posted) done(cancelled("the master is stopping"));
}

void Master::watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
                   Done<JobView> done) {
  state_->watch(std::move(id), seen, deadline, std::move(done));
}

void Master::logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
                  Done<LogPage> done) {
  const auto view = state_->job(id);
  if (!view.ok()) return done(view.status());
  logs_->wait(view->id, from, deadline, std::move(done));
}

Result<std::vector<JobFile>> Master::files(const std::string& id) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, state_->job(id));
  std::vector<JobFile> files;
  list_files(cat(jobs_folder(), "/", view.id), "", files);
  std::sort(files.begin(), files.end(),
            [](const JobFile& a, const JobFile& b) { return a.name < b.name; });
  return files;
}

Result<std::string> Master::file_path(const std::string& id, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, state_->job(id));
  LEAT_ASSIGN_OR_RETURN(const auto files, this->files(view.id));
  std::vector<std::string> names;
  for (const JobFile& file : files) {
    if (file.name == name) return cat(jobs_folder(), "/", view.id, "/", name);
    names.push_back(file.name);
  }
  return invalid_argument(
      cat("job '", view.id, "' has no file '", name, "'", did_you_mean(name, names)));
}

// Views -------------------------------------------------------------------------------------------

void Master::set_http_address(const std::string& address) {
  const std::lock_guard lock(mutex_);
  http_address_ = address;
}

ClusterView Master::cluster() const {
  ClusterView view;
  view.name = config_.cluster;
  view.id = journal_->cluster_id();
  view.version = leat_version();
  view.generation = journal_->generation();
  view.membership = state_->membership_version();
  view.started_ms = started_ms_;
  view.now_ms = moment_of(clock_).wall_ms;
  view.rpc_address = address_;
  view.journal = journal_status();
  const std::lock_guard lock(mutex_);
  view.http_address = http_address_;
  return view;
}

std::vector<JobView> Master::jobs() const { return state_->jobs(); }
Result<JobView> Master::job(std::string_view id) const { return state_->job(id); }
std::vector<NodeView> Master::nodes() const { return state_->nodes(); }

Result<LogPage> Master::log(std::string_view id, uint64_t from, size_t most) const {
  LEAT_ASSIGN_OR_RETURN(const JobView view, state_->job(id));
  return logs_->page(view.id, from, most);
}

// Before anything was to be written, what opening it has shown.
Status Master::journal_status() const {
  const Status status = state_->journal_status();
  return status.ok() && !wrote_ ? cannot_write_ : status;
}

Status Master::ready() const {
  const Status journal = journal_status();
  return journal.ok() ? journal : Status(journal.code(), "the journal: " + journal.message());
}

std::vector<Metric> Master::metrics() const {
  const RpcServerCounts counts = server_->counts();
  const auto one = [](uint64_t value) {
    return std::vector<MetricSample>{{{}, static_cast<double>(value)}};
  };
  return {{"leat_rpc_connections", "Control connections that are open", MetricKind::gauge,
           one(counts.live)},
          {"leat_rpc_accepted_total", "Control connections that were let in", MetricKind::counter,
           one(counts.accepted)},
          {"leat_rpc_refused_total", "Control connections that were refused", MetricKind::counter,
           one(counts.refused + counts.over_rate + counts.no_descriptor)},
          {"leat_rpc_dropped_total", "Control connections ended for what the peer did",
           MetricKind::counter, one(counts.dropped)}};
}

std::string Master::jobs_folder() const { return config_.state_dir + "/jobs"; }
std::string Master::checks_folder() const { return config_.state_dir + "/checks"; }

std::string Master::dump() const {
  std::string text;
  for (const JobView& job : jobs()) {
    const JobCondition& now = job.condition;
    if (has_ended(now.state)) continue;
    text += cat("job ", job.id, ": ", name_of(now.state), ", step ", job.progress.last.step,
                now.reason.empty() ? "" : ", ", now.reason, "\n");
  }
  for (const NodeView& node : nodes()) {
    text += cat("worker ", node.worker.info.worker.name, ": ", name_of(node.worker.state),
                ", heard of ", node.worker.silent.count(), " ms ago",
                node.job.empty() ? "" : ", job ", node.job, "\n");
  }
  return text;
}

// What the table of jobs decides ------------------------------------------------------------------

void Master::write(WriteJournal action) {
  journal_->write(std::move(action), [this](JournalWritten written) {
    if (written.status.ok()) wrote_ = true;
    state_->handle(std::move(written));
  });
}

void Master::start_runners(StartRunners action) { workforce_->start_runners(std::move(action)); }

void Master::stop_runners(StopRunners action) { workforce_->stop_runners(std::move(action)); }

void Master::run_job(RunJob action) { runs_->run(std::move(action)); }

void Master::yield_run(YieldRun action) { runs_->yield(action); }

void Master::end_run(EndRun action) {
  runs_->end(action);
  workforce_->end_assembly(action.job, action.assembly, action.reason);
}

void Master::remove_job(RemoveJob action) {
  logs_->remove(action.id);
  (void)disk_->post([this, id = action.id] {
    if (!runs_->await_end(id, kEndOfRun)) log_.warning("job ", id, " goes on after its end");
    if (const Status status = clear(id); !status.ok()) {
      return log_.warning(status.message(), "; it is tried again when the master starts");
    }
    (void)journal_->post([id](Journal& journal) { (void)journal.append(JobCleared{id}); });
  });
}

Status Master::clear(const std::string& job) const {
  std::error_code error;
  std::filesystem::remove_all(cat(jobs_folder(), "/", job), error);
  if (!error) return {};
  return unavailable(cat("removing the folder of job ", job, ": ", error.message()));
}

// Those that a master forgot and did not come to clear before its end.
void Master::clear_forgotten(Journal& journal, const std::vector<StoredJob>& jobs) {
  const auto forgotten = journal.forgotten_jobs();
  if (!forgotten.ok()) return log_.warning(forgotten.status().message());
  for (const std::string& job : *forgotten) {
    const bool is_another = std::any_of(jobs.begin(), jobs.end(),
                                        [&](const StoredJob& each) { return each.id == job; });
    Status status = is_another ? Status() : clear(job);
    if (status.ok()) status = journal.append(JobCleared{job});
    if (!status.ok()) log_.warning(status.message());
  }
}

// Measures the files that it left, if bytes are limited.
void Master::weigh(const std::string& job) {
  if (config_.retention.max_bytes == 0) return;
  (void)disk_->post([this, job] {
    std::vector<JobFile> files;
    list_files(cat(jobs_folder(), "/", job), "", files);
    uint64_t bytes = 0;
    for (const JobFile& file : files) bytes += file.size;
    state_->handle(JobWeighed{job, bytes});
  });
}

// On the disk's thread.
void Master::sweep() {
  leftovers_->sweep(clock_.steady());
  if (clock_.steady() < collect_blobs_at_) return;
  collect_blobs_at_ = clock_.steady() + tuning_.blob_age / 6;
  (void)journal_->post([this](Journal& journal) {
    const Status collected = journal.collect_blobs(tuning_.blob_age);
    if (!collected.ok()) log_.warning("files that no job names stay: ", collected.message());
  });
}

void Master::worker_lost(const WorkerRef& worker, const std::string& reason) {
  workforce_->worker_lost(worker, reason);
}

void Master::members_changed(const std::vector<WorkerView>& workers) {
  hearts_->set_members(workers);
}

void Master::job_changed(const JobView& job) {
  const JobCondition& now = job.condition;
  std::string text(name_of(now.state));
  uint64_t& assembly = assemblies_[job.id];
  const bool assembled = std::exchange(assembly, now.assembly) != now.assembly &&
                         (now.state == JobState::starting || now.state == JobState::recovering);
  if (assembled) text += cat(", assembly ", now.assembly, " on ", join(now.workers, ", "));
  // Why it recovers was said when it began to.
  if (!now.reason.empty() && !assembled) text += ": " + now.reason;
  if (has_ended(now.state)) {
    assemblies_.erase(job.id);
    leftovers_->ended(job.id, clock_.steady());
  }
  log_.info("job ", job.id, ": ", text);
  logs_->add(job.id, "master", {text});
  sessions_->changed(job);
  // After what this change leads to, which may be that runners are stopped.
  if (has_ended(now.state)) state_->post([this, id = job.id] { workforce_->end_log(id); });
  if (has_ended(now.state)) weigh(job.id);
}

std::string Master::cpu_of(const RunJob& action) const {
  std::set<std::string> models;
  for (const WorkerRef& worker : action.workers) {
    const auto info = state_->member(worker);
    if (!info) continue;
    for (const WorkerDevice& device : info->devices) {
      if (device.kind == "cpu") models.insert(device.description);
    }
  }
  return join(std::vector<std::string>(models.begin(), models.end()), " and ");
}

Result<std::unique_ptr<HostGroup>> Master::make_hosts(const RunJob& action) {
  LEAT_ASSIGN_OR_RETURN(auto runners,
                        workforce_->runners(action.job, action.assembly, action.workers.size()));
  RemoteHostsOptions options;
  if (!from_hex(journal_->cluster_id(), options.cluster))
    return internal_error(cat("cluster id: expected 32 hexadecimal digits, the journal has '",
                              journal_->cluster_id(), "'"));
  options.assembly = action.assembly;
  return make_remote_hosts(*loop_, std::move(runners), std::move(options));
}

Status Master::arm(const RunJob& action, const std::vector<ArmedFault>& faults) {
  std::map<uint32_t, std::vector<ArmedFault>> by_task;
  for (const ArmedFault& each : faults) {
    // A task of an elastic job may be one that this assembly does not have.
    const bool is_here =
        each.fault.target != ChaosTarget::master && each.fault.task < action.workers.size();
    if (is_here) by_task[each.fault.task].push_back(each);
  }
  Status first;  // a runner that is gone keeps no other from being told
  for (const auto& [task, own] : by_task) {
    const auto runner = workforce_->runner(action.job, action.assembly, task);
    const Status told = runner.ok() ? (*runner)->arm(own, action.ran) : runner.status();
    if (first.ok()) first = told;
  }
  return first;
}

}  // namespace leat
