#include "daemon/status/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <map>

#include "daemon/status/http_request.h"
#include "devices/base/text.h"
#include "transport/io/handshake.h"

namespace leat {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

namespace {

constexpr size_t kReadBytes = 4096;
constexpr size_t kMostDrained = 64 << 10;  // of input that is discarded after the last response
constexpr int kBurst = 16;                 // requests or connections in a row, before other work
                                           // gets a turn
constexpr milliseconds kBackOff{100};

bool is_out_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string date_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return http_date(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

}  // namespace

// Threads: the reactor's, except for the constructor and constant members.
class HttpServer::Core final : public std::enable_shared_from_this<Core> {
 public:
  Core(Reactor& reactor, std::string address, std::vector<HttpRoute> routes, HttpOptions options)
      : reactor_(reactor),
        address_(std::move(address)),
        routes_(std::move(routes)),
        options_(std::move(options)),
        listening_(reactor.context()) {
    if (!options_.counters) options_.counters = std::make_shared<HttpCounters>();
  }

  const std::string& address() const { return address_; }
  HttpCounters& counters() const { return *options_.counters; }
  Status start(Descriptor listening);
  void stop();

 private:
  class Connection;

  void await_connection();
  void accept();
  void admit(Descriptor socket);
  void back_off();
  bool end_idlest();
  void turn_away(const Descriptor& socket);
  void watch_deadlines();

  Reactor& reactor_;
  const std::string address_;
  const std::vector<HttpRoute> routes_;
  HttpOptions options_;
  asio::posix::stream_descriptor listening_;
  std::map<uint64_t, std::shared_ptr<Connection>> connections_;
  uint64_t next_id_ = 0;
  size_t output_bytes_ = 0;  // of responses that are not sent yet
  bool watches_deadlines_ = false;
  bool starved_ = false;  // of descriptors
  bool stopped_ = false;
  friend class HttpServer;
};

// One connection. It waits either for bytes or for room to write.
class HttpServer::Core::Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& core, uint64_t id) : core_(core), id_(id), socket_(core.reactor_.context()) {}

  Status start(Descriptor socket) {
    const int one = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    error_code error;
    socket_.assign(socket.get(), error);
    if (error) return system_error("a connection", error.value());
    socket.release();
    enter(State::header);
    await_input();
    return {};
  }

  // True if the connection can end without loss: no byte of a request has arrived, or all requests
  // are answered.
  bool is_idle() const {
    return state_ == State::idle || state_ == State::lingering ||
           (state_ == State::header && input_.empty());
  }
  Steady::time_point since() const { return since_; }
  void check_deadline(Steady::time_point now) {
    if (now - since_ < patience()) return;
    ++core_.counters().timed_out;
    if (state_ != State::header || input_.empty()) return end();
    HttpParse late;
    late.refusal = http_error(408, cat("expected the header of a request within ",
                                       core_.options_.header_deadline.count(), " ms"));
    error_code ignored;
    socket_.cancel(ignored);  // it waits for no more bytes
    answer(std::move(late));
    go_on();
  }
  // May destroy this connection when it returns.
  void end() {
    if (!socket_.is_open()) return;
    error_code ignored;
    socket_.close(ignored);
    core_.output_bytes_ -= reserved_;
    --core_.counters().open;
    core_.connections_.erase(id_);
  }

 private:
  enum class State { header, idle, writing, lingering };

  milliseconds patience() const {
    const HttpOptions& options = core_.options_;
    switch (state_) {
      case State::header:
        return options.header_deadline;
      case State::idle:
        return options.idle_deadline;
      case State::writing:
        return options.write_deadline;
      case State::lingering:
        return options.linger_deadline;
    }
    return {};
  }
  void enter(State state) {
    state_ = state;
    since_ = Steady::now();
  }

  void await_input() {
    socket_.async_wait(asio::posix::descriptor_base::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (!error && self->socket_.is_open()) self->read();
                       });
  }
  void await_room() {
    socket_.async_wait(asio::posix::descriptor_base::wait_write,
                       [self = shared_from_this()](const error_code& error) {
                         if (!error && self->socket_.is_open() && self->flush()) self->go_on();
                       });
  }

  void read() {
    char bytes[kReadBytes];
    const ssize_t n = ::recv(socket_.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return await_input();
    if (n <= 0) return end();
    if (state_ == State::lingering) {
      drained_ += static_cast<size_t>(n);
      return drained_ > kMostDrained ? end() : await_input();
    }
    if (state_ == State::idle || input_.empty()) enter(State::header);
    input_.append(bytes, static_cast<size_t>(n));
    go_on();
  }

  // Answers the requests that have arrived, one after the other, while the client reads.
  void go_on() {
    for (int i = 0; i < kBurst; ++i) {
      if (!socket_.is_open() || !flush()) return;
      if (last_) return linger();
      HttpParse parse = parse_http_request(input_, core_.options_.most_header_bytes);
      if (!parse.request && !parse.refusal) {
        if (state_ == State::writing) enter(input_.empty() ? State::idle : State::header);
        return await_input();
      }
      answer(std::move(parse));
    }
    asio::post(core_.reactor_.context(), [self = shared_from_this()] { self->go_on(); });
  }

  void answer(HttpParse parse) {
    HttpResponse response;
    bool head = false;
    if (parse.refusal) {
      response = std::move(*parse.refusal);
      last_ = true;
    } else {
      head = parse.request->method == "HEAD";
      last_ = !parse.request->keep_alive;
      input_.erase(0, parse.bytes);
      response = answer_http(std::move(*parse.request), core_.routes_, core_.options_.policy);
    }
    if (response.body.size() + core_.output_bytes_ > core_.options_.most_output_bytes)
      response = http_error(503, "too many responses wait to be read");
    ++core_.counters().requests;
    if (response.status >= 400) ++core_.counters().refused;
    output_ = http_message(response, head, !last_, date_now());
    sent_ = 0;
    reserved_ = output_.size();
    core_.output_bytes_ += reserved_;
    enter(State::writing);
  }

  // Returns true if nothing is left to send.
  bool flush() {
    while (sent_ < output_.size()) {
      const ssize_t n = ::send(socket_.native_handle(), output_.data() + sent_,
                               output_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        await_room();
        return false;
      }
      if (n < 0) {
        end();
        return false;
      }
      sent_ += static_cast<size_t>(n);
    }
    output_ = {};
    sent_ = 0;
    core_.output_bytes_ -= std::exchange(reserved_, 0);
    return true;
  }

  // If the socket were closed while it has unread bytes, the connection would be reset, and the
  // client might lose the response.
  void linger() {
    ::shutdown(socket_.native_handle(), SHUT_WR);
    enter(State::lingering);
    input_ = {};
    await_input();
  }

  Core& core_;
  const uint64_t id_;
  asio::posix::stream_descriptor socket_;
  State state_ = State::header;
  Steady::time_point since_;
  std::string input_;
  std::string output_;
  size_t sent_ = 0;
  size_t reserved_ = 0;  // of the core's output_bytes_
  bool last_ = false;    // the connection ends with this response
  size_t drained_ = 0;
};

Status HttpServer::Core::start(Descriptor listening) {
  error_code error;
  listening_.assign(listening.get(), error);
  if (error) return system_error("listening on " + address_, error.value());
  listening.release();
  await_connection();
  return {};
}

void HttpServer::Core::stop() {
  stopped_ = true;
  error_code ignored;
  listening_.close(ignored);
  while (!connections_.empty()) connections_.begin()->second->end();
}

void HttpServer::Core::await_connection() {
  listening_.async_wait(asio::posix::descriptor_base::wait_read,
                        [self = shared_from_this()](const error_code& error) {
                          if (self->stopped_) return;
                          if (error) return self->back_off();
                          self->accept();
                        });
}

void HttpServer::Core::accept() {
  for (int i = 0; i < kBurst; ++i) {
    Descriptor socket(
        ::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      starved_ = false;
      admit(std::move(socket));
    } else if (is_out_of_room(errno)) {
      if (!std::exchange(starved_, true))
        options_.log.warning("http: ", system_error("accepting a connection", errno).message());
      return back_off();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }  // else: that client has left, but the next one may be fine
  }
  await_connection();
}

// New clients wait in the backlog meanwhile.
void HttpServer::Core::back_off() {
  reactor_.post_after(kBackOff, [weak = weak_from_this()] {
    const auto core = weak.lock();
    if (core && !core->stopped_) core->accept();
  });
}

void HttpServer::Core::admit(Descriptor socket) {
  ++counters().connections;
  if (connections_.size() >= options_.most_connections && !end_idlest()) {
    ++counters().turned_away;
    return turn_away(socket);
  }
  const uint64_t id = next_id_++;
  const auto connection = std::make_shared<Connection>(*this, id);
  connections_.emplace(id, connection);
  ++counters().open;
  if (const Status started = connection->start(std::move(socket)); !started.ok()) {
    connections_.erase(id);
    --counters().open;
    options_.log.warning("http: ", started.message());
    return;
  }
  if (!watches_deadlines_) watch_deadlines();
}

// Closes the connection that has been idle for longest. Returns false if none is idle.
bool HttpServer::Core::end_idlest() {
  std::shared_ptr<Connection> idlest;
  for (const auto& [id, connection] : connections_) {
    if (connection->is_idle() && (!idlest || connection->since() < idlest->since()))
      idlest = connection;
  }
  if (idlest) idlest->end();
  return idlest != nullptr;
}

void HttpServer::Core::turn_away(const Descriptor& socket) {
  const std::string bytes =
      http_message(http_error(503, "too many connections"), false, false, date_now());
  // The response fits into the empty send buffer.
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

// One timer serves all connections, while there are any.
void HttpServer::Core::watch_deadlines() {
  const milliseconds shortest = std::min({options_.header_deadline, options_.idle_deadline,
                                          options_.write_deadline, options_.linger_deadline});
  watches_deadlines_ = true;
  reactor_.post_after(std::clamp(shortest / 4, milliseconds(5), milliseconds(250)),
                      [weak = weak_from_this()] {
                        const auto core = weak.lock();
                        if (!core || core->stopped_) return;
                        const auto all = core->connections_;
                        const auto now = Steady::now();
                        for (const auto& [id, connection] : all) connection->check_deadline(now);
                        core->watches_deadlines_ = false;
                        if (!core->connections_.empty()) core->watch_deadlines();
                      });
}

std::vector<Metric> http_metrics(const HttpCounters& counters) {
  const auto metric = [](const char* name, const char* help, MetricKind kind, uint64_t value) {
    return Metric{name, help, kind, {{{}, static_cast<double>(value)}}};
  };
  constexpr auto kCounter = MetricKind::counter;
  return {
      metric("leat_http_connections_total", "Connections accepted", kCounter, counters.connections),
      metric("leat_http_connections", "Connections open", MetricKind::gauge, counters.open),
      metric("leat_http_connections_refused_total", "Connections turned away for want of a place",
             kCounter, counters.turned_away),
      metric("leat_http_timeouts_total", "Connections closed by a deadline", kCounter,
             counters.timed_out),
      metric("leat_http_requests_total", "Requests answered", kCounter, counters.requests),
      metric("leat_http_requests_refused_total", "Requests answered with an error", kCounter,
             counters.refused)};
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(Reactor& reactor, const std::string& address,
                                                     std::vector<HttpRoute> routes,
                                                     HttpOptions options) {
  LEAT_ASSIGN_OR_RETURN(ListeningSocket listening, listen_socket(address));
  auto core = std::make_shared<Core>(reactor, std::move(listening.address), std::move(routes),
                                     std::move(options));
  Status started;
  reactor.sync([&] { started = core->start(std::move(listening.socket)); });
  LEAT_RETURN_IF_ERROR(started);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::shared_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() {
  // Shared, because a handler that is already posted still uses it.
  core_->reactor_.sync([core = core_] { core->stop(); });
}

const std::string& HttpServer::address() const { return core_->address(); }
const HttpCounters& HttpServer::counters() const { return core_->counters(); }

}  // namespace leat
