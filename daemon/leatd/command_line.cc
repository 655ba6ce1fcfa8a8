#include "daemon/leatd/command_line.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>

#include "daemon/base/version.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kAbout =
    "Leat's daemons: a master, which takes jobs, and a worker on each machine, which computes.";

constexpr const char* kExamples = R"(Examples:
  leatd dev                                     a cluster in one process, for this machine
  leatd master --config /etc/leat/master.yaml
  leatd worker --config /etc/leat/worker.yaml --set threads=8
  leatd config show worker --config /etc/leat/worker.yaml --origin

A key is taken from a flag, else from the environment (key log.level of the master:
LEAT_MASTER_LOG_LEVEL), else from the file, else from its default. SIGTERM and SIGINT stop in order,
a second one at once; SIGHUP opens the log and reads the secrets again; SIGUSR1 logs what the daemon
is doing.

Exit codes: 0 stopped in order, 1 failed, 2 wrong usage, 78 bad config, 79 another worker has the
name.)";

constexpr int kSection = 8;  // of the manual

// A flag for one key, besides --set.
struct KeyFlag {
  const char* flag;
  const char* key;
  const char* type;  // null: the flag has no value and sets the key to true
  const char* about;
};

constexpr KeyFlag kMasterFlags[] = {
    {"--listen", "listen", "ADDRESS", "Address for workers and clients (127.0.0.1:17461)"},
    {"--http", "http", "ADDRESS", "Status page and API, or off (127.0.0.1:17460)"},
    {"--state-dir", "state_dir", "DIR", "The journal's folder"},
    {"--new-journal", "new_journal", nullptr,
     "Begin a journal beside the folders of jobs whose journal is gone"},
    {"--secret-file", "secret_file", "FILE", "File with the cluster's secret"},
    {"--certificate-file", "certificate_file", "FILE", "File with a certificate and its key"},
    {"--log-level", "log.level", "LEVEL", "debug, info, warning, error or off"},
};
constexpr KeyFlag kWorkerFlags[] = {
    {"--name", "name", "NAME", "Unique in the cluster (the host's name)"},
    {"--master", "master", "HOST:PORT", "The master's address (127.0.0.1:17461)"},
    {"--http", "http", "ADDRESS", "/healthz and /metrics, or off (127.0.0.1:17462)"},
    {"--data", "data", "ADDRESS", "Address for other workers (127.0.0.1:17463)"},
    {"--threads", "threads", "N", "Threads that compute; 0: every core. Changes no result"},
    {"--state-dir", "state_dir", "DIR", "The worker's own folder"},
    {"--secret-file", "secret_file", "FILE", "File with the cluster's secret"},
    {"--certificate-file", "certificate_file", "FILE", "File with a certificate and its key"},
    {"--log-level", "log.level", "LEVEL", "debug, info, warning, error or off"},
};
constexpr KeyFlag kDevFlags[] = {
    {"--workers", "workers", "N",
     "Number of workers (0: as many as jobs ask for); changes no result"},
    {"--threads", "threads", "N", "Threads of each worker; changes no result"},
    {"--listen", "listen", "ADDRESS", "Address for clients (127.0.0.1:17461)"},
    {"--http", "http", "ADDRESS", "Status page and API, or off (127.0.0.1:17460)"},
    {"--log-level", "log.level", "LEVEL", "debug, info, warning, error or off"},
};

struct DaemonWords {
  Daemon daemon;
  const char* name;
  const char* about;
  std::span<const KeyFlag> flags;
};
const DaemonWords kDaemons[] = {
    {Daemon::master, "master", "Take jobs, plan them, and have the workers run them", kMasterFlags},
    {Daemon::worker, "worker", "Offer this machine's devices to a master", kWorkerFlags},
    {Daemon::dev, "dev", "A master and its workers in one process; keeps nothing", kDevFlags},
};

// The variables that the options are bound to, for all commands.
struct Parsed {
  RunDaemon run;
  std::vector<std::string> set;
  bool origin = false;
  std::string topic;  // of `leatd man`
};

// Accepts KEY=VALUE. The key itself is checked when the config is read.
CLI::Validator assignment() {
  const auto check = [](const std::string& text) -> std::string {
    const size_t equals = text.find('=');
    if (equals != std::string::npos && equals > 0) return {};
    return cat("expected KEY=VALUE such as log.level=debug, received '", text, "'");
  };
  return CLI::Validator(check, "");
}

// A --set wins over a flag for the same key, because chosen() appends it to the list later.
void add_config_options(CLI::App& app, const DaemonWords& words, Parsed& parsed) {
  app.add_option("--config", parsed.run.file, "The config file (YAML)")->type_name("FILE");
  for (const KeyFlag& flag : words.flags) {
    if (flag.type == nullptr) {
      app.add_flag_callback(
          flag.flag,
          [&parsed, flag] {
            parsed.run.flags.push_back({flag.key, "true", flag.flag});
          },
          flag.about);
      continue;
    }
    // The flags are collected in the order in which they are given, because the last one for a key
    // wins.
    const auto take = [&parsed, flag](const std::string& value) {
      parsed.run.flags.push_back({flag.key, value, cat(flag.flag, " ", value)});
    };
    app.add_option_function<std::string>(flag.flag, take, flag.about)->type_name(flag.type);
  }
  app.add_option("--set", parsed.set, "Set any key, e.g. log.format=json; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->check(assignment());
}

// Adds the command that runs a daemon. All commands write to the same variables, because only one
// is given.
void add_daemon(CLI::App& app, const DaemonWords& words, Parsed& parsed) {
  auto* sub = add_command(app, words.name, words.about);
  add_config_options(*sub, words, parsed);
  sub->add_option("--ready-fd", parsed.run.ready_fd,
                  "Write one line of JSON with the addresses to this descriptor when ready")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<int>::max()));
}

void add_config(CLI::App& app, Parsed& parsed) {
  auto* config = add_command(app, "config", "Check and show what a config comes to");
  config->require_subcommand(1);
  auto* show = add_command(*config, "show", "Every key with its value; exit code 78 if it is bad");
  show->require_subcommand(1);
  for (const DaemonWords& words : kDaemons) {
    auto* sub = add_command(*show, words.name, "Of this daemon");
    add_config_options(*sub, words, parsed);
    sub->add_flag("--origin", parsed.origin, "And where each value comes from");
  }
}

void build(CLI::App& app, Parsed& parsed) {
  app.name("leatd");
  app.get_formatter()->column_width(32);
  app.set_version_flag("--version", cat("leatd ", leat_version()), "Print the version");
  app.footer(kExamples);
  app.require_subcommand(1);
  for (const DaemonWords& words : kDaemons) add_daemon(app, words, parsed);
  add_config(app, parsed);
  add_man_command(app, parsed.topic);
  add_help_commands(app);
}

// Returns the command that was given, with all keys that the command line sets.
LeatdCommand chosen(const CLI::App& app, Parsed parsed) {
  for (const std::string& text : parsed.set) {
    const size_t equals = text.find('=');
    parsed.run.flags.push_back({text.substr(0, equals), text.substr(equals + 1), "--set " + text});
  }
  const CLI::App& command = innermost(app);
  if (full_name(command) == "leatd man") return manual_of(app, parsed.topic, kSection);
  for (const DaemonWords& words : kDaemons) {
    // The daemon's name is the last word of both "leatd master" and "leatd config show master".
    if (command.get_name() == words.name) parsed.run.daemon = words.daemon;
  }
  RunDaemon& run = parsed.run;
  if (!full_name(command).starts_with("leatd config")) return std::move(run);
  return ShowConfig{run.daemon, std::move(run.file), std::move(run.flags), parsed.origin};
}

}  // namespace

LeatdCommand parse_leatd(const std::vector<std::string>& arguments) {
  CLI::App app(kAbout);
  Parsed parsed;
  build(app, parsed);
  if (auto print = parse_arguments(app, arguments)) return std::move(*print);
  return chosen(app, std::move(parsed));
}

}  // namespace leat
