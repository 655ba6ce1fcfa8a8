#include "daemon/master/lasting_host.h"

#include "devices/base/text.h"

namespace leat {
namespace {

// A session without a call for this long is told to be idle: one whose client sends one step after
// the other is not.
constexpr std::chrono::milliseconds kQuiet{100};

}  // namespace

LastingHost::LastingHost(SessionOptions options, ReadGraph read_graph, SessionRecord record,
                         std::shared_ptr<TaskThread> notes)
    : SessionHost(record.job, std::move(options), std::move(read_graph)),
      lasting_(this->options(), read_graph_, std::move(record)),
      notes_(std::move(notes)) {}

// Calls -------------------------------------------------------------------------------------------

template <typename T, typename F>
std::shared_ptr<SessionHost::Call> LastingHost::ask(Done<T> done, F question) {
  const auto call = std::make_shared<Call>();
  enqueue({call, [done, question = std::move(question)](Session*) { done(question()); }, done});
  return call;
}

std::shared_ptr<SessionHost::Call> LastingHost::extend(LoggedGraph graph, Done<uint64_t> done) {
  return ask<uint64_t>(std::move(done),
                       [this, graph = std::move(graph)] { return lasting_.extend(graph); });
}

std::shared_ptr<SessionHost::Call> LastingHost::make_callable(Signature signature,
                                                              Done<CallableId> done) {
  return ask<CallableId>(std::move(done), [this, signature = std::move(signature)] {
    return lasting_.make_callable(signature);
  });
}

std::shared_ptr<SessionHost::Call> LastingHost::release_callable(CallableId id,
                                                                 std::function<void(Status)> done) {
  const auto call = std::make_shared<Call>();
  enqueue({call, [this, id, done](Session*) { done(lasting_.release_callable(id)); }, done});
  return call;
}

std::shared_ptr<SessionHost::Call> LastingHost::state(Done<State> done) {
  return ask<State>(std::move(done), [this]() -> Result<State> {
    return State{lasting_.steps(), lasting_.version()};
  });
}

std::shared_ptr<SessionHost::Call> LastingHost::outcome(uint64_t number, Done<Fetches> done) {
  return ask<Fetches>(std::move(done), [this, number] { return lasting_.outcome(number); });
}

std::shared_ptr<SessionHost::Call> LastingHost::save(std::function<void(Status)> done) {
  const auto call = std::make_shared<Call>();
  enqueue({call, [this, done](Session*) { done(lasting_.save()); }, done});
  return call;
}

// Steps -------------------------------------------------------------------------------------------

std::shared_ptr<SessionHost::Call> LastingHost::run(HostedRequest request, Done<Fetches> done) {
  const auto step = std::make_shared<AskedStep>(std::move(request), done);
  enqueue({step, [this, step](Session*) { do_step(step); }, std::move(done)});
  return step;
}

// The client asks for the outcome when it comes back.
void LastingHost::drop(const std::shared_ptr<Call>& /*step*/) {}

void LastingHost::cancel(const std::shared_ptr<Call>& call) {
  const auto step = std::static_pointer_cast<AskedStep>(call);
  step->cancelled = true;
  lasting_.cancel(step->request.number);
}

void LastingHost::do_step(const std::shared_ptr<AskedStep>& step) {
  const HostedRequest& request = step->request;
  auto feeds = request.feeds();
  if (!feeds.ok()) return step->done(feeds.status());
  if (step->cancelled && request.number > lasting_.steps()) {
    return step->done(cancelled(cat("step ", request.number, " of session '", options().name,
                                    "' was cancelled before it began")));
  }
  LoggedStep logged{request.number, request.what, request.timeout, std::move(*feeds)};
  logged.answered = request.answered;
  StepOutcome outcome = lasting_.run(std::move(logged));
  // Then the step is in the record, or was not taken, and the next serve() does it.
  redo_ = !lasting_.cause().ok() && outcome.status().code() == Code::unavailable;
  if (!redo_) step->done(std::move(outcome));
}

// Life --------------------------------------------------------------------------------------------

bool LastingHost::take_over(const std::string& client) {
  const bool taken = lease_.take_over(client);
  // One task is enough for all the clients that come before it begins.
  if (lease_.all_written() || asked_.exchange(true)) return taken;
  const auto self = std::static_pointer_cast<LastingHost>(shared_from_this());
  notes_->post([self] {
    self->asked_ = false;
    (void)self->note_clients();
  });
  return taken;
}

Status LastingHost::note_clients() {
  const std::lock_guard lock(noting_);
  if (lease_.all_written()) return {};
  const auto unwritten = lease_.unwritten();
  LEAT_ASSIGN_OR_RETURN(const SharedLog::Use log, lasting_.log().open());
  const Status written = log->add_clients(unwritten.clients, SessionLease::kMostClients);
  if (written.ok()) lease_.written(unwritten);
  return written;
}

// A disk that is full for now does not end the session.
void LastingHost::note_clients(const SessionRun& run) {
  const Status written = note_clients();
  if (written.ok()) return;
  run.warn(
      cat("the record of session '", options().name, "' lacks its client: ", written.message()));
}

void LastingHost::await_call(std::unique_lock<std::mutex>& lock, const SessionRun& run) {
  const auto here = [&] { return over_ || run.ended() || !tasks_.empty(); };
  if (changed_.wait_for(lock, kQuiet, here)) return;
  lock.unlock();
  run.taken(lasting_.steps(), true);
  lock.lock();
  changed_.wait(lock, here);
}

void LastingHost::work(const SessionRun& run) {
  note_clients(run);
  std::unique_lock lock(mutex_);
  while (lasting_.cause().ok()) {
    await_call(lock, run);
    if (over_ || run.ended()) return;
    // It stays first in the queue while it is done, and calls that come go behind it.
    const Task task = tasks_.front();
    ++load_.busy;
    redo_ = false;
    lock.unlock();
    note_clients(run);
    run.taken(lasting_.steps(), false);
    if (!task.call->dropped()) task.work(nullptr);
    run.taken(lasting_.steps(), false);
    if (std::string warning = lasting_.take_warning(); !warning.empty()) run.warn(warning);
    lock.lock();
    --load_.busy;
    if (!redo_) tasks_.pop_front();
    note_idle();
  }
}

Status LastingHost::serve(HostGroup& hosts, const SessionRun& run) {
  const auto ends = [&] {
    const std::lock_guard lock(mutex_);
    return over_ || run.ended();
  };
  const Status resumed = lasting_.resume(hosts, ends);
  if (resumed.ok()) {
    bool idle = false;
    {
      const std::lock_guard lock(mutex_);
      serving_ = true;
      idle = tasks_.empty();
      note_idle();
    }
    run.taken(lasting_.steps(), idle);
    work(run);
  }
  lasting_.suspend();
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
    over = over_;
  }
  if (over) {
    answer_all();
    return cause_;  // which stays
  }
  const std::string subject = cat("session '", options().name, "'");
  if (run.ended()) return cancelled(subject + " left its workers");
  if (resumed.ok()) return unavailable(cat(subject, ": ", lasting_.cause().message()));
  return resumed.while_doing("resuming " + subject);
}

void LastingHost::answer_all() {
  std::deque<Task> tasks;
  std::vector<std::function<void(Status)>> closers;
  Status before, end;
  {
    const std::lock_guard lock(mutex_);
    served_ = true;
    tasks.swap(tasks_);
    closers.swap(closers_);
    before = cause_before();
    end = cause_;
  }
  // It was closed. After another end, for instance that of the master, it may go on.
  if (end.ok()) lasting_.forget();
  for (const Task& task : tasks) task.refuse(before);
  for (const auto& done : closers) done(end);
}

void LastingHost::halt() {
  lasting_.halt();
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace leat
