// The parts of a master, in the order in which Master makes them; they end in the reverse order.
//
//   people ── ClientService ─┐                        ┌── JournalThread   "journal"
//                            ├── ClusterState "jobs" ─┼── RunningJobs     "job ID", one each
//   workers ─┬─ Workforce ───┘                        └── Workforce       "rpc"
//            └─ HeartServer    "rpc", of its own
//
// The quoted words are names of threads. No part waits for another one: a part that has work for
// another puts it into the other's queue.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "daemon/checkpoint/sealed_files.h"
#include "daemon/checkpoint/signing_key.h"
#include "daemon/jobs/journal.h"
#include "daemon/master/cluster_state.h"
#include "daemon/master/job_folders.h"
#include "daemon/master/post_mortem.h"
#include "daemon/process/daemon_config.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "ops/graph/op.h"
#include "transport/rpc/loop.h"

namespace leat {

class AuditLog;
class AuditedJobs;
class ClientService;
class HeartServer;
class JobLogs;
class JobCurves;
class JournalThread;
class Leftovers;
class LocalAccess;
class RpcServer;
class RunningJobs;
class SavedFilesOfJobs;
class SessionHosts;
class TokenTable;
class UploadAccount;
class UserJudge;
class Workforce;

// Limits and deadlines of a master that no configuration sets.
struct MasterTuning {
  ClusterStateOptions cluster;
  JournalLimits journal;
  uint64_t log_bytes = 64u << 20;  // of a job's log
  size_t checks = 64;              // submits that may wait for their check
  // How long a worker has to report how a runner ended whose connection is lost.
  std::chrono::milliseconds runner_exit{2'000};
  // The times of a stop: for the answers to requests, then for the last checkpoints of jobs, then
  // for the end of their threads.
  std::chrono::milliseconds settle{1'000}, farewell{3'000}, end{10'000};
  std::chrono::milliseconds session_lease{30'000};
  // How often leftovers of crashes and of clients are removed, and how long after a job's end its
  // runners may still write.
  std::chrono::milliseconds sweep{10'000}, sweep_after{10'000};
  // How long a blob is kept that no job names: the submit that names it may be in flight.
  std::chrono::seconds blob_age{3'600};
};

struct MasterParts {
  MasterParts(const MasterConfig& config, const MasterTuning& tuning, Logger log);
  ~MasterParts();

  MasterConfig config;  // Master::open() adds the master's own secret
  const MasterTuning tuning;
  const Logger log;
  const RealClock clock;
  const Catalogue catalogue;
  const JobFolders folders;
  PostMortems post_mortems;

  // The keys of weights on the disk; without any they are in the clear.
  std::shared_ptr<const CheckpointKeys> checkpoint_keys;
  // Reads and writes the folders of jobs and of uploads, with these keys.
  std::unique_ptr<SealedFiles> files;
  // By the users of this machine: what a peer without a key may do.
  std::unique_ptr<const LocalAccess> local;
  std::unique_ptr<UserJudge> users;  // asks `local`; stopped before the loops end
  // Of a master without a secret: the keys of its runners are made from it. Empty: none.
  std::string own_secret;

  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<TokenTable> tokens;
  std::unique_ptr<AuditedJobs> audited;
  std::unique_ptr<JournalThread> journal;
  std::shared_ptr<UploadAccount> uploads;
  std::shared_ptr<const SigningKey> key;  // signs checkpoints; null: none could be made
  Status cannot_write;                    // the journal's failure when it was opened, if any
  std::atomic<bool> wrote{false};         // the journal has been written since then
  std::unique_ptr<JobLogs> logs;
  std::unique_ptr<JobCurves> curves;
  std::unique_ptr<SessionHosts> sessions;   // before the loop, on which calls use it
  std::unique_ptr<SavedFilesOfJobs> saved;  // the same
  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<Leftovers> leftovers;
  std::unique_ptr<TaskThread> disk;  // checks submits, removes folders and leftovers
  std::unique_ptr<ClusterState> state;
  std::unique_ptr<HeartServer> hearts;
  std::unique_ptr<Workforce> workforce;
  std::unique_ptr<RunningJobs> runs;
  std::unique_ptr<TaskThread> failures;  // writes post-mortems
  std::unique_ptr<ClientService> clients;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<RpcServer> local_server;  // on the Unix socket; null: none
};

}  // namespace leat
