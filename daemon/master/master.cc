#include "daemon/master/master.h"

#include "daemon/audit/audit_log.h"
#include "daemon/master/assembly_hosts.h"
#include "daemon/master/audited_jobs.h"
#include "daemon/master/heart_server.h"
#include "daemon/master/job_curves.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/leftovers.h"
#include "daemon/master/local_peers.h"
#include "daemon/master/running_jobs.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/token_table.h"
#include "daemon/master/wire_client_service.h"
#include "daemon/master/wire_saved_files.h"
#include "daemon/master/wire_workforce.h"
#include "daemon/process/own_secret.h"
#include "daemon/process/state_folder.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/plugins.h"
#include "transport/rpc/server.h"

namespace leat {
namespace {

// The table of jobs draws its random numbers here, such as those in the ids of jobs.
uint64_t random_number() {
  const Nonce nonce = random_nonce();
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | nonce[i];
  return number;
}

// Returns the address for the port of the heartbeats: the same host, with a port that the kernel
// chooses.
std::string port_zero(const std::string& address) {
  return address.substr(0, address.rfind(':')) + ":0";
}

// A runner's key is good as long as its job runs, which its registration shows.
std::function<bool(const Grant&)> revoked_by(const TokenTable& tokens) {
  return [&tokens](const Grant& grant) {
    return grant.right != Right::runner && !tokens.is_good(grant);
  };
}

constexpr std::chrono::milliseconds kReadOfJournal{30'000};

std::string_view name_or_unknown(const std::string& by) {
  return by.empty() ? "an unnamed client" : std::string_view(by);
}

Result<std::unique_ptr<Journal>> open_journal(MasterParts& parts) {
  JournalLimits limits = parts.tuning.journal;
  limits.new_journal = parts.config.new_journal;
  LEAT_ASSIGN_OR_RETURN(auto journal, Journal::open(*parts.files, parts.config.state_dir, limits));
  // A journal that cannot be written does not stop the start: people can still look at their jobs.
  parts.cannot_write = journal->opened();
  if (!parts.cannot_write.ok()) {
    parts.log.error(
        "the journal cannot be written, so that no job is taken, begun or ended, while all "
        "that there is can be looked at and fetched: ",
        parts.cannot_write.message());
  }
  return journal;
}

}  // namespace

MasterParts::MasterParts(const MasterConfig& of, const MasterTuning& with, Logger to)
    : config(of),
      tuning(with),
      log(std::move(to)),
      catalogue(catalogue_with_gpus()),
      folders(of.state_dir + "/jobs") {}

MasterParts::~MasterParts() = default;

namespace {

// With certificates no secret has to be shared. The keys of runners and tokens still need one.
Status add_own_secret(MasterConfig& config) {
  SecurityConfig& security = config.security;
  if (!security.certificates || !security.secret.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(security.secret, open_or_make_secret(config.state_dir + "/secret"));
  security.secrets = std::make_shared<Secrets>(security.secret, security.previous_secret);
  return {};
}

// The files of jobs, with the keys of the configuration.
Status open_files(MasterParts& parts) {
  const std::string secrets[] = {parts.config.checkpoint_key, parts.config.previous_checkpoint_key};
  LEAT_ASSIGN_OR_RETURN(parts.checkpoint_keys, make_checkpoint_keys(secrets));
  parts.files = std::make_unique<SealedFiles>(real_files(), parts.checkpoint_keys,
                                              RunFolders::of_jobs(parts.folders.path()));
  if (parts.files->seals()) {
    parts.log.info("weights are encrypted with key ",
                   CheckpointKey::text_of(parts.checkpoint_keys->front().id()));
  }
  return {};
}

// A key that is there and cannot be used stops the start: a person has to look at it. A disk
// without room for a new one costs the signatures alone.
Status open_signing_key(MasterParts& parts) {
  auto key = SigningKey::open_or_make(parts.config.state_dir + "/checkpoints.key");
  if (key.ok()) {
    parts.key = *std::move(key);
    parts.log.info("checkpoints are signed by key ", parts.key->public_key());
    return {};
  }
  if (key.status().code() == Code::invalid_argument) return key.status();
  parts.log.error("checkpoints are not signed: ", key.status().message());
  return {};
}

// All that the master proves itself by, or encrypts with.
Status open_keys(MasterParts& parts) {
  LEAT_RETURN_IF_ERROR(add_own_secret(parts.config));
  LEAT_RETURN_IF_ERROR(open_files(parts));
  LEAT_RETURN_IF_ERROR(open_signing_key(parts));
  return open_local_access(parts);
}

}  // namespace

// Life --------------------------------------------------------------------------------------------

Master::Master(const MasterConfig& config, const MasterTuning& tuning, Logger log)
    : parts_(config, tuning, std::move(log)), status_(parts_), gate_(parts_), hands_(parts_) {}

Result<std::unique_ptr<Master>> Master::start(const MasterConfig& config,
                                              const MasterTuning& tuning, Logger log) {
  std::unique_ptr<Master> master(new Master(config, tuning, std::move(log)));
  LEAT_RETURN_IF_ERROR(master->open());
  LEAT_RETURN_IF_ERROR(master->listen());
  return master;
}

Master::~Master() { (void)stop(); }

Status Master::open() {
  // The folder is made private before anything in it is read or written.
  LEAT_ASSIGN_OR_RETURN(const std::string warning, take_state_folder(parts_.config.state_dir));
  if (!warning.empty()) parts_.log.warning(warning);
  LEAT_RETURN_IF_ERROR(open_keys(parts_));
  parts_.audit = AuditLog::open(real_files(), parts_.config.state_dir + "/audit", parts_.clock,
                                parts_.log.named("audit"), parts_.config.audit_to_log);
  LEAT_ASSIGN_OR_RETURN(parts_.tokens,
                        TokenTable::open(real_files(), parts_.config.state_dir + "/tokens",
                                         parts_.clock, random_number));
  parts_.audited = std::make_unique<AuditedJobs>(
      *this, *parts_.audit, *parts_.tokens,
      [security = parts_.config.security] { return security.current_secrets(); });
  LEAT_ASSIGN_OR_RETURN(auto journal, open_journal(parts_));
  // The jobs are read before the journal goes to its own thread, while no other thread uses it.
  LEAT_ASSIGN_OR_RETURN(const std::vector<StoredJob> jobs, journal->replay());
  LEAT_ASSIGN_OR_RETURN(const auto drained, journal->drained_workers());
  LEAT_ASSIGN_OR_RETURN(auto had, journal->workers_of_jobs());
  gate_.clear_checks();
  parts_.folders.clear_forgotten(*journal, jobs, parts_.log);
  parts_.journal = std::make_unique<JournalThread>(std::move(journal), parts_.clock);
  // Each part is made after those that it uses.
  parts_.uploads = std::make_shared<UploadAccount>(
      parts_.config.quotas, parts_.journal->blobs(),
      [this](const std::string& user) { return parts_.journal->files_of(user, kReadOfJournal); });
  parts_.curves = std::make_unique<JobCurves>(real_files(), parts_.folders);
  parts_.logs = std::make_unique<JobLogs>(parts_.folders.path(), parts_.tuning.log_bytes,
                                          parts_.clock, parts_.log.named("logs"));
  LEAT_ASSIGN_OR_RETURN(parts_.loop, RpcLoop::start(parts_.log, RpcLoop::kSpin));
  parts_.leftovers =
      std::make_unique<Leftovers>(real_files(), parts_.folders.path(), parts_.tuning.sweep_after,
                                  parts_.log.named("leftovers"));
  parts_.disk = std::make_unique<TaskThread>("disk", parts_.tuning.sweep, [this] { sweep(); });
  open_state();
  LEAT_RETURN_IF_ERROR(open_workforce(std::move(had)));
  open_runs();
  parts_.failures = std::make_unique<TaskThread>("failures");
  // The hands know the jobs before the table begins to act on them.
  hands_.restore(jobs);
  parts_.state->start(jobs, {drained.begin(), drained.end()}, parts_.journal->generation());
  for (const StoredJob& job : jobs) {
    // The table learns the sizes of ended jobs as events, so that it can keep within their limit.
    if (has_ended(job.condition.state)) hands_.weigh(job.id);
  }
  parts_.audit->add({"start", parts_.journal->cluster_id(), "the master"});
  parts_.log.info("journal of cluster ", parts_.journal->cluster_id(), ", start ",
                  parts_.journal->generation(), ": ", counted(jobs.size(), "job"));
  return {};
}

void Master::open_state() {
  // Ids of folders that exist are taken, although the journal may not know their jobs: a new job
  // must never get the folder of another.
  ClusterStateOptions options = parts_.tuning.cluster;
  options.members.max_workers = static_cast<size_t>(parts_.config.max_workers);
  options.jobs.grow_after = parts_.config.grow_after;
  options.jobs.taken_ids = parts_.folders.ids();
  options.jobs.retention = parts_.config.retention;
  options.jobs.quotas = parts_.config.quotas;
  parts_.state = std::make_unique<ClusterState>(options, random_number, parts_.clock, hands_);
}

Status Master::open_workforce(std::vector<std::pair<std::string, std::string>> had) {
  const auto& security = parts_.config.security;
  LEAT_ASSIGN_OR_RETURN(
      parts_.hearts,
      HeartServer::open(*parts_.state,
                        {.address = port_zero(parts_.config.listen),
                         .identity = identity_of(parts_),
                         .is_revoked = revoked_by(*parts_.tokens),
                         .judge_user = judge_on_loopback(parts_),
                         .on_refused = [audit = parts_.audit.get()](
                                           const std::string& address,
                                           const Status& why) { audit->add_refused(address, why); },
                         .insecure_allow_network_without_authentication =
                             security.insecure_allow_network_without_authentication,
                         .connections = 2 * static_cast<size_t>(parts_.config.max_workers) + 16,
                         .log = parts_.log.named("heart")}));
  WorkforceOptions options;
  options.cluster_id = parts_.journal->cluster_id();
  options.generation = parts_.journal->generation();
  options.heart_address = parts_.hearts->address();
  options.had = std::move(had);
  options.limits = parts_.config.worker_limits;
  options.secret = [security = parts_.config.security, own = parts_.own_secret] {
    const std::string secret = security.current_secret();
    return secret.empty() ? own : secret;
  };
  options.heartbeat = parts_.tuning.cluster.members.heartbeat;
  options.exit_deadline = parts_.tuning.runner_exit;
  options.shared_threads = static_cast<uint32_t>(parts_.config.shared_threads);
  options.chaos = parts_.config.chaos;
  options.on_registered = [this](const std::string& worker, const std::string& from,
                                 const Status& outcome) {
    if (outcome.ok()) return parts_.audit->add({"register worker", worker, from});
    // A stranger may try any number of times.
    parts_.audit->add_refused(cat("worker '", worker, "' at ", from), outcome);
  };
  options.on_refused_lines = [this](const std::string& worker, const std::string& from,
                                    const Status& why) {
    parts_.audit->add_refused_lines(cat("worker '", worker, "' at ", from), why);
  };
  options.log = parts_.log.named("workers");
  parts_.saved = std::make_unique<SavedFilesOfJobs>(*parts_.loop, *parts_.files, parts_.folders);
  parts_.workforce = std::make_unique<Workforce>(*parts_.loop, *parts_.state, *parts_.logs,
                                                 *parts_.saved, std::move(options));
  return {};
}

void Master::open_runs() {
  // The functions below are called on the threads of jobs and on the loop, so each change of the
  // table goes through its queue.
  ClusterState& state = *parts_.state;
  parts_.sessions = std::make_unique<SessionHosts>(SessionHostsParts{
      *parts_.loop, parts_.catalogue,
      [this, &state](Submission submission, Done<JobView> done) {
        parts_.audited->open_session(std::move(submission), std::move(done),
                                     [&state](Submission audited, Done<JobView> then) {
                                       state.submit(std::move(audited), std::move(then));
                                     });
      },
      [&state](std::string id, std::string by) {
        state.cancel(std::move(id), std::move(by), [](const Result<JobView>&) {});
      },
      [&state](const std::string& id) {
        const auto view = state.tables().job(id);
        return view.ok() && view->condition.state == JobState::running;
      },
      [&state](const std::string& id) { return state.tables().job(id); }, parts_.folders.path(),
      parts_.checkpoint_keys, parts_.tuning.session_lease});
  parts_.runs = std::make_unique<RunningJobs>(RunningJobsParts{
      *parts_.files,
      parts_.catalogue,
      *parts_.journal,
      *parts_.logs,
      *parts_.sessions,
      parts_.clock,
      parts_.folders.path(),
      parts_.config.checkpoint_copies,
      parts_.key,
      parts_.checkpoint_keys,
      [this](const RunJob& action) { return make_assembly_hosts(parts_, action); },
      [this](const RunJob& action) { return noter_of(parts_, action); },
      [this](const RunJob& action) { return processors_of(parts_, action); },
      [&state](const std::string& id) { return state.tables().job(id); },
      [this](const std::string& job) { return parts_.saved->forget(job); },
      [&state](JobEvent event) { state.handle(std::move(event)); },
      [this](const RunJob& action, const auto& faults) {
        return arm_faults(parts_, action, faults);
      },
      [&state](FaultAsked fault, auto done) { state.fault_due(std::move(fault), std::move(done)); },
      [this](const std::string& worker, const std::string& by, auto done) {
        parts_.audited->drain(worker, true, by,
                              [done](const Result<NodeView>& drained) { done(drained.status()); });
      },
      parts_.log.named("jobs")});
}

Status Master::listen() {
  ClientLimits limits;
  limits.own_jobs_alone = parts_.config.jobs_visible == JobsVisible::own;
  LEAT_ASSIGN_OR_RETURN(parts_.clients,
                        ClientService::start(*parts_.loop, *parts_.audited, status_, *parts_.files,
                                             limits, parts_.sessions.get()));
  RpcServerOptions options;
  options.address = parts_.config.listen;
  options.identity = identity_of(parts_);
  options.insecure_allow_network_without_authentication =
      parts_.config.security.insecure_allow_network_without_authentication;
  options.judge_user = judge_on_loopback(parts_);
  options.is_revoked = revoked_by(*parts_.tokens);
  options.on_refused = [this](const std::string& address, const Status& why) {
    parts_.audit->add_refused(address, why);
  };
  options.log = parts_.log.named("rpc");
  LEAT_ASSIGN_OR_RETURN(
      parts_.server,
      RpcServer::listen(*parts_.loop, std::move(options),
                        [this](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
                          // The role of the hello decides which interface the peer gets. No master
                          // serves another master.
                          switch (peer.role) {
                            case RpcRole::client:
                              return capnp::Capability::Client(parts_.clients->serve(peer));
                            case RpcRole::worker:
                            case RpcRole::runner:
                              return capnp::Capability::Client(
                                  make_registry(parts_.workforce->inside(), peer));
                            default:
                              return nullptr;
                          }
                        }));
  address_ = parts_.server->address();
  status_.set_rpc_address(address_);
  // From now on the workforce can end the connections of workers that it has lost.
  parts_.workforce->use(parts_.server.get());
  LEAT_ASSIGN_OR_RETURN(parts_.local_server, listen_locally(parts_));
  return {};
}

Status Master::stop() {
  if (std::exchange(stopped_, true)) return stop_status_;
  // The stop goes against the flow of work: first the parts that make new events, then the table,
  // then the runs and their runners, and the journal last. A failed start may have made only some
  // parts.
  if (parts_.disk != nullptr) parts_.disk->stop();
  if (parts_.state != nullptr) {
    parts_.state->settle(parts_.tuning.settle);
    parts_.state->stop();  // open requests are answered with `cancelled`
  }
  if (parts_.sessions != nullptr) parts_.sessions->stop(unavailable("the master is stopping"));
  // Jobs that the next master goes on with leave a checkpoint, while their runners are there.
  if (parts_.runs != nullptr) (void)parts_.runs->stop(parts_.tuning.farewell);
  if (parts_.logs != nullptr) parts_.logs->stop();
  // A run that did not end by itself waits for a runner; without its runners it ends.
  if (parts_.workforce != nullptr) parts_.workforce->end_all("the master is stopping");
  looks_.stop();
  if (parts_.runs != nullptr && !parts_.runs->stop(parts_.tuning.end)) {
    stop_status_ = deadline_exceeded(cat("the runs of these jobs did not end within ",
                                         parts_.tuning.end.count(),
                                         " ms: ", join(parts_.runs->running(), ", ")));
  }
  hands_.stop();  // so that no post-mortem waits for a run that does not end
  if (parts_.failures != nullptr) parts_.failures->stop();
  // Its last answers go to the loops of the servers.
  if (parts_.users != nullptr) parts_.users->stop();
  // The server goes before the services that its connections use.
  parts_.local_server.reset();
  parts_.server.reset();
  parts_.clients.reset();
  parts_.hearts.reset();
  if (parts_.journal != nullptr) parts_.journal->stop();
  if (parts_.audit != nullptr) {
    parts_.audit->add({"stop", "", "the master", stop_status_});
    parts_.audit->stop();
  }
  return stop_status_;
}

void Master::beat_rpc(std::function<void()> beat) { (void)parts_.loop->post(std::move(beat)); }
void Master::beat_hearts(std::function<void()> beat) {
  (void)parts_.hearts->loop().post(std::move(beat));
}
void Master::beat_jobs(std::function<void()> beat) { parts_.state->post(std::move(beat)); }
void Master::beat_journal(std::function<void()> beat) {
  (void)parts_.journal->post([beat = std::move(beat)](Journal&) { beat(); });
}

// On the disk's thread.
void Master::sweep() {
  parts_.leftovers->sweep(parts_.clock.steady());
  if (parts_.clock.steady() < collect_blobs_at_) return;
  // A blob that no job names therefore stays for about a sixth of its time too long at most.
  collect_blobs_at_ = parts_.clock.steady() + parts_.tuning.blob_age / 6;
  (void)parts_.journal->post([this](Journal& journal) {
    const Status collected = journal.collect_blobs(parts_.tuning.blob_age);
    if (!collected.ok()) parts_.log.warning("files that no job names stay: ", collected.message());
  });
}

// Requests ----------------------------------------------------------------------------------------

void Master::submit(Submission submission, Done<JobView> done) {
  gate_.submit(std::move(submission), std::move(done));
}

void Master::resume(std::string job, Submission submission, Done<JobView> done) {
  gate_.resume(std::move(job), std::move(submission), std::move(done));
}

Result<std::unique_ptr<ArrivingBlob>> Master::begin_blob(const BlobUpload& upload) {
  // The bytes are reserved before the first one is written, and until the upload is over.
  LEAT_ASSIGN_OR_RETURN(std::shared_ptr<void> reserved, parts_.uploads->reserve(upload));
  LEAT_ASSIGN_OR_RETURN(auto blob, parts_.journal->blobs().begin(upload.sha256, upload.size));
  blob->keep(std::move(reserved));
  return blob;
}

void Master::cancel(std::string id, std::string by, Done<JobView> done) {
  parts_.state->cancel(
      std::move(id), std::move(by), [done = std::move(done)](Result<JobView> view) {
        // A job that is CANCELLED already is no error, so that a repeated call gets the same
        // answer.
        const JobState state = view.ok() ? view->condition.state : JobState::cancelled;
        if (has_ended(state) && state != JobState::cancelled) {
          return done(failed_precondition(cat("job '", view->id, "' has ended: it is ",
                                              name_of(state), "; expected one that goes on")));
        }
        done(std::move(view));
      });
}

// Only the journal knows whether an old job is a session, so the question takes the disk's thread.
void Master::pause(std::string id, bool undo, std::string by, Done<JobView> done) {
  const auto view = parts_.state->tables().job(id);
  if (!view.ok()) return done(view.status());
  const bool posted = parts_.disk->post([this, id = view->id, undo, by, done] {
    const auto submission = parts_.journal->submission(id, kReadOfJournal);
    if (!submission.ok()) return done(submission.status());
    if (is_session(*submission)) {
      return done(failed_precondition(
          cat("job '", id, "' is a session, whose variables are in no checkpoint: expected a job ",
              "that trains")));
    }
    parts_.state->pause(id, undo, by, [done](Result<JobView> view) {
      // It may have ended before the request came to the journal.
      if (view.ok() && has_ended(view->condition.state)) {
        return done(failed_precondition(cat("job '", view->id, "' has ended: it is ",
                                            name_of(view->condition.state),
                                            "; expected one that goes on")));
      }
      done(std::move(view));
    });
  });
  if (!posted) done(cancelled("the master is stopping"));
}

// No change of the table: the answer is the job as it is, and its progress has the checkpoint
// later.
void Master::save(std::string id, std::string by, Done<JobView> done) {
  auto view = parts_.state->tables().job(id);
  if (!view.ok()) return done(view.status());
  if (!parts_.runs->save(view->id)) {
    return done(failed_precondition(cat("job '", view->id, "' is ", name_of(view->condition.state),
                                        "; expected one that trains")));
  }
  parts_.logs->add(view->id, "master",
                   {cat("is to save a checkpoint, asked by ", name_or_unknown(by))});
  done(std::move(view));
}

void Master::why(std::string id, Done<Diagnosis> done) {
  looks_.why(std::move(id), std::move(done));
}

void Master::record(std::string id, uint64_t steps, std::chrono::steady_clock::time_point deadline,
                    Done<std::vector<std::byte>> done) {
  looks_.record(std::move(id), steps, deadline, std::move(done));
}

// The table posted the removal of the folder to the disk's thread, so that the answer, which is
// posted there after it, comes when the folder is gone.
void Master::remove(std::string id, std::string by, Done<JobView> done) {
  parts_.state->remove(std::move(id), [this, by = std::move(by), done](Result<JobView> view) {
    if (view.ok()) {
      parts_.log.info("job ", view->id, " is removed, asked by ", name_or_unknown(by));
    }
    const bool posted = parts_.disk->post([view, done] { done(view); });
    if (!posted) done(cancelled("the master is stopping"));
  });
}

// The journal keeps it by the worker's name: it also holds for processes of that name to come.
void Master::drain(std::string worker, bool draining, std::string by, Done<NodeView> done) {
  // Only a drain needs a known worker. Its undo may name a worker that is gone for good.
  const std::vector<NodeView> nodes = parts_.state->tables().nodes();
  const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const NodeView& node) {
    return node.worker.info.worker.name == worker;
  });
  if (draining && !known)
    return done(failed_precondition(cat("there is no worker '", worker, "'")));
  parts_.log.info("worker '", worker, "' ", draining ? "is to drain" : "drains no more",
                  ", asked by ", name_or_unknown(by));
  // The journal has the drain before the table acts on it, so a master that crashes between them
  // drains the worker at its next start.
  const bool posted = parts_.journal->post([this, worker, draining, done](Journal& journal) {
    const Status written = journal.append(WorkerDrained{worker, draining});
    if (!written.ok()) return done(written.while_doing(cat("draining worker '", worker, "'")));
    parts_.state->drain(worker, draining, done);
  });
  if (!posted) done(cancelled("the master is stopping"));
}

void Master::watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
                   Done<JobView> done) {
  parts_.state->watch(std::move(id), seen, deadline, std::move(done));
}

void Master::logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
                  Done<LogPage> done) {
  const auto view = parts_.state->tables().job(id);
  if (!view.ok()) return done(view.status());
  parts_.logs->wait(view->id, from, deadline, std::move(done));
}

Result<std::vector<JobFile>> Master::files(const std::string& id) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, parts_.state->tables().job(id));
  return parts_.folders.fetched_files(view.id, *parts_.files);
}

Result<std::string> Master::file_path(const std::string& id, const std::string& name,
                                      const std::string& /*by*/) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, parts_.state->tables().job(id));
  return parts_.folders.file_path(view.id, name);
}

}  // namespace leat
