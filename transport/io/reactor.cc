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

// The context is looked at with every so many looks at the sockets, if nobody has posted.
constexpr unsigned kLooksPerPoll = 16;
constexpr int kMostEvents = 64;

}  // namespace

// The watched descriptors are in an epoll set of their own, which costs one call for a look at all
// of them and none to go on watching; Asio's would be told anew after each event. Asio watches the
// set, for the thread to sleep in one place.
struct Reactor::Loop {
  explicit Loop(std::chrono::microseconds spin)
      : patience(spin), set(::epoll_create1(EPOLL_CLOEXEC)), ready(context) {
    error_code error(EMFILE, boost::system::system_category());
    if (set) ready.assign(set.get(), error);
    failure = error.value();
  }
  ~Loop() {
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

  bool look() {
    bool news = look_at_sockets();
    if (posted.load(std::memory_order_relaxed) || ++looks % kLooksPerPoll == 0) {
      posted.store(false, std::memory_order_seq_cst);  // before running what was posted
      news = context.poll() > 0 || news;
    }
    return news;
  }
  bool look_at_sockets();

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
  int failure = 0;                       // to make the set
  asio::posix::stream_descriptor ready;  // set's, which stays its owner
  bool awaited = false;                  // ready is
  unsigned looks = 0;
  std::array<epoll_event, kMostEvents> events;  // being told
  int told = 0, count = 0;                      // of events
  std::thread thread;
};

// Threads: the reactor's, but for its making.
struct Reactor::Watch::State : std::enable_shared_from_this<State> {
  State(Reactor& owner, int fd, Watched& told) : reactor(owner), fd(fd), watched(&told) {}

  // Has the set know what is wanted. An error when there is no room for it.
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

  // What is wrong with the descriptor is found out by reading or writing.
  void ready(uint32_t events) {
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

  // Nothing more is told, though it may be among the events already.
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
  Watched* watched;  // null when the watch is over
  bool reading = true, writing = false;
  bool known = false;  // to the set
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

void Reactor::Watch::want_write() {
  state_->reactor.loop_->post([state = state_] {
    if (state->watched) state->want(state->reading, true);
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
