#include "daemon/master/session_hosts.h"

#include <vector>

#include "daemon/master/gpu_plugin.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

// No valid job file begins like this, so the first line tells sessions from jobs.
constexpr std::string_view kSession = "session:\n";

// Never read: it tells one session from another, and from jobs.
std::string text_of(const SessionOptions& options) {
  return cat(kSession, "  strategy: ", options.strategy, "\n  shards: ", options.shards,
             "\n  seed: ", options.seed, "\n  plans: ", options.plans,
             "\n  timeout: ", options.timeout.count(), "ms\n");
}

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

bool is_session(const Submission& submission) { return submission.text.starts_with(kSession); }

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
  submission.max_restarts = 0;  // what it held is gone with a runner
  // The request id makes a repeated call find the job of the first one.
  parts_.submit(std::move(submission), [this, options, done](Result<JobView> view) {
    opened(std::move(view), options, done);
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
    auto& found = hosts_[view->id];
    if (found == nullptr) found = std::make_shared<SessionHost>(view->id, std::move(options));
    host = found;
    changed_.notify_all();
  }
  left(host);  // no client holds it yet
  done(std::move(host));
}

void SessionHosts::left(const std::shared_ptr<SessionHost>& host) {
  // The check does not keep a host alive, and a client that holds the session again by then saves
  // it.
  auto check = [this, host = std::weak_ptr(host)] {
    const auto held = host.lock();
    if (held != nullptr && held->is_abandoned(parts_.lease)) give_up(held->job());
  };
  // The check comes one millisecond after the end of the lease, and not just before it.
  const auto later = parts_.lease + std::chrono::milliseconds(1);
  (void)parts_.loop.post([this, check = std::move(check), later]() mutable {
    LoopContext& context = parts_.loop.context();
    context.tasks.add(context.timer.afterDelay(to_kj(later)).then(kj::mv(check)));
  });
}

void SessionHosts::give_up(const std::string& job) {
  parts_.cancel(job, cat("the master: its client was gone for ", parts_.lease.count(), " ms"));
}

void SessionHosts::close(const std::shared_ptr<SessionHost>& host,
                         std::function<void(Status)> done) {
  // A job that does not run has no thread that would serve the end of its session.
  if (parts_.runs(host->job())) return host->close(std::move(done));
  parts_.cancel(host->job(), "its client, which closed it");
  done(Status());
}

Result<std::shared_ptr<SessionHost>> SessionHosts::await(const std::string& job,
                                                         const std::function<bool()>& ended) {
  std::unique_lock lock(mutex_);
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
  host->end(ended(job));
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
