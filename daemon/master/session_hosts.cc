#include "daemon/master/session_hosts.h"

#include <cstdlib>
#include <vector>

#include "daemon/master/gpu_plugin.h"
#include "daemon/master/lasting_host.h"
#include "daemon/session/graph_version.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

// It tells one session from another, and from jobs. Only that of a lasting session is read.
std::string text_of(const SessionOptions& options) {
  std::string text =
      cat(kSessionText, "  strategy: ", options.strategy, "\n  shards: ", options.shards,
          "\n  seed: ", options.seed, "\n  plans: ", options.plans,
          "\n  timeout: ", options.timeout.count(), "ms\n");
  if (options.lasts()) {
    text += cat("  save_every: ", options.save_every, "\n  keep: ", options.keep.count(), "ms\n");
  }
  return text;
}

// The value behind "  key: " in such a text; "" if there is none.
std::string value_of(std::string_view text, std::string_view key) {
  const std::string start = cat("\n  ", key, ": ");
  const size_t at = text.find(start);
  if (at == std::string_view::npos) return "";
  const size_t from = at + start.size();
  return std::string(text.substr(from, text.find('\n', from) - from));
}

// The options of which text_of() made the text of a submission.
SessionOptions options_of(const Submission& submission) {
  const auto number = [&](std::string_view key) {
    return std::strtoull(value_of(submission.text, key).c_str(), nullptr, 10);
  };
  SessionOptions options;
  options.name = submission.name;
  options.strategy = value_of(submission.text, "strategy");
  options.shards = static_cast<int>(number("shards"));
  options.seed = number("seed");
  options.plans = number("plans");
  options.timeout = std::chrono::milliseconds(number("timeout"));
  options.save_every = static_cast<uint32_t>(number("save_every"));
  options.keep = std::chrono::milliseconds(number("keep"));
  return options;
}

Status taken_over(const std::string& session) {
  return failed_precondition(cat("session '", session, "': another client has attached to it"));
}

// The restarts of a lasting session that its workers force on it without a step in between.
constexpr uint32_t kRestarts = 1'000;

// Returns the error for calls of a session whose job ends: unavailable if it failed, else
// cancelled.
Status ended(const JobView& job) {
  const std::string text = cat(
      "session '", job.id,
      has_ended(job.condition.state) ? "' has ended: it is " : "' ends: it is ",
      name_of(job.condition.state), job.condition.reason.empty() ? "" : ": ", job.condition.reason);
  return job.condition.state == JobState::failed ? unavailable(text) : cancelled(text);
}

}  // namespace

bool is_lasting_session(const Submission& submission) {
  return is_session(submission) && !value_of(submission.text, "save_every").empty();
}

Status SessionHosts::restore(const std::string& job) {
  const std::string path = record_of(job).path;
  LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
  if (!there) return {};  // it is no lasting session, or has not begun
  LEAT_ASSIGN_OR_RETURN(auto clients, SessionLog::clients_of(path));
  const std::lock_guard lock(mutex_);
  clients_[job] = std::move(clients);
  return {};
}

void SessionHosts::open(const SessionOpening& opening, Done<std::shared_ptr<SessionHost>> done) {
  if (opening.gpus > 0) {
    const Status plugin = check_gpu_plugin(cat("session '", opening.settings.name, "': gpus"));
    if (!plugin.ok()) return done(plugin);
  }
  SessionOptions options;
  static_cast<SessionSettings&>(options) = opening.settings;
  Submission submission;
  submission.request_id = opening.request_id;
  submission.name = options.name;
  submission.text = text_of(options);
  submission.num_workers = opening.num_workers;
  submission.gpus = opening.gpus;
  submission.terms.user = opening.user;
  submission.by = opening.by;
  // Unless it is a lasting one, what it held is gone with a runner.
  submission.max_restarts = options.lasts() ? kRestarts : 0;
  // The request id makes a repeated call find the job of the first one.
  auto found = [done, client = opening.request_id](Result<std::shared_ptr<SessionHost>> host) {
    const bool lasts = host.ok() && (*host)->options().lasts();
    const bool taken = lasts && !(*host)->take_over(client);
    done(taken ? taken_over((*host)->job()) : std::move(host));
  };
  parts_.submit(std::move(submission), [this, options, found](Result<JobView> view) {
    opened(std::move(view), options, found);
  });
}

void SessionHosts::opened(Result<JobView> view, SessionOptions options,
                          const Done<std::shared_ptr<SessionHost>>& done) {
  if (!view.ok()) return done(view.status());
  if (has_ended(view->condition.state)) return done(failed_precondition(ended(*view).message()));
  std::shared_ptr<SessionHost> host;
  {
    const std::lock_guard lock(mutex_);
    // The host exists already if the client opens its session again. After a restart of the master
    // it is made anew, and the thread of the job waits in await() for it.
    host = host_of(view->id, std::move(options));
  }
  left(host);  // no client holds it yet
  done(std::move(host));
}

std::shared_ptr<SessionHost> SessionHosts::host_of(const std::string& job, SessionOptions options) {
  auto& host = hosts_[job];
  if (host == nullptr) {
    const auto read = [this](const LoggedGraph& sent) -> Result<Graph> {
      LEAT_ASSIGN_OR_RETURN(const Graph graph, read_graph(sent.file, catalogue()));
      const std::vector<ValueId> ids(sent.input_ids.begin(), sent.input_ids.end());
      return with_input_ids(graph, ids);
    };
    if (options.lasts()) {
      host = std::make_shared<LastingHost>(std::move(options), read, record_of(job), notes_);
      if (auto before = clients_.extract(job)) host->lease().restore(std::move(before.mapped()));
    } else {
      host = std::make_shared<SessionHost>(job, std::move(options), read);
    }
    changed_.notify_all();
  }
  return host;
}

Result<std::shared_ptr<SessionHost>> SessionHosts::attach(const std::string& job,
                                                          const std::string& client) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, parts_.job(job));
  if (has_ended(view.condition.state)) return failed_precondition(ended(view).message());
  std::shared_ptr<SessionHost> host;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = hosts_.find(view.id); found != hosts_.end()) host = found->second;
  }
  if (host == nullptr) {
    return unavailable(cat("job '", view.id,
                           "': expected a lasting session that has workers, it is ",
                           name_of(view.condition.state), " and no session is served"));
  }
  if (!host->options().lasts())
    return failed_precondition(cat("session '", view.id, "': expected a lasting one, it is none"));
  if (!host->take_over(client)) return taken_over(view.id);
  return host;
}

std::chrono::milliseconds SessionHosts::lease_of(const SessionHost& host) const {
  return host.options().lasts() ? host.options().keep : parts_.lease;
}

void SessionHosts::left(const std::shared_ptr<SessionHost>& host) {
  // The check does not keep a host alive, and a client that holds the session again by then saves
  // it.
  auto check = [this, host = std::weak_ptr(host)] {
    const auto held = host.lock();
    if (held != nullptr && held->is_abandoned(lease_of(*held))) give_up(*held);
  };
  // The check comes one millisecond after the end of the lease, and not just before it.
  const auto later = lease_of(*host) + std::chrono::milliseconds(1);
  (void)parts_.loop.post([this, check = std::move(check), later]() mutable {
    LoopContext& context = parts_.loop.context();
    context.tasks.add(context.timer.afterDelay(to_kj(later)).then(kj::mv(check)));
  });
}

void SessionHosts::give_up(const SessionHost& host) {
  parts_.cancel(host.job(),
                cat("the master: its client was gone for ", lease_of(host).count(), " ms"));
}

void SessionHosts::close(const std::shared_ptr<SessionHost>& host,
                         std::function<void(Status)> done) {
  // A job that does not run has no thread that would serve the end of its session.
  if (parts_.runs(host->job())) return host->close(std::move(done));
  parts_.cancel(host->job(), "its client, which closed it");
  done(Status());
}

Result<std::shared_ptr<SessionHost>> SessionHosts::await(const std::string& job,
                                                         const Submission& submission,
                                                         const std::function<bool()>& ended) {
  std::unique_lock lock(mutex_);
  if (is_lasting_session(submission) && !hosts_.contains(job)) {
    const auto host = host_of(job, options_of(submission));
    lock.unlock();
    left(host);  // no client holds it yet
    return host;
  }
  // changed_ also wakes this thread for other sessions, and for the end of this run.
  const auto here = [&] { return hosts_.contains(job) || ended(); };
  if (!changed_.wait_for(lock, parts_.lease, here)) {
    return unavailable(cat("session '", job, "': its client did not come back within ",
                           parts_.lease.count(), " ms after the master's restart"));
  }
  const auto found = hosts_.find(job);
  return found != hosts_.end() ? found->second : nullptr;
}

std::optional<SessionSituation> SessionHosts::situation(const std::string& job) {
  std::shared_ptr<SessionHost> host;
  {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(job);
    if (found == hosts_.end()) return std::nullopt;
    host = found->second;
  }
  SessionSituation out;
  out.clients = host->lease().holders();
  const auto idle = host->idle();
  const auto since = idle && out.clients == 0 ? host->lease().left_for() : idle;
  if (since) out.idle = 1e-3 * static_cast<double>(since->count());
  return out;
}

void SessionHosts::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void SessionHosts::changed(const JobView& job) {
  // A job that is being cancelled ends its session now; its host is forgotten with the job's end.
  const JobState state = job.condition.state;
  if (!has_ended(state) && state != JobState::cancelling) return;
  std::shared_ptr<SessionHost> host;
  {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(job.id);
    if (found == hosts_.end()) return;
    host = found->second;
    if (has_ended(state)) hosts_.erase(found);
  }
  // The client of a lasting session would ask again after `unavailable`.
  const Status end = ended(job);
  const bool for_good = has_ended(state) && host->options().lasts();
  host->end(for_good && end.code() == Code::unavailable ? failed_precondition(end.message()) : end);
  // A session that has FAILED leaves its record to people: it has all that the session had.
  const bool useless = state == JobState::cancelled || state == JobState::succeeded;
  LastingHost* const lasting = host->as_lasting();
  if (useless && lasting != nullptr) lasting->retire();
}

void SessionHosts::stop(const Status& cause) {
  std::vector<std::shared_ptr<SessionHost>> hosts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [_, host] : hosts_) hosts.push_back(host);
    changed_.notify_all();
  }
  // end() calls completions of clients, so it is called without the mutex.
  for (const auto& host : hosts) host->end(cause);
}

}  // namespace leat
