#include "daemon/leatd/run_leatd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "daemon/base/task_thread.h"
#include "daemon/base/version.h"
#include "daemon/leatd/run_dev.h"
#include "daemon/master/master_process.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/lifetime.h"
#include "daemon/process/log_output.h"
#include "daemon/process/secret_file.h"
#include "daemon/worker/worker_places.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The places from which this process takes its config, with those of the command line.
ConfigSources sources_of(const std::string& file, const std::vector<ConfigSources::Flag>& flags) {
  ConfigSources sources = process_sources();
  sources.file = file;
  sources.flags = flags;
  return sources;
}

// Raises the limit of descriptors to the maximum: each connection needs one, and shells often allow
// only 1,024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the limit stays as it is
}

// How often the files of a certificate are looked at. They are taken at the second look.
constexpr std::chrono::milliseconds kLookAtCertificate{2'000};

// Reads the certificates again if their files have changed, or in any case.
void renew_certificates(const SecurityConfig& security, bool in_any_case, const Logger& log) {
  if (!security.certificates) return;
  const auto renewed = security.certificates->read_again(in_any_case);
  if (!renewed.ok()) {
    log.error(renewed.status().message(), "; the certificates stay as they were");
  } else if (*renewed) {
    const PeerCertificate own = security.certificates->current()->get()->own();
    log.info("read the certificates again: ", uri_of(own.name), ", number ", own.serial);
  }
}

// Runs a daemon with its log and its Lifetime.
template <typename Config>
int live(std::string_view name, const Result<Config>& config, int ready_fd,
         Status (*run)(const Config&, Lifetime&, Logger)) {
  if (!config.ok()) {
    complain(config.status().message());
    return kLeatdBadConfig;
  }
  raise_descriptor_limit();
  const RealClock clock;
  // The log comes first, because everything below may have to write to it.
  const auto output = LogOutput::open(config->log, clock);
  if (!output.ok()) {
    complain(output.status().message());
    return kLeatdBadConfig;
  }
  const Logger log{std::string(name), config->log.level, *output};
  auto lifetime = Lifetime::start({.ready_fd = ready_fd, .log = log});
  if (!lifetime.ok()) {
    log.error(lifetime.status().message());
    return kLeatdFailed;
  }
  // The registration ends before the lifetime, which ends before the log: the order of these
  // variables.
  const Registration reload = (*lifetime)->on_reload([&] {
    const Status reopened = (*output)->reopen();
    if (!reopened.ok()) log.error(reopened.message(), "; the log goes on where it was");
    if constexpr (requires { config->security; }) {
      const auto folder = process_sources().environment["CREDENTIALS_DIRECTORY"];
      const Status read = reload_secrets(config->security, folder);
      if (!read.ok()) log.error(read.message(), "; the secret stays as it was");
      renew_certificates(config->security, true, log);
    }
  });
  std::optional<TaskThread> renewals;
  if constexpr (requires { config->security; }) {
    if (config->security.certificates)
      renewals.emplace("certificates", kLookAtCertificate,
                       [&] { renew_certificates(config->security, false, log); });
  }
  log.info("leatd ", leat_version(), " ", name, " starts, process ", ::getpid());
  const Status ended = run(*config, **lifetime, log);
  if (!ended.ok()) {
    log.error(ended.message());
    return (*lifetime)->failure_code();
  }
  log.info("stopped");
  return kLeatdStopped;
}

int run_daemon(const RunDaemon& run) {
  // The descriptor is the daemon's alone: a runner that inherited it would keep its reader waiting.
  if (run.ready_fd >= 0 && ::fcntl(run.ready_fd, F_SETFD, FD_CLOEXEC) != 0) {
    complain(cat("--ready-fd: expected an open descriptor, received ", run.ready_fd));
    return kLeatdUsage;
  }
  const ConfigSources sources = sources_of(run.file, run.flags);
  switch (run.daemon) {
    case Daemon::master:
      return live("master", load_master_config(sources), run.ready_fd, run_master);
    case Daemon::worker:
      return live("worker", load_worker_config(sources), run.ready_fd, run_worker);
    case Daemon::dev:
      break;
  }
  return live("dev", load_dev_config(sources), run.ready_fd, run_dev);
}

// Reads the values of a daemon's config, without running the daemon.
Status load_values(const ShowConfig& show, std::vector<ConfigValue>& values) {
  const ConfigSources sources = sources_of(show.file, show.flags);
  switch (show.daemon) {
    case Daemon::master:
      return load_master_config(sources, &values).status();
    case Daemon::worker:
      return load_worker_config(sources, &values).status();
    case Daemon::dev:
      break;
  }
  return load_dev_config(sources, &values).status();
}

int show_config(const ShowConfig& show) {
  std::vector<ConfigValue> values;
  const Status loaded = load_values(show, values);
  if (!loaded.ok()) {
    complain(loaded.message());
    return kLeatdBadConfig;
  }
  // The columns are as wide as their widest entries.
  size_t key_width = 0, value_width = 0;
  for (const ConfigValue& value : values) {
    key_width = std::max(key_width, value.key.size());
    value_width = std::max(value_width, value.value.size());
  }
  for (const ConfigValue& value : values) {
    const std::string origin = show.origin ? "  # " + value.origin : "";
    std::string line = value.key + ":";
    line.resize(key_width + 2, ' ');
    line += value.value;
    if (show.origin) line.resize(key_width + 2 + value_width, ' ');
    std::printf("%s\n", printable(line + origin).c_str());
  }
  return std::fflush(stdout) == 0 ? kLeatdStopped : kLeatdFailed;
}

int print(const PrintText& text) {
  if (text.exit_code == kExitOk) {
    std::fputs(text.text.c_str(), stdout);
    return kLeatdStopped;
  }
  complain(text.text);
  return kLeatdUsage;
}

}  // namespace

void complain(std::string_view message) {
  std::fputs(
      error_line(printable_lines(message), stderr_color(ColorMode::automatic), "leatd").c_str(),
      stderr);
}

int run_leatd(const LeatdCommand& command) {
  if (const auto* text = std::get_if<PrintText>(&command)) return print(*text);
  if (const auto* show = std::get_if<ShowConfig>(&command)) return show_config(*show);
  return run_daemon(std::get<RunDaemon>(command));
}

}  // namespace leat
