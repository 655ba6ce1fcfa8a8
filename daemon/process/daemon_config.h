// What the daemons may be told, as plain structs: what a config file, the environment and flags
// come to once config_reader.h has merged and checked them. The initializers are the defaults;
// docs/daemons.md has the same as a table.
//
// Addresses are "host:port". What a daemon listens at is a literal address or localhost, and port 0
// takes a free one. Paths are absolute once they are read.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/retention.h"
#include "devices/base/log.h"

namespace leat {

// Among the names of a worker's data sets: any absolute path is one.
inline constexpr std::string_view kAnyPath = "/";

enum class LogFormat : uint8_t { text, json };

struct LogConfig {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;  // json: one object a line
  std::string file;                    // empty: stderr. Opened again upon SIGHUP
};

// What members of a cluster and its users prove themselves with. Without it a daemon binds and
// trusts loopback alone.
struct SecurityConfig {
  // Key `secret_file`: what every daemon of the cluster knows, 32 to 4096 bytes; a newline at the
  // end of the file does not count.
  std::string secret_file;
  std::string secret;  // what stands in it, not a key; empty: none. Never printed or logged
  // Key `http_token_file`: what a request to the HTTP port must bear ("Authorization: Bearer ..."),
  // 32 to 4096 bytes, too. Without one HTTP asks for nothing.
  std::string http_token_file;
  std::string http_token;  // what stands in it, not a key; empty: none. Never printed or logged
  // Key of the same name: listen and dial beyond loopback with no secret, and log that.
  bool insecure_allow_network_without_authentication = false;
};

struct MasterConfig {
  // Only daemons that say the same name belong together. At most 32 bytes.
  std::string cluster = "leat";
  std::string listen = "127.0.0.1:17461";  // the control plane: workers and clients
  std::string http = "127.0.0.1:17460";    // status page, API, /healthz, /metrics; "off": none
  // The journal and what else must survive the process. Default: $STATE_DIRECTORY (systemd's);
  // for root /var/lib/leat/master; for others $XDG_STATE_HOME or ~/.local/state, leat/master.
  // It need not exist.
  std::string state_dir;
  SecurityConfig security;    // its keys stand at the top level
  int64_t max_workers = 256;  // one more is turned away
  // An elastic job steps on so long before it is held at a fence to take in workers.
  std::chrono::milliseconds grow_after{3'000};
  // Jobs that have ended are forgotten, with what they left, beyond max_age, max_jobs and
  // max_bytes.
  Retention retention;
  bool chaos = false;  // jobs may bring faults upon themselves, their workers and this master
  // Begin a journal though there are folders of jobs without one, which nobody goes on with then.
  bool new_journal = false;
  // Not a key: the runners of each job share these threads out, if its workers are on one machine.
  // 0: each has its worker's own.
  int64_t shared_threads = 0;
  bool same_user = false;  // not a key, either: nobody else is let in
  LogConfig log;
};

// Of each runner that a worker starts, and of all of them.
struct RunnerLimits {
  int64_t max_runners = 16;  // at a time: jobs that this worker takes part in
  // From exec until the runner says that it is there; and from the request to stop until it is
  // killed.
  std::chrono::milliseconds start_deadline{30'000};
  std::chrono::milliseconds stop_deadline{10'000};
  int64_t open_files = 4096;  // RLIMIT_NOFILE
  bool core_dumps = false;    // RLIMIT_CORE
};

// The ways in which values reach a peer, in the order in which they are tried.
enum class WorkerTransport : uint8_t { local, shm, tcp };

struct WorkerConfig {
  std::string cluster = "leat";
  std::string name;                        // unique in its cluster; default: the host's name
  std::string master = "127.0.0.1:17461";  // dialled: a host name is allowed
  std::string http = "127.0.0.1:17462";    // its own /healthz and /metrics; "off": none
  std::string data = "127.0.0.1:17463";    // where peers' runners push values to
  // What peers dial to reach `data`: host:port, or a host alone, whose port is that of `data` as it
  // was bound. Empty: `data` as it was bound.
  std::string data_address;
  int64_t threads = 0;        // of compute, for all jobs; 0: every core that this process may use
  uint64_t memory_limit = 0;  // bytes that jobs may use together; 0: no limit
  // Folders and files that jobs may read by name, and nothing else: name -> absolute path.
  std::map<std::string, std::string> datasets;
  // Jobs may name any absolute path, too, and read what this process may: only on loopback.
  bool local_paths = false;
  std::string state_dir;    // as the master's, with worker in place of master
  SecurityConfig security;  // its keys stand at the top level
  std::vector<WorkerTransport> transports = {WorkerTransport::local, WorkerTransport::shm,
                                             WorkerTransport::tcp};
  RunnerLimits runner;
  // How long runners go on whose master is gone, until it has started again and takes them up.
  std::chrono::milliseconds adopt_within{60'000};
  // How long it tries to be let in while another worker has its name; then it ends.
  std::chrono::milliseconds name_patience{30'000};
  LogConfig log;
};

// `leatd dev`: a master and its workers in one process, over loopback. What they keep is in a
// temporary folder and goes with them.
struct DevConfig {
  int64_t workers = 0;                          // 0: as many as its jobs ask for, one at least
  int64_t threads = 0;                          // of each worker; 0: the cores shared out evenly
  std::string listen = "127.0.0.1:17461";       // loopback only, as is `http`
  std::string http = "127.0.0.1:17460";         // "off": none
  std::map<std::string, std::string> datasets;  // name -> absolute path
  LogConfig log;
};

}  // namespace leat
