// From the options of a command to a master that answers, and from its errors to exit codes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/interrupt.h"
#include "daemon/client/cluster_client.h"
#include "devices/base/status.h"

namespace leat {

// Where the master is and what it is told of us.
struct ClusterSettings {
  std::string master = "127.0.0.1:17461";
  std::string cluster = "leat";
  std::string secret_file;  // empty: none
};

// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string real_environment(const char* name);

// Flag, else environment (LEAT_MASTER, LEAT_CLUSTER, LEAT_SECRET_FILE), else the user's file
// ($XDG_CONFIG_HOME or ~/.config, leat/config.yaml, with the keys master, cluster and secret_file),
// else default. invalid_argument for a file with other keys, or an address that is none.
Result<ClusterSettings> find_cluster(const ClusterOptions& options, const Environment& environment);

// "leat show ID --master h:1 --secret-file s" of "show ID": a command for people to copy, with the
// flags by which they named the cluster. What came from environment or config file is there still.
std::string command_for(const ClusterOptions& options, std::string_view words);

// Whether `text` is "host:port".
bool is_address(const std::string& text);

// What a call was about, for its exit code.
enum class About : uint8_t {
  cluster,  // nothing that is named by the user
  name,     // a job, a node or a file that is named: not to be found is 5
  state,    // a change: refused in this state is 6
  content,  // what was sent along: invalid is 7
};

// A connected master and the end of waiting: Ctrl-C, or a deadline. Errors are printed to stderr.
class ClusterConnection {
 public:
  explicit ClusterConnection(const ClusterOptions& options) : options_(options) {}

  // 0 when it is there; else it is reported, and this is the exit code. `waits`: for a master that
  // is gone for a while, which a note says.
  int open(bool waits = false);
  ClusterClient& client() { return *client_; }
  // As command_for().
  std::string command(std::string_view words) const { return command_for(options_, words); }

  // From then on calls end with `cancelled`.
  void set_timeout(std::optional<std::chrono::milliseconds> timeout);
  bool timed_out() const { return due_ && std::chrono::steady_clock::now() >= *due_; }
  // Ctrl-C or the timeout.
  bool over() const { return interrupt_.requested() || timed_out(); }
  // The time that is left, at most `most`.
  std::chrono::milliseconds left(std::chrono::milliseconds most) const;
  const Interrupt& interrupt() const { return interrupt_; }

  // Reports what a call said; the exit code. 130 after Ctrl-C, 124 after the timeout, without a
  // word.
  int report(const Status& status, About about) const;

 private:
  const ClusterOptions& options_;
  const Interrupt interrupt_;
  std::optional<std::chrono::steady_clock::time_point> due_;
  std::unique_ptr<ClusterClient> client_;
};

}  // namespace leat
