// The way from the options of a command to a connected master, and from errors of calls to exit
// codes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/interrupt.h"
#include "daemon/client/cluster_client.h"
#include "devices/base/status.h"

namespace leat {

// The master's address, and the values by which the client authenticates itself.
struct ClusterSettings {
  std::string master = "127.0.0.1:17461";
  std::string cluster = "leat";
  std::string secret_file;  // empty: none
  // A PEM file with a certificate, its key and the trusted authorities; empty: none. It holds even
  // if there is a secret_file, unless that alone is a flag.
  std::string certificate_file;
  // "true": no TLS, for a cluster whose daemons have the key of this name. "" and "false": TLS.
  std::string insecure_plaintext;
};

// Returns the value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string real_environment(const char* name);

// Takes each setting from its flag, else from the environment (LEAT_MASTER, LEAT_CLUSTER,
// LEAT_SECRET_FILE, LEAT_CERTIFICATE_FILE, LEAT_INSECURE_PLAINTEXT), else from the user's file
// (leat/config.yaml below $XDG_CONFIG_HOME or ~/.config, with the same names as keys), else its
// default. `insecure_plaintext` has no flag. invalid_argument for a file with other keys, or for an
// invalid value.
Result<ClusterSettings> find_cluster(const ClusterOptions& options, const Environment& environment);

// A setting and the place that it is from: "--master", "LEAT_MASTER", the path of the user's file,
// or "default".
struct SettingOrigin {
  std::string key;    // "master"
  std::string value;  // may be empty
  std::string origin;
};
// Returns the settings of find_cluster() with their origins. Errors as of find_cluster().
Result<std::vector<SettingOrigin>> explain_cluster(const ClusterOptions& options,
                                                   const Environment& environment);
// Writes a setting into the user's file, which is made if there is none; an empty value removes it.
// Other settings stay, comments do not. Returns the path. invalid_argument for an unknown key, for
// an address that is none, and if the file has an error; failed_precondition without a home.
Result<std::string> write_setting(const std::string& key, const std::string& value,
                                  const Environment& environment);

// Returns the options of a client of that cluster, with the secret read from its file.
Result<ClusterClientOptions> client_options_of(const ClusterSettings& settings);

// Returns a command for people to copy, such as "leat show ID --master h:1 --secret-file s" for the
// words "show ID". It contains the flags by which they chose the cluster; values of the environment
// or the config file still apply.
std::string command_for(const ClusterOptions& options, std::string_view words);

// True if `text` is "host:port", or "unix:" and an absolute path.
bool is_address(const std::string& text);

// The subject of a call, which decides the exit code of its error.
enum class About : uint8_t {
  cluster,  // no name that the user gave
  name,     // a job, a node or a file with a name: if it does not exist, 5
  state,    // a change: if refused in this state, 6
  content,  // data that was sent: if invalid, 7
};

// A connection to the master, and the reasons to stop waiting: Ctrl-C or a deadline. Prints errors
// to stderr. Threads: one. A command has one on its stack. While it exists, Ctrl-C sets a flag in
// place of ending the process.
class ClusterConnection {
 public:
  explicit ClusterConnection(const ClusterOptions& options) : options_(options) {}

  // Connects. Returns 0, or reports the error and returns the exit code. `waits`: also wait for a
  // master that is temporarily away, after a note on stderr.
  int open(bool waits = false);
  ClusterClient& client() { return *client_; }
  // Calls command_for() with these options.
  std::string command(std::string_view words) const { return command_for(options_, words); }

  // Once the time has passed, calls end with `cancelled`.
  void set_timeout(std::optional<std::chrono::milliseconds> timeout);
  bool timed_out() const { return due_ && std::chrono::steady_clock::now() >= *due_; }
  // True after Ctrl-C or the timeout.
  bool over() const { return interrupt_.requested() || timed_out(); }
  // Returns the remaining time, at most `most`.
  std::chrono::milliseconds left(std::chrono::milliseconds most) const;
  const Interrupt& interrupt() const { return interrupt_; }

  // Reports the error of a call and returns its exit code. Prints nothing after Ctrl-C (130) and
  // after the timeout (124).
  int report(const Status& status, About about) const;

 private:
  const ClusterOptions& options_;
  const Interrupt interrupt_;
  std::optional<std::chrono::steady_clock::time_point> due_;
  std::unique_ptr<ClusterClient> client_;
};

}  // namespace leat
