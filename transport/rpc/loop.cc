#include "transport/rpc/loop.h"

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "devices/base/patience.h"
#include "devices/base/text.h"
#include "transport/rpc/loop_context.h"

namespace leat {
namespace {

// Passes KJ's log lines to our log. Its exceptions get no stack traces: a peer can cause errors,
// and walking the stack for each would let it choose how much work this process does.
class KjLog final : public kj::ExceptionCallback {
 public:
  explicit KjLog(const Logger& log) : log_(log) {}

  void logMessage(kj::LogSeverity severity, const char* file, int line, int,
                  kj::String&& text) override {
    (severity == kj::LogSeverity::INFO ? log_.debug(text.cStr())
                                       : log_.warning(text.cStr(), " (", file, ":", line, ")"));
  }
  StackTraceMode stackTraceMode() override { return StackTraceMode::NONE; }

 private:
  const Logger& log_;
};

// Logs the errors of tasks that no caller waits for.
class LoggedErrors final : public kj::TaskSet::ErrorHandler {
 public:
  explicit LoggedErrors(const Logger& log) : log_(log) {}
  void taskFailed(kj::Exception&& exception) override {
    log_.warning("a task of the rpc thread failed: ", exception.getDescription().cStr());
  }

 private:
  const Logger& log_;
};

// Threads that start during its lifetime begin with every signal blocked.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// The text of the exception that is being handled. REQUIRES: a catch block is active.
std::string describe_current_exception() {
  try {
    throw;
  } catch (const kj::Exception& error) {
    return error.getDescription().cStr();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

class RpcLoop::Thread {
 public:
  Thread(Logger log, std::chrono::microseconds spin) : log_(std::move(log)), patience_(spin) {}
  ~Thread() {
    stop();
    if (wake_ >= 0) ::close(wake_);
  }

  // Starts the thread and waits until its event loop exists, so that a failure is the caller's.
  Status start() {
    wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_ < 0) return resource_exhausted("rpc thread: no descriptor for its eventfd");
    // Shared, because start() may return while the new thread is still inside set_value().
    const auto ready = std::make_shared<std::promise<Status>>();
    auto started = ready->get_future();
    try {
      const BlockedSignals blocked;
      thread_ = std::thread([this, ready] { main(*ready); });
    } catch (const std::system_error& error) {
      return resource_exhausted(cat("rpc thread: cannot start it: ", error.what()));
    }
    return started.get();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake();
    // Several threads may stop the loop. All of them return when the thread is gone.
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  bool post(std::unique_ptr<Task> task) {
    bool first;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      // Only the first function of a batch costs a write to the eventfd.
      first = queue_.empty() && !taking_;
      queue_.push_back(std::move(task));
    }
    if (first) wake();
    return true;
  }

  bool is_current() const { return std::this_thread::get_id() == id_; }
  void wait_until_finished() {
    std::unique_lock lock(mutex_);
    finished_changed_.wait(lock, [this] { return finished_; });
  }

  LoopContext& context() { return *context_; }
  const Logger& log() const { return log_; }

 private:
  // Ends the thread's sleep. Any thread may call it.
  void wake() {
    const uint64_t one = 1;
    if (wake_ >= 0) (void)!::write(wake_, &one, sizeof(one));  // full is fine: it wakes, too
  }

  void main(std::promise<Status>& ready) {
    ::pthread_setname_np(::pthread_self(), "rpc");
    id_ = std::this_thread::get_id();
    bool told = false;
    try {
      // KJ finds the log through a list of the thread, so it must live on this stack while KJ is
      // used.
      const KjLog kj_log(log_);
      auto io = kj::setupAsyncIo();
      LoggedErrors errors(log_);
      serve(io, errors, [&] {
        ready.set_value(Status());
        told = true;
      });
    } catch (...) {
      const std::string why = describe_current_exception();
      if (told) {
        log_.error("the rpc thread ends: ", why);
      } else {
        ready.set_value(resource_exhausted(cat("rpc thread: cannot make its event loop: ", why)));
      }
    }
    finish();
  }

  // Destroys everything on the loop before it returns: first the tasks, which are the calls in
  // flight, then the objects, the newest first.
  template <typename Ready>
  void serve(kj::AsyncIoContext& io, LoggedErrors& errors, const Ready& ready) {
    LoopContext context{.io = io,
                        .timer = io.provider->getTimer(),
                        .tasks = *new_tasks(errors),
                        .log = log_,
                        .news = 0,
                        .next_id = 1,
                        .owned = {}};
    context_ = &context;
    // Promises go before the objects that they use, and new objects before older ones.
    KJ_DEFER({
      tasks_.reset();
      while (!context.owned.empty()) context.release(context.owned.rbegin()->first);
      context_ = nullptr;
    });
    kj::UnixEventPort::FdObserver readable(io.unixEventPort, wake_,
                                           kj::UnixEventPort::FdObserver::OBSERVE_READ);
    bool over = false;
    auto pump = take(readable).attach(kj::defer([&] { over = true; })).eagerlyEvaluate(nullptr);
    ready();
    kj::EventPort& port = io.unixEventPort;
    uint64_t news = 0;
    while (true) {
      kj::evalLast([] {}).wait(io.waitScope);  // after everything that is ready to run
      if (over) break;
      if (std::exchange(news, context.news) != context.news) patience_.progress();
      // A poll looks for descriptors without sleeping; the next round runs what they have made
      // ready.
      patience_.look_again() ? port.poll() : port.wait();
    }
    pump.wait(io.waitScope);
  }

  kj::TaskSet* new_tasks(LoggedErrors& errors) {
    tasks_.emplace(errors);
    return &*tasks_;
  }

  // Runs posted functions until the loop is closed and none is left.
  kj::Promise<void> take(kj::UnixEventPort::FdObserver& readable) {
    uint64_t count;
    (void)!::read(wake_, &count, sizeof(count));  // one read takes all wakes
    // Runs twice, for functions that posted functions post. Later ones wait until the connections
    // have had their turn.
    const bool closed = run_posted() || run_posted();
    {
      const std::lock_guard lock(mutex_);
      taking_ = false;
      if (!queue_.empty()) wake();
    }
    if (closed) return kj::READY_NOW;
    return readable.whenBecomesReadable().then([this, &readable] { return take(readable); });
  }

  // Runs what is posted now. Returns true if the loop is closed, so that nothing more can be
  // posted.
  bool run_posted() {
    std::deque<std::unique_ptr<Task>> tasks;
    bool closed;
    {
      const std::lock_guard lock(mutex_);
      // The functions run without the lock, because they may post others.
      tasks.swap(queue_);
      closed = closed_;
      taking_ = true;
    }
    context_->news += tasks.size();
    for (auto& task : tasks) {
      try {
        task->run();
        task.reset();  // destroys its captures before the next one runs
      } catch (...) {
        log_.error("a function posted to the rpc thread failed: ", describe_current_exception());
      }
    }
    return closed;
  }

  // Destroys the functions that were posted after the loop had ended, without running them.
  void finish() {
    std::deque<std::unique_ptr<Task>> left;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      left.swap(queue_);
    }
    // The functions are destroyed without the lock: their destructors may post, and are refused.
    left.clear();
    const std::lock_guard lock(mutex_);
    finished_ = true;
    finished_changed_.notify_all();
  }

  const Logger log_;
  int wake_ = -1;
  std::mutex mutex_;
  std::condition_variable finished_changed_;
  std::deque<std::unique_ptr<Task>> queue_;
  bool taking_ = false;  // the thread will see posted functions without a wake
  bool closed_ = false;
  bool finished_ = false;
  std::mutex join_mutex_;
  std::thread thread_;

  // Members of the loop's thread.
  std::atomic<std::thread::id> id_{};
  std::optional<kj::TaskSet> tasks_;
  LoopContext* context_ = nullptr;
  Patience patience_;
};

RpcLoop::RpcLoop(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
RpcLoop::~RpcLoop() = default;

Result<std::unique_ptr<RpcLoop>> RpcLoop::start(Logger log, std::chrono::microseconds spin) {
  auto thread = std::make_unique<Thread>(std::move(log), spin);
  LEAT_RETURN_IF_ERROR(thread->start());
  return std::unique_ptr<RpcLoop>(new RpcLoop(std::move(thread)));
}

void RpcLoop::stop() { thread_->stop(); }

bool RpcLoop::post_task(std::unique_ptr<Task> task) { return thread_->post(std::move(task)); }

bool RpcLoop::run(const std::function<void()>& function) {
  if (on_loop_thread()) {
    function();
    return true;
  }
  // If the loop ends before the function runs, this promise is broken, and get() throws.
  std::promise<void> done;
  auto ran = done.get_future();
  const bool posted = post([&function, done = std::move(done)]() mutable {
    try {
      function();
    } catch (...) {
      // The caller only waits for the end; the loop logs the exception.
      done.set_value();
      throw;
    }
    done.set_value();
  });
  if (posted) {
    try {
      ran.get();
      return true;
    } catch (const std::future_error&) {
    }
  }
  thread_->wait_until_finished();
  return false;
}

bool RpcLoop::on_loop_thread() const { return thread_->is_current(); }
LoopContext& RpcLoop::context() { return thread_->context(); }
const Logger& RpcLoop::log() const { return thread_->log(); }

}  // namespace leat
