#include "transport/io/reactor.h"

#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>

#include "transport/io/patience.h"

namespace leat {

namespace asio = boost::asio;
using boost::system::error_code;

struct Reactor::Loop {
  explicit Loop(std::chrono::microseconds spin) : patience(spin) {}

  void run() {
    ::pthread_setname_np(::pthread_self(), "io");
    while (!context.stopped()) {
      if (context.poll() > 0) {
        patience.progress();
      } else if (!patience.look_again()) {
        context.run_one();
      }
    }
  }

  asio::io_context context{1};  // one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  Patience patience;
  std::thread thread;
};

struct Reactor::Watch::State : std::enable_shared_from_this<State> {
  State(Reactor& owner, Watched& told)
      : reactor(owner), descriptor(owner.context()), watched(&told) {}

  void await_read() {
    descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                          [self = shared_from_this()](const error_code& error) {
                            if (error || !self->watched) return;
                            if (self->watched->readable() && self->watched) self->await_read();
                          });
  }
  void await_write() {
    descriptor.async_wait(asio::posix::descriptor_base::wait_write,
                          [self = shared_from_this()](const error_code& error) {
                            if (!error && self->watched) self->watched->writable();
                          });
  }

  Reactor& reactor;
  asio::posix::stream_descriptor descriptor;
  Watched* watched;  // null when the watch is over
};

Reactor::Watch::~Watch() {
  state_->reactor.sync([this] {
    state_->watched = nullptr;
    if (state_->descriptor.is_open()) state_->descriptor.release();
  });
}

void Reactor::Watch::want_write() {
  asio::post(state_->reactor.context(), [state = state_] {
    if (state->watched) state->await_write();
  });
}

Reactor::Reactor(std::chrono::microseconds spin) : loop_(std::make_unique<Loop>(spin)) {
  loop_->thread = std::thread([loop = loop_.get()] { loop->run(); });
}

Reactor::~Reactor() {
  loop_->context.stop();
  loop_->thread.join();
}

Result<std::unique_ptr<Reactor::Watch>> Reactor::watch(int fd, Watched& watched) {
  auto state = std::make_shared<Watch::State>(*this, watched);
  error_code error;
  state->descriptor.assign(fd, error);
  if (error) return system_error("watching a socket", error.value());
  post([state] {
    if (state->watched) state->await_read();
  });
  return std::unique_ptr<Watch>(new Watch(std::move(state)));
}

void Reactor::post(std::function<void()> work) { asio::post(loop_->context, std::move(work)); }

void Reactor::post_after(std::chrono::milliseconds delay, std::function<void()> work) {
  auto timer = std::make_shared<asio::steady_timer>(loop_->context, delay);
  timer->async_wait([timer, work = std::move(work)](const error_code& error) {
    if (!error) work();
  });
}

void Reactor::sync(const std::function<void()>& work) {
  if (is_this_thread()) return work();
  // Shared: the waiter may be gone before set_value() returns.
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> waited = done->get_future();
  asio::post(loop_->context, [&work, done] {
    work();
    done->set_value();
  });
  waited.wait();
}

bool Reactor::is_this_thread() const {
  return loop_->thread.get_id() == std::this_thread::get_id();
}

boost::asio::io_context& Reactor::context() { return loop_->context; }

}  // namespace leat
