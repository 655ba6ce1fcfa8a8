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

// KJ's own log lines become ours, and its exceptions carry no stack traces: walking the stack for
// each error of a peer is work that the peer chooses.
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

class LoggedErrors final : public kj::TaskSet::ErrorHandler {
 public:
  explicit LoggedErrors(const Logger& log) : log_(log) {}
  void taskFailed(kj::Exception&& exception) override {
    log_.warning("a task of the rpc thread failed: ", exception.getDescription().cStr());
  }

 private:
  const Logger& log_;
};

// Threads that are started while this lives begin with every signal blocked.
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

  Status start() {
    wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_ < 0) return resource_exhausted("rpc thread: no descriptor for its eventfd");
    // Shared: this thread may be gone from here while the other is still in set_value().
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
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  bool post(std::unique_ptr<Task> task) {
    bool first;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
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
  void wake() {
    const uint64_t one = 1;
    if (wake_ >= 0) (void)!::write(wake_, &one, sizeof(one));  // full means awake already
  }

  void main(std::promise<Status>& ready) {
    ::pthread_setname_np(::pthread_self(), "rpc");
    id_ = std::this_thread::get_id();
    bool told = false;
    try {
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

  // Everything on the loop is destroyed when this returns: tasks (calls in flight) first, then the
  // objects, the newest first.
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
      kj::evalLast([] {}).wait(io.waitScope);  // after all that there is to do
      if (over) break;
      if (std::exchange(news, context.news) != context.news) patience_.progress();
      patience_.look_again() ? port.poll() : port.wait();
    }
    pump.wait(io.waitScope);
  }

  kj::TaskSet* new_tasks(LoggedErrors& errors) {
    tasks_.emplace(errors);
    return &*tasks_;
  }

  // Runs what is posted, for ever; done when the loop is closed and nothing is left.
  kj::Promise<void> take(kj::UnixEventPort::FdObserver& readable) {
    uint64_t count;
    (void)!::read(wake_, &count, sizeof(count));  // one takes all that was written
    // Twice, for what those post that were posted; what comes then lets the connections go first.
    const bool closed = run_posted() || run_posted();
    {
      const std::lock_guard lock(mutex_);
      taking_ = false;
      if (!queue_.empty()) wake();
    }
    if (closed) return kj::READY_NOW;
    return readable.whenBecomesReadable().then([this, &readable] { return take(readable); });
  }

  // True when nothing was, and is to be, posted any more.
  bool run_posted() {
    std::deque<std::unique_ptr<Task>> tasks;
    bool closed;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(queue_);
      closed = closed_;
      taking_ = true;
    }
    context_->news += tasks.size();
    for (auto& task : tasks) {
      try {
        task->run();
        task.reset();  // what it holds is let go of before the next one runs
      } catch (...) {
        log_.error("a function posted to the rpc thread failed: ", describe_current_exception());
      }
    }
    return closed;
  }

  // What was posted to a loop that could not go on is destroyed here, not run.
  void finish() {
    std::deque<std::unique_ptr<Task>> left;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      left.swap(queue_);
    }
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
  bool taking_ = false;  // what is posted is seen without a wake
  bool closed_ = false;
  bool finished_ = false;
  std::mutex join_mutex_;
  std::thread thread_;

  // The loop thread's own.
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
  // A promise that is broken, not kept, says that the loop ended with the function unrun.
  std::promise<void> done;
  auto ran = done.get_future();
  const bool posted = post([&function, done = std::move(done)]() mutable {
    function();
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
