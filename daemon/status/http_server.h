// A small HTTP/1.1 server for what a daemon says of itself: GET and HEAD, from a table of routes.
// Whoever can connect costs it little: every connection has a deadline in every state, a header is
// at most 8 KiB, responses that are not read take a bounded amount of memory, one request of a
// connection is answered before the next is read, and when all connections are in use the one that
// has been idle for longest makes room. Without descriptors it accepts again a little later.
//
// What requests must be like is in http_gate.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/status/http.h"
#include "daemon/status/http_gate.h"
#include "daemon/status/metrics_text.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// What servers have done. Threads: any.
struct HttpCounters {
  std::atomic<uint64_t> connections{0};  // accepted
  std::atomic<uint64_t> open{0};         // now
  std::atomic<uint64_t> turned_away{0};  // for want of a place
  std::atomic<uint64_t> timed_out{0};
  std::atomic<uint64_t> requests{0};  // answered, refused ones as well
  std::atomic<uint64_t> refused{0};   // with 400 or more
};
std::vector<Metric> http_metrics(const HttpCounters& counters);

struct HttpOptions {
  HttpPolicy policy;
  // From the first byte of a request, or from the connection, until the header is there.
  std::chrono::milliseconds header_deadline{5'000};
  std::chrono::milliseconds idle_deadline{30'000};   // between requests
  std::chrono::milliseconds write_deadline{20'000};  // until the response is sent
  // After the last response, for what the client still sends.
  std::chrono::milliseconds linger_deadline{1'000};
  size_t most_connections = 256;
  size_t most_header_bytes = 8 << 10;
  size_t most_output_bytes = 64 << 20;  // of responses that wait to be read, of all connections
  Logger log;
  std::shared_ptr<HttpCounters> counters;  // null: its own
};

class HttpServer {
 public:
  // Listens at `address` ("127.0.0.1:17460", "[::1]:0", "unix:/path"); its handlers are called on
  // the reactor's thread. Whether the address may be one beyond loopback is for the caller to
  // decide. invalid_argument for an address that is none, unavailable if it is taken. The reactor
  // outlives the server.
  static Result<std::unique_ptr<HttpServer>> open(Reactor& reactor, const std::string& address,
                                                  std::vector<HttpRoute> routes,
                                                  HttpOptions options = {});
  // Closes all connections. When it returns, no handler runs and none will. Threads: any but from
  // within a handler.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the port that was bound.
  const std::string& address() const;
  const HttpCounters& counters() const;

 private:
  class Core;
  explicit HttpServer(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace leat
