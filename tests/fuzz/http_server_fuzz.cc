// Sends any bytes, in pieces of any size, to the status server of a master. It must answer each
// request as the parser and the routes do with all bytes at once, in order, and close after an
// invalid one. Nothing of the connection may be left.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/http_request.h"
#include "daemon/status/status_routes.h"
#include "tests/daemon/status/example_source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_directory.h"
#include "transport/io/handshake.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr size_t kHeaderBytes = 1 << 10;
constexpr size_t kMostInput = 16 << 10;  // the server drains four times as much

HttpOptions small_headers() {
  HttpOptions options;
  options.most_header_bytes = kHeaderBytes;
  return options;
}

struct Host {
  Host()
      : routes(status_routes(source, nullptr)),
        server(std::move(
            *open_status_server(reactor, "unix:" + (folder / "http"), source, small_headers()))) {}

  const TemporaryDirectory folder;
  ExampleSource source;
  const std::vector<HttpRoute> routes;
  Reactor reactor;
  std::unique_ptr<HttpServer> server;
};

struct Answer {
  int status = 0;
  bool head = false;
  bool streams = false;  // events follow until the connection ends
};

std::vector<Answer> expected_answers(std::string_view bytes, const Host& host) {
  std::vector<Answer> answers;
  for (bool goes_on = true; goes_on;) {
    HttpParse parse = parse_http_request(bytes, kHeaderBytes);
    if (parse.refusal) answers.push_back({parse.refusal->status});
    if (!parse.request) break;
    // This server takes no requests that write, and reads no body of a request that it refuses.
    goes_on = parse.request->keep_alive && parse.request->content_length == 0;
    const bool head = parse.request->method == "HEAD";
    const HttpResponse response = answer_http(std::move(*parse.request), host.routes, {});
    answers.push_back({response.status, head, response.stream != nullptr});
    if (response.stream) break;
    bytes.remove_prefix(parse.bytes);
  }
  return answers;
}

// Waits again after an interruption by the fuzzer's own timer.
bool await(pollfd& ready) {
  int n;
  do n = ::poll(&ready, 1, 10'000);
  while (n < 0 && errno == EINTR);
  return n == 1;
}

// Sends the pieces and reads until the server closes.
std::string converse(int socket, std::string_view bytes) {
  std::string received;
  for (size_t piece = 1;;) {
    pollfd ready{socket, static_cast<short>(bytes.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    require(await(ready), "a connection goes on");
    if (ready.revents & POLLOUT) {
      const ssize_t n =
          ::send(socket, bytes.data(), std::min(piece, bytes.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EPIPE) bytes = {};
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      piece = piece % 61 + 7;
      if (bytes.empty()) ::shutdown(socket, SHUT_WR);
    }
    if (ready.revents & (POLLIN | POLLHUP | POLLERR)) {
      char buffer[16 << 10];
      const ssize_t n = ::recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno == ECONNRESET)) return received;
      if (n > 0) received.append(buffer, static_cast<size_t>(n));
    }
  }
}

size_t content_length(std::string_view header) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const size_t at = header.find(kName);
  require(at != std::string_view::npos, "a response says how long it is");
  size_t length = 0;
  const char* begin = header.data() + at + kName.size();
  require(std::from_chars(begin, header.data() + header.size(), length).ec == std::errc{},
          "the length is a number");
  return length;
}

void check_received(std::string_view received, const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    const size_t end = received.find("\r\n\r\n");
    require(end != std::string_view::npos, "each request has an answer");
    const std::string_view header = received.substr(0, end + 4);
    require(header.starts_with("HTTP/1.1 " + std::to_string(answer.status) + " "),
            "the pieces do not change the answer");
    if (answer.streams) return;
    const size_t size = header.size() + (answer.head ? 0 : content_length(header));
    require(size <= received.size(), "a response is whole");
    received.remove_prefix(size);
  }
  require(received.empty(), "there is one answer to a request");
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min(size, kMostInput));
  if (bytes.empty()) return 0;
  Host host;
  {
    const auto socket =
        connect_socket(host.server->address(), std::chrono::steady_clock::now() + 10s);
    require(socket.ok(), "the server accepts");
    check_received(converse(socket->get(), bytes), expected_answers(bytes, host));
  }
  bool closed = false;
  for (int i = 0; i < 1000 && !closed; ++i) {
    host.reactor.sync([&] { closed = host.server->counters().open == 0; });
    if (!closed) ::poll(nullptr, 0, 1);
  }
  require(closed, "a connection ends with its client");
  return 0;
}
