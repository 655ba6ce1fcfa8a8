// A server that shows the example, and a client that says every byte itself.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/status_routes.h"
#include "tests/daemon/status/example_source.h"
#include "tests/eventually.h"
#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"

namespace leat {

using namespace std::chrono_literals;

struct HttpReply {
  int status = 0;                              // 0: the server closed the connection instead
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// Throws when nothing happens for 5 s. Threads: one, any.
class HttpClient {
 public:
  explicit HttpClient(const std::string& address);
  void send(std::string_view bytes);
  // The next response. `head`: it has no body.
  HttpReply reply(bool head = false);
  HttpReply get(const std::string& path, const std::string& headers = "");
  // Asks for a stream, and returns the head of the answer; the whole answer if it is an error.
  HttpReply open_stream(const std::string& path, const std::string& headers = "");
  // The next event of the stream, without the empty line behind it; "" at its end.
  std::string event();
  // Waits until the server closes; false if bytes come before, or nothing happens for 5 s.
  bool is_closed();
  const Descriptor& socket() const { return socket_; }

 private:
  bool receive();  // more bytes; false at the end of the connection

  std::string host_;
  Descriptor socket_;
  std::string read_;
};

// The server of a master over a free port.
struct StatusHost {
  explicit StatusHost(HttpOptions options = {});
  HttpReply get(const std::string& path, const std::string& headers = "");

  ExampleSource source;
  Reactor reactor;
  std::unique_ptr<HttpServer> server;
};

// How often `part` is in the text.
inline size_t count(std::string_view text, std::string_view part) {
  size_t times = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++times;
  return times;
}

}  // namespace leat
