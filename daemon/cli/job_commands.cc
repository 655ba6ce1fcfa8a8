// The commands for one job or several: logs, cancel, pause, resume, rm.
#include <algorithm>
#include <iostream>
#include <string>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr auto kWait = milliseconds(10'000);

// With --json, prints a page as log_json() formats it: one object on a line.
void print_lines(const std::string& id, const LogPage& page, bool json) {
  if (page.lines.empty()) return;
  if (json) {
    std::cout << log_json(id, page) << std::flush;
    return;
  }
  for (const LogLine& each : page.lines) {
    if (!each.worker.empty()) std::cout << printable(each.worker) << " | ";
    std::cout << printable(each.text) << "\n";
  }
  std::cout << std::flush;
}

// Returns the number of the first line to show.
Result<uint64_t> first_line(ClusterClient& client, const std::string& id,
                            std::optional<int64_t> tail) {
  if (!tail) return uint64_t{0};
  LEAT_ASSIGN_OR_RETURN(const uint64_t end, client.log_end(id));
  return end - std::min(end, static_cast<uint64_t>(*tail));
}

// Waits until the job is in state `awaited`, or has ended, for --wait.
int await_state(ClusterConnection& connection, JobView job, const ClusterOptions& options,
                JobState awaited) {
  const auto is_over = [&] {
    return has_ended(job.condition.state) || job.condition.state == awaited;
  };
  while (!is_over()) {
    auto next = connection.client().watch(job.id, job.version, connection.left(kWait));
    if (next.ok()) job = std::move(next).value();
    if (!connection.over() && next.ok()) continue;
    // The last answer may have come together with Ctrl-C or the timeout. The state of the job
    // counts more.
    if (is_over()) break;
    if (connection.timed_out()) {
      std::cerr << "leat: it is still " << name_of(job.condition.state)
                << " when --timeout is over\n";
      return kExitTimeout;
    }
    if (connection.over()) return connection.interrupt().exit_code();
    return connection.report(next.status(), About::name);
  }
  if (options.json) {
    std::cout << job_json(job);
  } else {
    std::cout << job.id << " " << name_of(job.condition.state) << "\n";
  }
  // The job may have ended in another way before the request came to it.
  return job.condition.state == awaited ? kExitOk : kExitState;
}

// Removes one job and prints it. The id may be a prefix, so the job is looked up first.
int remove_one(ClusterConnection& connection, const std::string& id, bool json) {
  ClusterClient& client = connection.client();
  const auto job = client.job(id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  auto removed = client.remove(job->id);
  // If the call was repeated over another connection, the first one may have removed the job.
  if (!removed.ok() && has_ended(job->condition.state) &&
      client.job(job->id).status().code() == Code::failed_precondition) {
    removed = *job;
  }
  if (!removed.ok()) {
    const int code = connection.report(removed.status(), About::state);
    if (code == kExitState && !has_ended(job->condition.state)) {
      std::cerr << "It ends with: " << connection.command("cancel --wait " + job->id) << "\n";
    }
    return code;
  }
  std::cout << (json ? job_json(*removed) : removed->id + "\n") << std::flush;
  return kExitOk;
}

}  // namespace

int run_logs(const LogsCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(command.follow); code != kExitOk) return code;
  ClusterClient& client = connection.client();
  const auto job = client.job(command.id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  auto from = first_line(client, job->id, command.tail);
  if (!from.ok()) return connection.report(from.status(), About::name);
  for (;;) {
    const auto page = client.logs(job->id, *from, command.follow ? kWait : milliseconds(0));
    if (!page.ok()) {
      // Ctrl-C ends the call by an error. People get the way back, and report() prints nothing.
      if (connection.interrupt().requested()) {
        std::cerr << "leat: detached; the job goes on.\n"
                  << "  come back to it:  " << command_for(command.cluster, "logs -f " + job->id)
                  << "\n"
                  << "  end it:           " << command_for(command.cluster, "cancel " + job->id)
                  << "\n";
      }
      return connection.report(page.status(), About::name);
    }
    print_lines(job->id, *page, command.cluster.json);
    // The page may begin later than asked, because the master drops old lines.
    *from = page->first + page->lines.size();
    const bool all = *from >= page->end;
    if (all && (page->complete || !command.follow)) return kExitOk;
  }
}

int run_cancel(const CancelCommand& command) {
  ClusterConnection connection(command.cluster);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(true); code != kExitOk) return code;
  const auto job = connection.client().job(command.id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  auto cancelled = connection.client().cancel(job->id);
  if (!cancelled.ok()) return connection.report(cancelled.status(), About::state);
  if (command.wait) {
    return await_state(connection, std::move(cancelled).value(), command.cluster,
                       JobState::cancelled);
  }
  if (command.cluster.json) {
    std::cout << job_json(*cancelled);
  } else {
    std::cout << cancelled->id << "\n";
  }
  return kExitOk;
}

int run_pause(const PauseCommand& command) {
  ClusterConnection connection(command.cluster);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(true); code != kExitOk) return code;
  const auto job = connection.client().job(command.id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  auto paused = connection.client().pause(job->id, command.undo);
  if (!paused.ok()) return connection.report(paused.status(), About::state);
  if (command.wait)
    return await_state(connection, std::move(paused).value(), command.cluster, JobState::paused);
  if (command.cluster.json) {
    std::cout << job_json(*paused);
  } else {
    std::cout << paused->id << " " << name_of(paused->condition.state) << "\n";
  }
  return kExitOk;
}

// Removes all jobs that it can; the exit code is that of the first failure.
int run_rm(const RmCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  int first = kExitOk;
  for (const std::string& id : command.ids) {
    const int code = remove_one(connection, id, command.cluster.json);
    if (first == kExitOk) first = code;
  }
  return first;
}

}  // namespace leat
