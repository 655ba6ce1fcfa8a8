#include "daemon/status/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <tuple>

#include "daemon/status/http_request.h"
#include "daemon/status/pending_response.h"
#include "devices/base/text.h"
#include "transport/io/handshake.h"
#include "transport/rpc/socket.h"

namespace leat {

namespace asio = boost::asio;
using asio::awaitable;
using boost::system::error_code;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;
using Stream = asio::generic::stream_protocol;

namespace {

// An operation with this token returns its error instead of throwing it.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 4096;
constexpr size_t kMostDrained = 64 << 10;  // of input that is discarded after the last response
constexpr int kBurst = 16;  // connections accepted in a row, before other work gets a turn
constexpr milliseconds kBackOff{100};

bool is_out_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string date_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return http_date(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

}  // namespace

// Listens, and counts what all connections use together. A coroutine accepts connections, and each
// connection is a coroutine of its own, so that its life reads from top to bottom.
// Threads: the reactor's, except for the constructor, close() and constant members.
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
  HttpTls* tls() const { return options_.tls.get(); }
  Status start(Descriptor listening);
  // Ends all connections, from any thread but that of a handler.
  void close();

 private:
  class Connection;

  awaitable<void> accept_all();
  bool accept_some();
  void admit(Descriptor socket);
  bool end_idlest();
  void turn_away(const Descriptor& socket);

  Reactor& reactor_;
  const std::string address_;
  const std::vector<HttpRoute> routes_;
  HttpOptions options_;
  asio::posix::stream_descriptor listening_;
  std::map<uint64_t, std::shared_ptr<Connection>> connections_;
  uint64_t next_id_ = 0;
  size_t output_bytes_ = 0;  // of responses that are not sent yet
  size_t input_bytes_ = 0;   // of bodies that are being read
  bool starved_ = false;     // of descriptors
};

// Counts a stream while it is open.
class OpenStream {
 public:
  explicit OpenStream(HttpCounters& counters) : counters_(counters) { ++counters_.streams; }
  ~OpenStream() { --counters_.streams; }
  OpenStream(const OpenStream&) = delete;

 private:
  HttpCounters& counters_;
};

// Counts bytes of input while they are read.
class Reserved {
 public:
  Reserved(size_t& sum, size_t bytes) : sum_(sum), bytes_(bytes) { sum_ += bytes_; }
  ~Reserved() { sum_ -= bytes_; }
  Reserved(const Reserved&) = delete;

 private:
  size_t& sum_;
  const size_t bytes_;
};

// Forgets a timer that a response was to wake, when its connection no longer waits.
struct Waiter {
  PendingResponse& pending;
  std::shared_ptr<asio::steady_timer*> timer;
  ~Waiter() {
    pending.on_response({});
    *timer = nullptr;
  }
};

// One connection: it reads a request, answers it, and reads the next one when the client has taken
// the response.
class HttpServer::Core::Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Core> core, uint64_t id)
      : core_(std::move(core)), id_(id), socket_(core_->reactor_.context()) {}

  Status start(Descriptor socket) {
    const int one = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    const SocketAddress client = remote_address(socket.get());
    if (client.storage.ss_family != AF_UNIX) client_ = client.to_string();
    error_code error;
    socket_.assign(Stream(AF_UNSPEC, 0), socket.get(), error);
    if (error) return system_error("a connection", error.value());
    socket.release();
    if (core_->tls()) {
      tls_context_ = core_->tls()->context();
      tls_.emplace(socket_, *tls_context_);
    }
    enter(true);
    asio::co_spawn(
        core_->reactor_.context(), [self = shared_from_this()] { return self->serve(); },
        asio::detached);
    return {};
  }

  // True if the connection can end without loss: no byte of a request has arrived, or all requests
  // are answered.
  bool is_idle() const { return idle_; }
  Steady::time_point since() const { return since_; }
  // The coroutine returns at its next turn.
  void end() {
    if (!socket_.is_open()) return;
    error_code ignored;
    socket_.close(ignored);
    --core_->counters().open;
    core_->connections_.erase(id_);
  }

 private:
  using Outcome = std::tuple<error_code, size_t>;  // of reading or writing: the bytes

  void enter(bool idle) {
    idle_ = idle;
    since_ = Steady::now();
  }

  // The three operations of the socket, or of the TLS over it.
  awaitable<Outcome> read_some(asio::mutable_buffer bytes) {
    if (tls_) co_return co_await tls_->async_read_some(bytes, kAwait);
    co_return co_await socket_.async_read_some(bytes, kAwait);
  }
  awaitable<Outcome> write_all(const std::string& output) {
    if (tls_) co_return co_await asio::async_write(*tls_, asio::buffer(output), kAwait);
    co_return co_await asio::async_write(socket_, asio::buffer(output), kAwait);
  }
  // Tells the client that nothing more comes. With TLS it also waits for the client's word.
  awaitable<Outcome> say_end() {
    error_code error;
    if (tls_) {
      std::tie(error) = co_await tls_->async_shutdown(kAwait);
    }
    error_code ignored;
    socket_.shutdown(Stream::socket::shutdown_send, ignored);
    co_return Outcome(error, 0);
  }
  awaitable<Outcome> shake_hands() {
    const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
    co_return Outcome(error, 0);
  }

  awaitable<void> serve() {
    if (tls_) {
      const auto [error, none] = co_await within(core_->options_.header_deadline, shake_hands());
      if (error) co_return end();
      enter(true);
    }
    milliseconds patience = core_->options_.header_deadline;
    for (bool last = false; !last;) {
      std::optional<HttpParse> parse = co_await next_request(patience);
      if (!parse) co_return end();
      last = parse->refusal || !parse->request->keep_alive;
      const bool head = parse->request && parse->request->method == "HEAD";
      if (parse->request && parse->request->content_length > 0) {
        parse->refusal = co_await read_body(*parse);
        last = last || parse->refusal;
      }
      HttpResponse response = answer(std::move(*parse));
      // Counted at once: others ask before this head is sent.
      std::optional<OpenStream> counted;
      if (response.stream) counted.emplace(core_->counters());
      if (response.pending) response = bounded(co_await later(std::move(response.pending)));
      last = last || response.stream;
      if (!co_await send(http_message(response, head, !last, date_now()))) co_return end();
      if (response.stream && !head && !co_await stream(*response.stream)) co_return end();
      enter(last || input_.empty());
      patience = idle_ ? core_->options_.idle_deadline : core_->options_.header_deadline;
    }
    co_await linger();
    end();
  }

  // Waits for `operation`, but no longer than `patience` from since_. The error is timed_out after
  // that, and operation_aborted if the connection has ended meanwhile.
  awaitable<Outcome> within(milliseconds patience, awaitable<Outcome> operation) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(socket_.get_executor(), since_ + patience);
    const auto first = co_await (std::move(operation) || deadline.async_wait(kAwait));
    if (!socket_.is_open()) co_return Outcome(asio::error::operation_aborted, 0);
    if (first.index() == 0) co_return std::get<0>(first);
    ++core_->counters().timed_out;
    co_return Outcome(asio::error::timed_out, 0);
  }

  // Returns the next request, or why it is refused; nothing if the client has left, or has begun no
  // request before its deadline. `patience`: until the first byte.
  awaitable<std::optional<HttpParse>> next_request(milliseconds patience) {
    const HttpOptions& options = core_->options_;
    while (true) {
      HttpParse parse = parse_http_request(input_, options.most_header_bytes);
      if (parse.request || parse.refusal) co_return parse;
      char bytes[kReadBytes];
      const auto [error, n] =
          co_await within(patience, read_some(asio::buffer(bytes, sizeof bytes)));
      if (error == asio::error::timed_out && !input_.empty()) {
        parse.refusal = http_error(408, cat("expected the header of a request within ",
                                            options.header_deadline.count(), " ms"));
        co_return parse;
      }
      if (error) co_return std::nullopt;
      if (input_.empty()) {
        enter(false);
        patience = options.header_deadline;
      }
      input_.append(bytes, n);
    }
  }

  // Reads the body of a POST behind its head. Returns why it is refused, which is then the last
  // answer.
  awaitable<std::optional<HttpResponse>> read_body(HttpParse& parse) {
    const HttpOptions& options = core_->options_;
    HttpRequest& request = *parse.request;
    if (auto refusal = refuse_head(request, core_->routes_, options.policy)) co_return refusal;
    const uint64_t size = request.content_length;
    if (size > options.most_body_bytes)
      co_return http_error(
          413, cat("body: expected at most ", options.most_body_bytes, " bytes, received ", size));
    if (size > options.most_input_bytes - core_->input_bytes_)
      co_return http_error(503, "too many requests are being read; try again later");
    const std::string* expects = request.header("expect");
    if (expects != nullptr && !equal_ignoring_case(*expects, "100-continue"))
      co_return http_error(417, cat("Expect: expected 100-continue, got '", *expects, "'"));
    if (expects != nullptr && !co_await send("HTTP/1.1 100 Continue\r\n\r\n"))
      co_return http_error(408, "the client takes no response");
    const Reserved reserved(core_->input_bytes_, size);
    enter(false);
    request.body.reserve(size);
    request.body = input_.substr(parse.bytes, size);  // the part that came with the head
    parse.bytes += request.body.size();
    while (request.body.size() < size) {
      char bytes[kReadBytes];
      const size_t most = std::min<size_t>(sizeof bytes, size - request.body.size());
      const auto [error, n] =
          co_await within(options.body_deadline, read_some(asio::buffer(bytes, most)));
      if (error)
        co_return http_error(
            408, cat("expected ", size, " bytes of a body within ", options.body_deadline.count(),
                     " ms, received ", request.body.size()));
      request.body.append(bytes, n);
    }
    co_return std::nullopt;
  }

  // Waits for a response that another thread finds.
  awaitable<HttpResponse> later(std::shared_ptr<PendingResponse> pending) {
    asio::steady_timer timer(socket_.get_executor(), core_->options_.answer_deadline);
    const auto shared = std::make_shared<asio::steady_timer*>(&timer);
    const Waiter waiter{*pending, shared};
    pending->on_response([executor = socket_.get_executor(), shared] {
      asio::post(executor, [shared] {
        if (*shared != nullptr) (*shared)->cancel();
      });
    });
    (void)co_await timer.async_wait(kAwait);
    auto response = pending->take();
    co_return response ? std::move(*response)
                       : http_error(504, "the request was taken, and its outcome is not known yet");
  }

  // Returns an error in place of a response for which there is no room.
  HttpResponse bounded(HttpResponse response) const {
    if (response.body.size() + core_->output_bytes_ <= core_->options_.most_output_bytes)
      return response;
    return http_error(503, "too many responses wait to be read");
  }

  HttpResponse answer(HttpParse parse) {
    HttpResponse response;
    if (parse.refusal) {
      response = std::move(*parse.refusal);
    } else {
      input_.erase(0, parse.bytes);
      parse.request->client = client_;
      response = answer_http(std::move(*parse.request), core_->routes_, core_->options_.policy);
    }
    response = bounded(std::move(response));
    if (response.stream && core_->counters().streams >= core_->options_.most_streams)
      response = http_error(503, cat("expected at most ", core_->options_.most_streams,
                                     " streams of events at once"));
    ++core_->counters().requests;
    if (response.status >= 400) ++core_->counters().refused;
    const bool by_policy =
        response.status == 401 || response.status == 403 || response.status == 421;
    if (by_policy && core_->options_.on_refused) {
      core_->options_.on_refused(
          client_, failed_precondition(cat("HTTP ", response.status, ": ", response.error)));
    }
    return response;
  }

  // Sends what the stream has, until it ends. Returns false if the client has left before, or does
  // not take what it gets.
  awaitable<bool> stream(HttpStream& stream) {
    Steady::time_point sent = Steady::now();
    while (true) {
      // Streams leave half of the room to other responses. One that is held back gets the newest
      // state later.
      const bool full = core_->output_bytes_ >= core_->options_.most_output_bytes / 2;
      std::string output = full ? std::string() : stream.next();
      // The comment shows the client, and proxies on the way, that the connection lives.
      if (output.empty() && Steady::now() - sent >= core_->options_.stream_silence)
        output = ":\n\n";
      if (!output.empty()) {
        if (!co_await send(std::move(output))) co_return false;
        sent = Steady::now();
      }
      if (stream.has_ended()) co_return true;
      if (!co_await pause()) co_return false;
    }
  }

  // Waits for the next look at a stream. Returns false if the client has closed the connection, or
  // has sent bytes, which no client of a stream does.
  awaitable<bool> pause() {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer timer(socket_.get_executor(), core_->options_.stream_pause);
    const auto first = co_await (timer.async_wait(kAwait) ||
                                 socket_.async_wait(Stream::socket::wait_read, kAwait));
    co_return socket_.is_open() && first.index() == 0;
  }

  // Returns false if the client does not take all of it.
  awaitable<bool> send(std::string output) {
    enter(false);
    core_->output_bytes_ += output.size();
    const auto [error, n] = co_await within(core_->options_.write_deadline, write_all(output));
    core_->output_bytes_ -= output.size();
    co_return !error;
  }

  // If the socket were closed while it has unread bytes, the connection would be reset, and the
  // client might lose the response.
  awaitable<void> linger() {
    auto [error, none] = co_await within(core_->options_.linger_deadline, say_end());
    char bytes[kReadBytes];
    for (size_t drained = 0, n = 0; !error && drained <= kMostDrained; drained += n)
      std::tie(error, n) =
          co_await within(core_->options_.linger_deadline,
                          socket_.async_read_some(asio::buffer(bytes, sizeof bytes), kAwait));
  }

  const std::shared_ptr<Core> core_;
  const uint64_t id_;
  std::string client_;  // its address; "" over a Unix socket
  Stream::socket socket_;
  std::shared_ptr<asio::ssl::context> tls_context_;
  std::optional<asio::ssl::stream<Stream::socket&>> tls_;
  bool idle_ = true;
  Steady::time_point since_;  // it is idle or busy
  std::string input_;         // not consumed yet
};

Status HttpServer::Core::start(Descriptor listening) {
  error_code error;
  listening_.assign(listening.get(), error);
  if (error) return system_error("listening on " + address_, error.value());
  listening.release();
  asio::co_spawn(
      reactor_.context(), [self = shared_from_this()] { return self->accept_all(); },
      asio::detached);
  return {};
}

void HttpServer::Core::close() {
  reactor_.sync([this] {
    error_code ignored;
    listening_.close(ignored);
    while (!connections_.empty()) connections_.begin()->second->end();
  });
}

awaitable<void> HttpServer::Core::accept_all() {
  while (listening_.is_open()) {
    const auto [error] =
        co_await listening_.async_wait(asio::posix::descriptor_base::wait_read, kAwait);
    if (!listening_.is_open() || (!error && accept_some())) continue;
    // New clients wait in the backlog meanwhile.
    asio::steady_timer pause(reactor_.context(), kBackOff);
    co_await pause.async_wait(kAwait);
  }
}

// Returns false if the process or the system has no room for another connection.
bool HttpServer::Core::accept_some() {
  for (int i = 0; i < kBurst; ++i) {
    Descriptor socket(
        ::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      starved_ = false;
      admit(std::move(socket));
    } else if (is_out_of_room(errno)) {
      if (!std::exchange(starved_, true))
        options_.log.warning("http: ", system_error("accepting a connection", errno).message());
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }  // else: that client has left, but the next one may be fine
  }
  return true;
}

void HttpServer::Core::admit(Descriptor socket) {
  ++counters().connections;
  if (connections_.size() >= options_.most_connections && !end_idlest()) {
    ++counters().turned_away;
    return turn_away(socket);
  }
  const auto connection = std::make_shared<Connection>(shared_from_this(), next_id_);
  if (const Status started = connection->start(std::move(socket)); !started.ok())
    return options_.log.warning("http: ", started.message());
  connections_.emplace(next_id_++, connection);
  ++counters().open;
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
  if (options_.tls) return;  // its client would not understand it
  const std::string bytes =
      http_message(http_error(503, "too many connections"), false, false, date_now());
  // The response fits into the empty send buffer.
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

std::vector<Metric> http_metrics(const HttpCounters& counters) {
  const auto metric = [](const char* name, const char* help, MetricKind kind, uint64_t value) {
    return Metric{name, help, kind, {{{}, static_cast<double>(value)}}};
  };
  constexpr auto kCounter = MetricKind::counter;
  return {
      metric("leat_http_connections_total", "Connections accepted", kCounter, counters.connections),
      metric("leat_http_connections", "Connections open", MetricKind::gauge, counters.open),
      metric("leat_http_streams", "Connections open with a stream of events", MetricKind::gauge,
             counters.streams),
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

HttpServer::~HttpServer() { core_->close(); }

const std::string& HttpServer::address() const { return core_->address(); }
const HttpCounters& HttpServer::counters() const { return core_->counters(); }

}  // namespace leat
