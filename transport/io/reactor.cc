#include "transport/io/reactor.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <future>
#include <thread>

#include "devices/base/patience.h"

namespace leat {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// The thread looks at Asio's context in every so many looks at the sockets, and at once if work was
// posted.
constexpr unsigned kLooksPerPoll = 16;
constexpr int kMostEvents = 64;

}  // namespace

// The thread's state. The watched descriptors are in an epoll set of their own: one call looks at
// all of them, and none is needed to go on watching, while Asio would have to be told anew after
// each event. Asio watches the set, so that the thread can sleep in one place.
struct Reactor::Loop {
  explicit Loop(std::chrono::microseconds spin)
      : patience(spin), set(::epoll_create1(EPOLL_CLOEXEC)), ready(context) {
    error_code error(EMFILE, boost::system::system_category());
    if (set) ready.assign(set.get(), error);
    failure = error.value();
  }
  ~Loop() {
    // The set's owner is `set`, which closes it.
    if (failure == 0) ready.release();
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "io");
    while (!context.stopped()) {
      if (look()) {
        patience.progress();
      } else if (!patience.look_again()) {
        park();
      }
    }
  }

  // Looks for work without waiting, and does it. True if there was some.
  bool look() {
    bool news = look_at_sockets();
    if (posted.load(std::memory_order_relaxed) || ++looks % kLooksPerPoll == 0) {
      // Before the posted work runs, so that a post meanwhile is seen next time.
      posted.store(false, std::memory_order_seq_cst);
      news = context.poll() > 0 || news;
    }
    return news;
  }
  bool look_at_sockets();

  // Sleeps until the set has an event, a timer is due or work is posted.
  void park() {
    if (!awaited && failure == 0) {
      awaited = true;
      ready.async_wait(asio::posix::descriptor_base::wait_read,
                       [this](const error_code&) { awaited = false; });
    }
    context.run_one();
  }

  void post(std::function<void()> work) {
    asio::post(context, std::move(work));
    posted.store(true, std::memory_order_seq_cst);
  }

  asio::io_context context{1};  // one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::atomic<bool> posted{false};
  Patience patience;
  const Descriptor set;
  // The error of making the set.
  int failure = 0;
  // The set, as Asio sees it.
  asio::posix::stream_descriptor ready;
  // A wait for `ready` is under way.
  bool awaited = false;
  unsigned looks = 0;
  // The events of the last look: those before `told` were given to their watches, out of `count`.
  std::array<epoll_event, kMostEvents> events;
  int told = 0, count = 0;
  std::thread thread;
};

// One watched descriptor. A post may hold it longer than the watch does.
// Threads: the reactor's, except for the constructor.
struct Reactor::Watch::State : std::enable_shared_from_this<State> {
  State(Reactor& owner, int fd, Watched& told) : reactor(owner), fd(fd), watched(&told) {}

  // Tells the set which events are wanted. Returns the system's error if the set has no room.
  int update() {
    epoll_event event{};
    event.events = (reading ? EPOLLIN : 0u) | (writing ? EPOLLOUT : 0u);
    event.data.ptr = this;
    const bool wanted = event.events != 0;
    const int operation = !wanted ? EPOLL_CTL_DEL : known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (!wanted && !known) return 0;
    if (reactor.loop_->failure != 0) return reactor.loop_->failure;
    if (::epoll_ctl(reactor.loop_->set.get(), operation, fd, &event) != 0) return errno;
    known = wanted;
    return 0;
  }
  void want(bool read, bool write) {
    if (reading == read && writing == write) return;
    reading = read;
    writing = write;
    static_cast<void>(update());
  }

  // Gives an event to the watcher. An error of the descriptor counts as readable and writable: the
  // watcher finds it by reading or writing.
  void ready(uint32_t events) {
    // The watcher may end the watch in either call, which must not destroy this object meanwhile.
    const auto self = shared_from_this();
    const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (reading && (broken || (events & EPOLLIN) != 0)) {
      const bool on = watched->readable();
      if (!watched) return;
      if (!on) want(false, writing);
    }
    if (writing && (broken || (events & EPOLLOUT) != 0)) {
      want(reading, false);
      watched->writable();
    }
  }

  // Ends the watch. Its events among those of the last look are dropped.
  void end() {
    watched = nullptr;
    want(false, false);
    Loop& loop = *reactor.loop_;
    for (int i = loop.told; i < loop.count; ++i) {
      epoll_event& event = loop.events[static_cast<size_t>(i)];
      if (event.data.ptr == this) event.data.ptr = nullptr;
    }
  }

  Reactor& reactor;
  const int fd;
  // Null when the watch has ended.
  Watched* watched;
  bool reading = true, writing = false;
  // The set has the descriptor.
  bool known = false;
};

bool Reactor::Loop::look_at_sockets() {
  count = std::max(0, ::epoll_wait(set.get(), events.data(), kMostEvents, 0));
  for (told = 0; told < count;) {
    const epoll_event event = events[static_cast<size_t>(told++)];
    if (event.data.ptr) static_cast<Watch::State*>(event.data.ptr)->ready(event.events);
  }
  return count > 0;
}

Reactor::Watch::~Watch() {
  state_->reactor.sync([this] { state_->end(); });
}

// The state is the reactor's, so the request goes there.
void Reactor::Watch::want_write() {
  state_->reactor.loop_->post([state = state_] {
    if (state->watched) state->want(state->reading, true);
  });
}

void Reactor::Watch::read_again() {
  state_->reactor.loop_->post([state = state_] {
    if (state->watched && state->reading) state->ready(EPOLLIN);
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
  auto state = std::make_shared<Watch::State>(*this, fd, watched);
  int error = 0;
  sync([&] { error = state->update(); });
  if (error != 0) return system_error("watching a socket", error);
  return std::unique_ptr<Watch>(new Watch(std::move(state)));
}

void Reactor::post(std::function<void()> work) { loop_->post(std::move(work)); }

// The timer lives until it fires. A stopped context drops it with its work.
void Reactor::post_after(std::chrono::milliseconds delay, std::function<void()> work) {
  auto timer = std::make_shared<asio::steady_timer>(loop_->context, delay);
  timer->async_wait([timer, work = std::move(work)](const error_code& error) {
    if (!error) work();
  });
}

void Reactor::sync(const std::function<void()>& work) {
  if (is_this_thread()) return work();
  // Shared, because the waiting thread may be gone before set_value() returns.
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> waited = done->get_future();
  loop_->post([&work, done] {
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
