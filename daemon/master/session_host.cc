#include "daemon/master/session_host.h"

#include <pthread.h>

#include <thread>

#include "devices/base/text.h"

namespace leat {
namespace {

// The threads that start steps and take their results. A step in flight occupies none of them, but
// making a plan does.
constexpr int kThreads = 4;
constexpr size_t kMaxTasks = 4'096;            // that wait
constexpr size_t kMaxBytes = size_t{1} << 30;  // held for clients

}  // namespace

// The mutex guards the handle.
class SessionHost::Step final : public AskedStep {
 public:
  using AskedStep::AskedStep;

  bool taken = false;  // under the host's mutex
  std::mutex mutex;
  std::optional<StepHandle> handle;
};

SessionHost::SessionHost(std::string job, SessionOptions options, ReadGraph read_graph)
    : job_(std::move(job)),
      options_(std::move(options)),
      read_graph_(std::move(read_graph)),
      bytes_(kMaxBytes) {}
SessionHost::~SessionHost() = default;

// Questions ---------------------------------------------------------------------------------------

// Returns the reason why a call is refused that came after the end. This function and the next need
// the mutex held.
Status SessionHost::cause() const {
  if (!cause_.ok()) return cause_;
  return failed_precondition(cat("session '", options_.name, "' is closed"));
}

// Of a call that was accepted before the end.
Status SessionHost::cause_before() const {
  if (!cause_.ok()) return cause_;
  return cancelled(cat("session '", options_.name, "' was closed before a call of it began"));
}

void SessionHost::enqueue(Task task) {
  // The completion is foreign code, so it is called without the mutex.
  Status refused;
  {
    const std::lock_guard lock(mutex_);
    if (over_) {
      refused = cause();
    } else if (tasks_.size() >= kMaxTasks) {
      // Without a limit, clients that never wait for answers would fill the memory.
      refused = resource_exhausted(
          cat("session '", options_.name, "': ", kMaxTasks, " calls wait; try again in a moment"));
    } else {
      tasks_.push_back(std::move(task));
      changed_.notify_all();
    }
  }
  if (!refused.ok()) task.refuse(refused);
}

std::shared_ptr<SessionHost::Call> SessionHost::extend(LoggedGraph graph, Done<uint64_t> done) {
  const auto call = std::make_shared<Call>();
  enqueue({call,
           [this, graph = std::move(graph), done](Session* session) {
             // The graph is decoded here, on a thread of the host, since that takes a while for a
             // large one.
             auto made = read_graph_(graph);
             done(made.ok() ? session->extend(graph.version, *made)
                            : Result<uint64_t>(made.status()));
           },
           done});
  return call;
}

std::shared_ptr<SessionHost::Call> SessionHost::make_callable(Signature signature,
                                                              Done<CallableId> done) {
  const auto call = std::make_shared<Call>();
  enqueue({call,
           [signature = std::move(signature), done](Session* session) {
             done(session->make_callable(signature));
           },
           done});
  return call;
}

std::shared_ptr<SessionHost::Call> SessionHost::release_callable(CallableId id,
                                                                 std::function<void(Status)> done) {
  const auto call = std::make_shared<Call>();
  enqueue({call, [id, done](Session* session) { done(session->release_callable(id)); }, done});
  return call;
}

void SessionHost::close(std::function<void(Status)> done) {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    // serve() wakes up by this, ends the session, and calls the closers when no step is computed
    // any more.
    if (!over_) over_ = true;
    if (!served_ && cause_.ok()) {
      closers_.push_back(std::move(done));
      changed_.notify_all();
      interrupt();
      return;
    }
    status = cause_;
  }
  done(status);
}

// Steps -------------------------------------------------------------------------------------------

std::shared_ptr<SessionHost::Call> SessionHost::run(HostedRequest request, Done<Fetches> done) {
  // `done` is here twice: for a step that runs, and for a task that is refused.
  auto step = std::make_shared<Step>(std::move(request), done);
  enqueue({step, [this, step](Session* session) { start(*session, step); }, done});
  return step;
}

// On one of the host's threads.
Result<StepHandle> SessionHost::launch(Session& session, const HostedRequest& request,
                                       Session::Finished finished) {
  // The time of a step begins here, and not while it waited in the queue.
  Session::Deadline deadline;
  if (request.timeout.count() > 0) deadline = std::chrono::steady_clock::now() + request.timeout;
  LEAT_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, request.feeds());
  if (const auto* id = std::get_if<CallableId>(&request.what)) {
    return session.start_callable(*id, tensors, deadline, std::move(finished));
  }
  const auto& signature = std::get<Signature>(request.what);
  if (signature.feeds.size() != tensors.size()) {
    return invalid_argument(
        cat("feeds: expected ", signature.feeds.size(), " tensors, received ", tensors.size()));
  }
  Feeds feeds;
  for (size_t i = 0; i < tensors.size(); ++i) {
    feeds.emplace_back(signature.feeds[i], std::move(tensors[i]));
  }
  return session.start(feeds, signature.fetches, signature.targets, deadline, std::move(finished));
}

void SessionHost::start(Session& session, const std::shared_ptr<Step>& step) {
  {
    const std::lock_guard lock(mutex_);
    // The step counts before it starts, so that serve() does not end between its start and its
    // result.
    ++load_.running;
  }
  // Called on a thread of the runtime's, perhaps before launch() returns.
  auto finished = [self = shared_from_this(), step] {
    const std::lock_guard lock(self->mutex_);
    // Results come before new calls: they free the memory of steps that are over. The limit of the
    // queue does not hold for them, and they have no `refuse`, so they are taken in any case.
    self->tasks_.push_front(
        {step, [self = self.get(), step](Session*) { self->take(step); }, nullptr});
    self->changed_.notify_all();
  };
  Status failed;
  {
    const std::lock_guard lock(step->mutex);
    auto handle = launch(session, step->request, std::move(finished));
    if (handle.ok()) {
      step->handle.emplace(std::move(*handle));
      // A cancel() that came before the handle was there found nothing to cancel.
      if (step->cancelled) step->handle->cancel();
      return;
    }
    failed = handle.status();
  }
  {
    const std::lock_guard lock(mutex_);
    // A session that ends refuses new steps; its client learns why it ended.
    if (over_ && failed.code() == Code::failed_precondition) failed = cause_before();
  }
  step->done(failed);
  taken(*step);
}

void SessionHost::take(const std::shared_ptr<Step>& step) {
  Result<Fetches> fetches = Fetches();
  {
    const std::lock_guard lock(step->mutex);
    fetches = step->handle->wait();  // it is over: at once
    step->handle.reset();
  }
  // Without a caller, the fetches are only destroyed.
  if (!step->dropped()) step->done(std::move(fetches));
  taken(*step);
}

void SessionHost::taken(Step& step) {
  const std::lock_guard lock(mutex_);
  step.taken = true;
  --load_.running;
  note_idle();
  changed_.notify_all();
}

void SessionHost::drop(const std::shared_ptr<Call>& step) {
  step->drop();
  cancel(step);
}

void SessionHost::cancel(const std::shared_ptr<Call>& call) {
  const auto step = std::static_pointer_cast<Step>(call);
  step->cancelled = true;  // for start(), if that comes later
  {
    const std::lock_guard lock(mutex_);
    // A step that is over needs no task.
    if (step->taken) return;
  }
  // A thread of the host does it, because start() may hold the step's mutex while a plan is made.
  const auto cancel = [step](Session*) {
    const std::lock_guard lock(step->mutex);
    if (step->handle) step->handle->cancel();
  };
  enqueue({std::make_shared<Call>(), cancel, [](const Status&) {}});
}

// Life --------------------------------------------------------------------------------------------

Status SessionHost::serve(HostGroup& hosts, const SessionRun& /*run*/) {
  // On failure the job fails. Its end comes back as end(), which answers the calls that wait.
  LEAT_ASSIGN_OR_RETURN(const auto session, Session::open(hosts, options_));
  std::unique_lock lock(mutex_);
  // The threads begin after this: from here on end() leaves what waits to them.
  serving_ = true;
  note_idle();
  lock.unlock();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, session = session.get()] {
      ::pthread_setname_np(::pthread_self(), "session calls");
      work(*session);
    });
  }
  lock.lock();
  changed_.wait(lock, [&] { return over_; });
  lock.unlock();
  // Steps in flight end with `cancelled` here, and their results come into the queue.
  session->close();
  lock.lock();
  changed_.wait(lock, [&] { return !has_calls(); });
  // Only now no call and no step is left, and the threads end.
  stop_ = true;
  changed_.notify_all();
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  std::vector<std::function<void(Status)>> closers;
  lock.lock();
  served_ = true;
  closers.swap(closers_);
  const Status cause = cause_;
  lock.unlock();
  for (const auto& done : closers) done(cause);
  return cause;
}

void SessionHost::work(Session& session) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++load_.busy;
    // A call that was dropped is not begun. Tasks without `refuse` take results, and are always
    // done.
    const Status refused = over_ && task.refuse ? cause_before() : Status();
    lock.unlock();
    if (!refused.ok()) {
      task.refuse(refused);
    } else if (!task.refuse || !task.call->dropped()) {
      task.work(&session);
    }
    task = {};  // what it holds goes now
    lock.lock();
    --load_.busy;
    note_idle();
    changed_.notify_all();
  }
}

void SessionHost::end(const Status& cause) {
  std::deque<Task> refused;
  std::vector<std::function<void(Status)>> closers;
  {
    const std::lock_guard lock(mutex_);
    // The cause of a session that was closed stays ok, although its job's end comes here as well.
    if (!over_) cause_ = cause;
    over_ = true;
    // With no thread that serves, this call answers what waits.
    if (!serving_) {
      refused.swap(tasks_);
      closers.swap(closers_);
    }
    interrupt();
    changed_.notify_all();
  }
  for (const Task& task : refused) task.refuse(cause);
  for (const auto& done : closers) done(cause);
}

void SessionHost::note_idle() {
  if (!has_calls()) load_.idle_since = std::chrono::steady_clock::now();
}

std::optional<std::chrono::milliseconds> SessionHost::idle() const {
  const std::lock_guard lock(mutex_);
  if (!serving_ || has_calls()) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               load_.idle_since);
}

bool SessionHost::is_abandoned(std::chrono::milliseconds lease) const {
  const std::lock_guard lock(mutex_);
  return !over_ && lease_.has_run_out(lease);
}

}  // namespace leat
