// A small HTTP/1.1 server for the status of a daemon. It answers GET and HEAD, and perhaps POST,
// from a table of routes. Clients cannot use up the daemon: every connection has a deadline in
// every state, a header has at most 8 KiB, unread responses take a bounded amount of memory, and a
// connection's request is answered before the next one is read. When all connections are in use,
// the one that has been idle for longest is closed for a new one. Without free descriptors, the
// server accepts again a little later.
//
// http_gate.h has the rules for requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/status/http.h"
#include "daemon/status/http_gate.h"
#include "daemon/status/http_tls.h"
#include "daemon/status/metrics_text.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// Counts the work of one or more servers. Threads: any.
struct HttpCounters {
  std::atomic<uint64_t> connections{0};  // accepted
  std::atomic<uint64_t> open{0};         // now
  std::atomic<uint64_t> streams{0};      // of these, with a stream of events
  std::atomic<uint64_t> turned_away{0};  // because all connections were in use
  std::atomic<uint64_t> timed_out{0};
  std::atomic<uint64_t> requests{0};  // answered, also with an error
  std::atomic<uint64_t> refused{0};   // with a status of 400 or more
};
// Returns the counters as metrics for Prometheus.
std::vector<Metric> http_metrics(const HttpCounters& counters);

// The settings of a server.
struct HttpOptions {
  HttpPolicy policy;
  // The certificate; null: connections are in the clear.
  std::shared_ptr<HttpTls> tls;
  // From the first byte of a request, or from the connection, until the header is complete.
  std::chrono::milliseconds header_deadline{5'000};
  std::chrono::milliseconds idle_deadline{30'000};   // between requests
  std::chrono::milliseconds write_deadline{20'000};  // until the response is sent
  // After the last response, while the client may still send.
  std::chrono::milliseconds linger_deadline{1'000};
  size_t most_connections = 256;
  size_t most_header_bytes = 8 << 10;
  size_t most_output_bytes = 64 << 20;                 // of unsent responses, of all connections
  std::chrono::milliseconds body_deadline{30'000};     // of a POST, from its header on
  std::chrono::milliseconds answer_deadline{130'000};  // of a response that comes later
  size_t most_body_bytes = 32 << 20;                   // of one POST
  size_t most_input_bytes = 64 << 20;                  // of all that are being read
  size_t most_streams = 224;                           // connections with a stream of events
  std::chrono::milliseconds stream_pause{100};         // between two looks for new events
  std::chrono::milliseconds stream_silence{15'000};    // a stream without events sends a comment
  // Called for each request that the policy refuses: without the token, or of a foreign site.
  std::function<void(const std::string& client, const Status& why)> on_refused;
  Logger log;
  std::shared_ptr<HttpCounters> counters;  // null: the server makes its own
};

// A server that listens from open() until it is destroyed.
class HttpServer {
 public:
  // Listens at `address` ("127.0.0.1:17460", "[::1]:0", "unix:/path"), and calls the handlers on
  // the reactor's thread. The caller decides whether the address may be beyond loopback.
  // invalid_argument if the address is not valid, unavailable if it is in use. The reactor must
  // outlive the server.
  static Result<std::unique_ptr<HttpServer>> open(Reactor& reactor, const std::string& address,
                                                  std::vector<HttpRoute> routes,
                                                  HttpOptions options = {});
  // Closes all connections. No handler runs after it returns. Threads: any, but not from within a
  // handler.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Returns the address with the port that was bound.
  const std::string& address() const;
  const HttpCounters& counters() const;

 private:
  class Core;
  explicit HttpServer(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace leat
