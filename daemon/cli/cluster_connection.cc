#include "daemon/cli/cluster_connection.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "daemon/base/yaml_reader.h"
#include "daemon/process/secret_file.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMaxConfig = 64u << 10;

// The path of the user's file; "" if the environment names no home.
std::string config_path(const Environment& environment) {
  std::string folder = environment("XDG_CONFIG_HOME");
  if (folder.empty()) {
    const std::string home = environment("HOME");
    if (home.empty()) return "";
    folder = home + "/.config";
  }
  return folder + "/leat/config.yaml";
}

// The settings of the user's file, or the defaults for keys that it lacks and if there is no file.
Result<ClusterSettings> read_config(const Environment& environment) {
  ClusterSettings settings;
  const std::string path = config_path(environment);
  if (path.empty()) return settings;
  LEAT_ASSIGN_OR_RETURN(const bool exists, real_files().exists(path));
  if (!exists) return settings;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), path, kMaxConfig));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LEAT_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::parse(text, path));
  YamlReader reader(document);
  YamlMap top = reader.top();
  top.get_string("master", Need::optional, settings.master, "the master's host:port");
  // An error here has the line of the file, which a later check could not name.
  if (!is_address(settings.master)) {
    top.fail("master", cat("expected host:port, received '", settings.master, "'"));
  }
  top.get_string("cluster", Need::optional, settings.cluster, "the cluster's name");
  top.get_string("secret_file", Need::optional, settings.secret_file, "the path of a file");
  top.finish();
  LEAT_RETURN_IF_ERROR(reader.status());
  return settings;
}

// Quotes a text for a shell, if necessary.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) {
    // Between single quotes, a shell takes everything literally but the quote itself, which is
    // written as '\''.
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// Returns the first text that is not empty, or the last.
const std::string& first_of(const std::string& a, const std::string& b, const std::string& c) {
  return !a.empty() ? a : !b.empty() ? b : c;
}

}  // namespace

std::string real_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_address(const std::string& text) {
  // The last colon, because an IPv6 address contains others.
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, failure] = std::from_chars(text.data() + colon + 1, end, port);
  return failure == std::errc() && parsed == end && port >= 1 && port <= 65535;
}

Result<ClusterSettings> find_cluster(const ClusterOptions& options,
                                     const Environment& environment) {
  // The file is read even if all flags are given, so an error in it is always seen.
  LEAT_ASSIGN_OR_RETURN(ClusterSettings settings, read_config(environment));
  settings.master = first_of(options.master, environment("LEAT_MASTER"), settings.master);
  settings.cluster = first_of(options.cluster, environment("LEAT_CLUSTER"), settings.cluster);
  settings.secret_file =
      first_of(options.secret_file, environment("LEAT_SECRET_FILE"), settings.secret_file);
  // Flags and the file were checked before, so a wrong address is from the environment.
  if (is_address(settings.master)) return settings;
  return invalid_argument(
      cat("the master's address: expected host:port, received '", settings.master, "'"));
}

std::string command_for(const ClusterOptions& options, std::string_view words) {
  std::string command = cat("leat ", words);
  // Only flags of this command are repeated. The next command sees the same environment and file.
  const auto add = [&](std::string_view flag, const std::string& value) {
    if (!value.empty()) command += cat(" ", flag, " ", printable(shell_word(value)));
  };
  add("--master", options.master);
  add("--cluster", options.cluster);
  add("--secret-file", options.secret_file);
  return command;
}

Result<ClusterClientOptions> client_options_of(const ClusterSettings& settings) {
  ClusterClientOptions options;
  options.address = settings.master;
  options.cluster = settings.cluster;
  // A file among the credentials of systemd has another owner and mode, so read_secret_file() gets
  // their folder.
  if (!settings.secret_file.empty()) {
    LEAT_ASSIGN_OR_RETURN(
        options.secret,
        read_secret_file(settings.secret_file, real_environment("CREDENTIALS_DIRECTORY")));
  }
  return options;
}

int ClusterConnection::open(bool waits) {
  const auto settings = find_cluster(options_, real_environment);
  if (!settings.ok()) return leat::report(settings.status(), options_.color);
  auto made = client_options_of(*settings);
  if (!made.ok()) return leat::report(made.status(), options_.color);
  ClusterClientOptions& options = *made;
  // The client asks this while it waits, on the thread of its caller, so Ctrl-C ends every call.
  options.stop = [this] { return over(); };
  options.await_master = waits;
  options.on_lost = [](const Status& cause) {
    std::fprintf(stderr, "leat: note: %s; connecting again\n", printable(cause.message()).c_str());
  };
  auto client = ClusterClient::connect(std::move(options));
  if (client.ok()) {
    client_ = std::move(client).value();
    return kExitOk;
  }
  const Status& status = client.status();
  // The master answered, but refused the hello.
  if (status.code() == Code::failed_precondition) {
    (void)leat::report(status, options_.color);
    return kExitRefused;
  }
  // The user ended the attempt, so there is no error to print.
  if (interrupt_.requested()) return interrupt_.exit_code();
  if (status.code() == Code::cancelled && timed_out()) return kExitTimeout;
  if (status.code() != Code::unavailable) return leat::report(status, options_.color);
  (void)leat::report(unavailable(cat("no master at ", settings->master, ": ", status.message())),
                     options_.color);
  std::fputs("Start one with 'leatd dev', or name it with --master or LEAT_MASTER.\n", stderr);
  return kExitUnreachable;
}

void ClusterConnection::set_timeout(std::optional<std::chrono::milliseconds> timeout) {
  if (timeout) due_ = std::chrono::steady_clock::now() + *timeout;
}

std::chrono::milliseconds ClusterConnection::left(std::chrono::milliseconds most) const {
  using std::chrono::milliseconds;
  if (!due_) return most;
  const auto left =
      std::chrono::duration_cast<milliseconds>(*due_ - std::chrono::steady_clock::now());
  return std::clamp(left, milliseconds(0), most);
}

int ClusterConnection::report(const Status& status, About about) const {
  if (status.ok()) return kExitOk;
  if (status.code() == Code::cancelled && interrupt_.requested()) return interrupt_.exit_code();
  if (status.code() == Code::cancelled && timed_out()) return kExitTimeout;
  // Everything below only chooses the exit code.
  const int otherwise = leat::report(status, options_.color);
  if (client_->refused()) return kExitRefused;
  const bool precondition = status.code() == Code::failed_precondition;
  if (status.code() == Code::unavailable || status.code() == Code::deadline_exceeded) {
    return kExitUnreachable;
  }
  if (about == About::name && (precondition || status.code() == Code::invalid_argument)) {
    return kExitNoSuch;
  }
  if (about == About::state && precondition) return kExitState;
  return otherwise;
}

}  // namespace leat
