#include "daemon/cli/cluster_connection.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "daemon/base/yaml_reader.h"
#include "daemon/process/certificate_files.h"
#include "daemon/process/secret_file.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMaxConfig = 64u << 10;
// The start of the address of a Unix socket, with its absolute path behind it.
constexpr std::string_view kUnixAddress = "unix:/";

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

// The settings of the user's file; empty for keys that it lacks and if there is no file.
Result<ClusterSettings> read_config(const Environment& environment) {
  ClusterSettings settings = {"", "", "", "", ""};
  const std::string path = config_path(environment);
  if (path.empty()) return settings;
  LEAT_ASSIGN_OR_RETURN(const bool exists, real_files().exists(path));
  if (!exists) return settings;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), path, kMaxConfig));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LEAT_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::parse(text, path));
  YamlReader reader(document);
  YamlMap top = reader.top();
  top.get_string("master", Need::optional, settings.master, "the master's host:port or unix:/PATH");
  // An error here has the line of the file, which a later check could not name.
  if (!settings.master.empty() && !is_address(settings.master)) {
    top.fail("master", cat("expected host:port or unix:/PATH, received '", settings.master, "'"));
  }
  top.get_string("cluster", Need::optional, settings.cluster, "the cluster's name");
  top.get_string("secret_file", Need::optional, settings.secret_file, "the path of a file");
  top.get_string("certificate_file", Need::optional, settings.certificate_file,
                 "the path of a file");
  top.get_string("insecure_plaintext", Need::optional, settings.insecure_plaintext,
                 "\"true\" or \"false\"");
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

// The members of ClusterSettings, with the places that each may come from.
struct SettingPlaces {
  const char* key;
  const char* flag;  // null, like `option`: none
  const char* variable;
  std::string ClusterSettings::*value;
  std::string ClusterOptions::*option;
};
constexpr SettingPlaces kSettings[] = {
    {"master", "--master", "LEAT_MASTER", &ClusterSettings::master, &ClusterOptions::master},
    {"cluster", "--cluster", "LEAT_CLUSTER", &ClusterSettings::cluster, &ClusterOptions::cluster},
    {"secret_file", "--secret-file", "LEAT_SECRET_FILE", &ClusterSettings::secret_file,
     &ClusterOptions::secret_file},
    {"certificate_file", "--certificate-file", "LEAT_CERTIFICATE_FILE",
     &ClusterSettings::certificate_file, &ClusterOptions::certificate_file},
    {"insecure_plaintext", nullptr, "LEAT_INSECURE_PLAINTEXT", &ClusterSettings::insecure_plaintext,
     nullptr},
};

// Takes the first value that is not empty, in the order of find_cluster().
SettingOrigin find_setting(const SettingPlaces& places, const ClusterOptions& options,
                           const ClusterSettings& file, const Environment& environment) {
  const std::string from_environment = environment(places.variable);
  if (places.option != nullptr && !(options.*places.option).empty())
    return {places.key, options.*places.option, places.flag};
  if (!from_environment.empty()) return {places.key, from_environment, places.variable};
  if (!(file.*places.value).empty())
    return {places.key, file.*places.value, config_path(environment)};
  return {places.key, ClusterSettings().*places.value, "default"};
}

}  // namespace

std::string real_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_address(const std::string& text) {
  if (text.starts_with(kUnixAddress)) return text.size() > kUnixAddress.size();
  // The last colon, because an IPv6 address contains others.
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, failure] = std::from_chars(text.data() + colon + 1, end, port);
  return failure == std::errc() && parsed == end && port >= 1 && port <= 65535;
}

Result<std::vector<SettingOrigin>> explain_cluster(const ClusterOptions& options,
                                                   const Environment& environment) {
  // The file is read even if all flags are given, so an error in it is always seen.
  LEAT_ASSIGN_OR_RETURN(const ClusterSettings file, read_config(environment));
  std::vector<SettingOrigin> settings;
  for (const SettingPlaces& places : kSettings)
    settings.push_back(find_setting(places, options, file, environment));
  // The flag of a secret turns off a certificate of the environment or the file.
  const auto at = [&](std::string_view key) {
    return std::find_if(settings.begin(), settings.end(),
                        [key](const SettingOrigin& each) { return each.key == key; });
  };
  if (at("secret_file")->origin == "--secret-file" && !at("certificate_file")->value.empty() &&
      at("certificate_file")->origin != "--certificate-file")
    *at("certificate_file") = {"certificate_file", "", "--secret-file"};
  // Flags and the file were checked before, so a wrong address is from the environment.
  if (!is_address(settings[0].value)) {
    return invalid_argument(
        cat("the master's address: expected host:port or unix:/PATH, received '", settings[0].value,
            "'"));
  }
  const SettingOrigin& plaintext = settings.back();
  if (!plaintext.value.empty() && plaintext.value != "true" && plaintext.value != "false") {
    return invalid_argument(
        cat(plaintext.origin, ": expected true or false, received '", plaintext.value, "'"));
  }
  return settings;
}

Result<ClusterSettings> find_cluster(const ClusterOptions& options,
                                     const Environment& environment) {
  LEAT_ASSIGN_OR_RETURN(const auto found, explain_cluster(options, environment));
  ClusterSettings settings;
  for (size_t i = 0; i < found.size(); ++i) settings.*kSettings[i].value = found[i].value;
  return settings;
}

Result<std::string> write_setting(const std::string& key, const std::string& value,
                                  const Environment& environment) {
  const auto* places = std::find_if(std::begin(kSettings), std::end(kSettings),
                                    [&](const SettingPlaces& each) { return each.key == key; });
  if (places == std::end(kSettings))
    return invalid_argument(
        cat("key: expected master, cluster, secret_file, certificate_file or insecure_plaintext, "
            "received '",
            key, "'"));
  if (key == "master" && !value.empty() && !is_address(value))
    return invalid_argument(
        cat("master: expected host:port or unix:/PATH, received '", value, "'"));
  const std::string path = config_path(environment);
  if (path.empty())
    return failed_precondition("expected HOME or XDG_CONFIG_HOME in the environment");
  LEAT_ASSIGN_OR_RETURN(ClusterSettings settings, read_config(environment));
  settings.*places->value = value;
  std::string text;
  for (const SettingPlaces& each : kSettings) {
    const std::string& kept = settings.*each.value;
    if (!kept.empty()) text += cat(each.key, ": ", yaml_string(kept), "\n");
  }
  LEAT_RETURN_IF_ERROR(real_files().make_directories(directory_of(path)));
  LEAT_RETURN_IF_ERROR(write_file_atomically(real_files(), path, std::as_bytes(std::span(text))));
  return path;
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
  add("--certificate-file", options.certificate_file);
  return command;
}

Result<ClusterClientOptions> client_options_of(const ClusterSettings& settings) {
  ClusterClientOptions options;
  options.address = settings.master;
  options.cluster = settings.cluster;
  if (settings.insecure_plaintext == "true") options.seal = Seal::never;
  // On a Unix socket the kernel tells the master this process's user, and nothing is proved.
  if (settings.master.starts_with(kUnixAddress)) return options;
  if (!settings.certificate_file.empty()) {
    if (options.seal == Seal::never)
      return invalid_argument(
          "insecure_plaintext: expected false with a certificate_file, since certificates need "
          "TLS, received true");
    LEAT_ASSIGN_OR_RETURN(const auto files,
                          CertificateFiles::open({.certificate = settings.certificate_file},
                                                 real_environment("CREDENTIALS_DIRECTORY")));
    options.certificates = files->current();
    // New files that cannot be used leave the old ones in use, which the master then judges.
    options.renew = [files] { static_cast<void>(files->read_again(true)); };
    return options;
  }
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
