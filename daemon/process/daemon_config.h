// The settings of the daemons, as plain structs. config_reader.h fills them from a config file, the
// environment and flags, and checks them. The initializers are the defaults; docs/daemons.md has
// the same defaults in a table.
//
// Addresses are "host:port". An address that a daemon listens at is a literal address or localhost;
// with port 0 the daemon takes a free port. Paths are absolute once they are read.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/quotas.h"
#include "daemon/jobs/retention.h"
#include "daemon/jobs/worker_limits.h"
#include "daemon/process/certificate_files.h"
#include "devices/base/log.h"
#include "transport/rpc/secrets.h"
#include "transport/seal/seal.h"

namespace leat {

// A name in the set of a worker's data sets which stands for every absolute path.
inline constexpr std::string_view kAnyPath = "/";

enum class LogFormat : uint8_t { text, json };

// The settings of a daemon's log.
struct LogConfig {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;  // json: one object on each line
  std::string file;                    // empty: stderr. SIGHUP makes the daemon open it again
};

// The secrets and certificates by which members and users of a cluster authenticate themselves. A
// daemon without either binds and trusts only loopback.
struct SecurityConfig {
  // Key `secret_file`: the secret that all daemons of the cluster share, 32 to 4096 bytes; a
  // newline at the end of the file does not count.
  std::string secret_file;
  std::string secret;  // the file's content, not a key; empty: none. Never printed or logged
  // Key `previous_secret_file`: the secret before, while it is replaced; peers that still prove it
  // are let in. Only a master uses it.
  std::string previous_secret_file;
  std::string previous_secret;  // not a key
  // Not a key: both secrets, as reload_secrets() has read them last; null: `secret` stays.
  std::shared_ptr<Secrets> secrets;
  // Keys `certificate_file`, `certificate_key_file`, `authority_file` and `revoked_file`: the
  // certificate by which this daemon proves itself, and the authorities whose certificates it
  // accepts. A worker then needs no secret; a master makes itself one for keys and tokens.
  CertificatePaths certificate;
  // Not a key: the files as they were read last; null: none.
  std::shared_ptr<CertificateFiles> certificates;
  // Key `http_token_file`: the token that a request to the HTTP port must carry ("Authorization:
  // Bearer ..."), also 32 to 4096 bytes. Without this key HTTP needs no authentication.
  std::string http_token_file;
  std::string http_token;  // the file's content, not a key; empty: none. Never printed or logged
  // Keys `http_certificate_file` and `http_key_file`: the certificate of the HTTP port with its
  // chain, and its key, both PEM. Without them HTTP is in the clear.
  std::string http_certificate_file;
  std::string http_key_file;
  // Key of the same name: HTTP may be in the clear beyond loopback, for instance behind a proxy.
  bool insecure_http_plaintext = false;
  // Key of the same name: the daemon listens and dials beyond loopback without a secret, and logs
  // it.
  bool insecure_allow_network_without_authentication = false;
  // Key of the same name: connections beyond loopback have no TLS, for a network that encrypts by
  // itself. All daemons and users of the cluster have to set it.
  bool insecure_plaintext = false;
  // Key of the same name: connections over loopback have TLS, too.
  bool seal_loopback = false;

  // Peers can prove themselves to this daemon.
  bool authenticates() const { return !secret_file.empty() || !certificate.certificate.empty(); }
  // The certificates for the identity of this daemon; null: none.
  std::shared_ptr<const CurrentCertificates> current_certificates() const {
    return certificates ? certificates->current() : nullptr;
  }
  // The secret of the moment; empty: none.
  std::string current_secret() const { return current_secrets().first; }
  // The same with the one before, which is accepted, too; empty: none.
  std::pair<std::string, std::string> current_secrets() const {
    return secrets ? secrets->both() : std::pair(secret, previous_secret);
  }
  // The connections that get TLS, if there is a secret.
  Seal seal() const {
    if (insecure_plaintext) return Seal::never;
    return seal_loopback ? Seal::always : Seal::beyond_loopback;
  }
};

// The role of a user of the master's machine that proves no key.
enum class LocalRole : uint8_t { none, viewer, submitter, operate, admin, worker };
// By a user's name, "uid:NUMBER", "group:NAME", or "*" for all others.
using LocalUsers = std::map<std::string, LocalRole>;

// The jobs that viewers and submitters see.
enum class JobsVisible : uint8_t { all, own };

// The settings of `leatd master`.
struct MasterConfig {
  // Daemons with different names of the cluster refuse each other. At most 32 bytes.
  std::string cluster = "leat";
  std::string listen = "127.0.0.1:17461";  // the control plane: workers and clients
  std::string http = "127.0.0.1:17460";    // status page, API, /healthz, /metrics; "off": none
  // The folder of the journal and of all else that must survive the process. Default:
  // $STATE_DIRECTORY, which systemd sets; otherwise /var/lib/leat/master for root, and leat/master
  // below $XDG_STATE_HOME or ~/.local/state for other users. The daemon creates it if it does not
  // exist.
  std::string state_dir;
  // The path of a Unix socket, on which the kernel tells the user of each client; "off" or "":
  // none. Default: master.sock in $RUNTIME_DIRECTORY, which systemd sets, otherwise in the state
  // folder.
  std::string local_socket;
  bool local_socket_given = false;  // not a key: the path is of the user's choice
  // The roles of users of this machine on that socket and, on a master without a secret, over
  // loopback. The master's own user and root may do everything.
  LocalUsers local_users;
  JobsVisible jobs_visible = JobsVisible::all;
  // The folder of each job is also copied to <checkpoint_copies>/<id>, beside its steps: a path, or
  // "s3://bucket/prefix". Empty: no copies.
  std::string checkpoint_copies;
  // Keys `checkpoint_key_file` and `previous_checkpoint_key_file`: what encrypts the weights in the
  // folders of jobs, and the records of lasting sessions, and what decrypts those from before;
  // files as secret_file.
  std::string checkpoint_key_file;
  std::string
      checkpoint_key;  // the file's content, not a key; empty: none. Never printed or logged
  std::string previous_checkpoint_key_file;
  std::string previous_checkpoint_key;  // the same
  SecurityConfig security;              // its keys are at the top level
  // The token of requests over HTTP that submit or cancel jobs, as Bearer alone; a file as
  // http_token_file. Without this key HTTP only reads.
  std::string http_write_token_file;
  std::string http_write_token;  // the file's content, not a key. Never printed or logged
  int64_t max_workers = 256;     // the master refuses further workers
  // An elastic job runs at least this long before the master holds it at a fence to add workers.
  std::chrono::milliseconds grow_after{3'000};
  // The master deletes its record of jobs that have ended, and their files, beyond max_age,
  // max_jobs and max_bytes.
  Retention retention;
  Quotas quotas;
  WorkerLimits worker_limits;  // the master refuses a worker that claims to have more
  bool audit_to_log = false;   // each entry of the audit log is a line of the master's log, too
  bool chaos = false;          // jobs may cause faults in themselves, their workers and this master
  // Start a new journal although there are folders of jobs that no journal lists. Nothing continues
  // these jobs.
  bool new_journal = false;
  // Not a key: the runners of each job divide these threads between them, if its workers are on one
  // machine. 0: each runner has the threads of its worker.
  int64_t shared_threads = 0;
  LogConfig log;
};

// How a worker confines its runners: see daemon/confine/confinement.h.
enum class Confine : uint8_t {
  automatic,     // like required beyond loopback, else like best_effort
  required,      // the worker does not start without the mandatory layers
  best_effort,   // all layers that can be had
  insecure_off,  // none
};

// The numbers of the users that runners get.
struct RunnerUserRange {
  int64_t first = 0;  // 0: 70000, or 60600 if the user namespace ends before, with 512 numbers
  int64_t count = 1000;
};

// Limits of each runner that a worker starts, and of their number.
struct RunnerLimits {
  int64_t max_runners = 16;  // at a time: the jobs that this worker takes part in
  // The time from exec until the runner reports that it has started, and the time from the request
  // to stop until the worker kills it.
  std::chrono::milliseconds start_deadline{30'000};
  std::chrono::milliseconds stop_deadline{10'000};
  int64_t open_files = 4096;  // RLIMIT_NOFILE
  bool core_dumps = false;    // RLIMIT_CORE
  Confine confine = Confine::automatic;
  RunnerUserRange users;
};

// The ways in which values reach a peer. A worker tries them in the order in which it lists them.
enum class WorkerTransport : uint8_t { local, shm, tcp };
// The order is that of the words in the configuration.
enum class GpuWires : uint8_t { none, ipc, insecure_nccl, insecure_all };

// The settings of `leatd worker`.
struct WorkerConfig {
  std::string cluster = "leat";
  std::string name;                        // unique in its cluster; default: the host's name
  std::string master = "127.0.0.1:17461";  // the worker dials it: a host name is allowed
  std::string http = "127.0.0.1:17462";    // the worker's own /healthz and /metrics; "off": none
  std::string data = "127.0.0.1:17463";    // the runners of peers push values to it
  // The address that peers dial to reach `data`: host:port, or a host alone, which gets the port
  // that `data` was bound to. Empty: the address that `data` was bound to.
  std::string data_address;
  int64_t threads = 0;        // of compute, for all jobs; 0: every core that this process may use
  uint64_t memory_limit = 0;  // bytes that all jobs may use together; 0: no limit
  // Offer the GPUs of the machine. A GPU makes a place for a runner, and this process registers as
  // a worker for each place: NAME alone, or NAME.0, NAME.1, ... if there are several.
  bool gpus = true;
  int64_t runners_per_gpu = 1;  // places for each GPU, whose memory their runners share
  // The wires by which its GPUs send values to those of other workers that allow them, too.
  // NCCL neither encrypts nor authenticates.
  GpuWires gpu_wires = GpuWires::none;
  // The folders and files that jobs may read by name: name -> absolute path. Jobs can read no
  // others.
  std::map<std::string, std::string> datasets;
  // Jobs may also name any absolute path, and read what this process may read: only on loopback.
  bool local_paths = false;
  std::string state_dir;    // like the master's, with worker in place of master
  SecurityConfig security;  // its keys are at the top level
  std::vector<WorkerTransport> transports = {WorkerTransport::local, WorkerTransport::shm,
                                             WorkerTransport::tcp};
  RunnerLimits runner;
  // How long runners without a master continue, until it has started again and takes them over.
  std::chrono::milliseconds adopt_within{60'000};
  // How long the worker tries to join while another worker has its name; then it ends.
  std::chrono::milliseconds name_patience{30'000};
  LogConfig log;
};

// The settings of `leatd dev`: a master and its workers in one process, over loopback. Their state
// is in a temporary folder, which is deleted at the end.
struct DevConfig {
  int64_t workers = 0;                          // 0: the number that the jobs need, at least one
  int64_t threads = 0;                          // of each worker; 0: the workers divide the cores
                                                // equally
  std::string listen = "127.0.0.1:17461";       // only loopback, like `http`
  std::string http = "127.0.0.1:17460";         // "off": none
  std::map<std::string, std::string> datasets;  // name -> absolute path
  LogConfig log;
};

}  // namespace leat
