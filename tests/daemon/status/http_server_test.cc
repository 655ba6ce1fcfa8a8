#include "daemon/status/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <thread>

#include "daemon/status/pending_response.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/temporary_directory.h"

using namespace leat;

namespace {

// "/" says "hello", "/large" 32 MiB.
struct Host {
  explicit Host(HttpOptions options = {}, const std::string& address = "127.0.0.1:0") {
    std::vector<HttpRoute> routes;
    routes.push_back({"/", [](const HttpRequest&) { return text("hello"); }});
    routes.push_back(
        {"/large", [](const HttpRequest&) { return text(std::string(32 << 20, 'x')); }});
    routes.push_back(
        {"/post", [](const HttpRequest& r) { return text("got " + r.body); }, false, "POST"});
    routes.push_back({"/later", [this](const HttpRequest&) { return wait(); }, false, "POST"});
    auto opened = HttpServer::open(reactor, address, std::move(routes), std::move(options));
    REQUIRE(opened.ok());
    server = std::move(*opened);
  }
  static HttpResponse text(std::string body) {
    HttpResponse response;
    response.type = "text/plain";
    response.body = std::move(body);
    return response;
  }
  HttpResponse wait() {
    HttpResponse response;
    response.pending = pending;
    return response;
  }
  const std::string& address() const { return server->address(); }
  uint64_t open() const { return server->counters().open; }

  std::shared_ptr<PendingResponse> pending = std::make_shared<PendingResponse>();
  Reactor reactor;
  std::unique_ptr<HttpServer> server;
};

HttpOptions with_writes() {
  HttpOptions options;
  options.policy.write_token = std::string(32, 'w');
  return options;
}

// The head of a POST with a body of `size` bytes, up to the empty line.
std::string post_head(const std::string& path, size_t size, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
         std::string(32, 'w') +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(size) + "\r\n" +
         more + "\r\n";
}

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

HttpOptions with(std::chrono::milliseconds HttpOptions::*deadline) {
  HttpOptions options;
  options.*deadline = 200ms;
  return options;
}

}  // namespace

TEST_CASE("a connection is kept for the next request") {
  Host host;
  HttpClient client(host.address());
  for (int i = 0; i < 3; ++i) {
    const HttpReply reply = client.get("/");
    CHECK(reply.status == 200);
    CHECK(reply.body == "hello");
    CHECK(reply.headers.at("connection") == "keep-alive");
  }
  CHECK(host.server->counters().connections == 1);
}

TEST_CASE("a client that asks to close is closed") {
  Host host;
  HttpClient client(host.address());
  CHECK(client.get("/", "Connection: close\r\n").headers.at("connection") == "close");
  CHECK(client.is_closed());
}

TEST_CASE("HEAD has the header of GET and no body") {
  Host host;
  HttpClient client(host.address());
  client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const HttpReply head = client.reply(true);
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == "5");
  CHECK(client.get("/").body == "hello");
}

TEST_CASE("requests sent at once are answered in order") {
  Host host;
  HttpClient client(host.address());
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += i % 3 == 0 ? "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" : std::string(kGet);
  client.send(all);
  for (int i = 0; i < 100; ++i) CHECK(client.reply().status == (i % 3 == 0 ? 404 : 200));
  CHECK(client.get("/").status == 200);
}

TEST_CASE("a request in single bytes is answered") {
  Host host;
  HttpClient client(host.address());
  for (const char c : kGet) client.send({&c, 1});
  CHECK(client.reply().body == "hello");
}

TEST_CASE("a client that has said all it will is answered") {
  Host host;
  HttpClient client(host.address());
  client.send(kGet);
  ::shutdown(client.socket().get(), SHUT_WR);
  CHECK(client.reply().body == "hello");
  CHECK(client.is_closed());
}

TEST_CASE("a connection that says nothing is closed") {
  Host host(with(&HttpOptions::header_deadline));
  HttpClient client(host.address());
  CHECK(client.is_closed());
  CHECK(host.server->counters().timed_out == 1);
}

TEST_CASE("half a request is told that it is late") {
  Host host(with(&HttpOptions::header_deadline));
  HttpClient client(host.address());
  client.send("GET / HTTP/1.1\r\nHost: ");
  CHECK(client.reply().status == 408);
  CHECK(client.is_closed());
}

TEST_CASE("a request that comes in drips does not move its deadline") {
  Host host(with(&HttpOptions::header_deadline));
  HttpClient client(host.address());
  client.send("GET / HTTP/1.1\r\n");
  pollfd answered{client.socket().get(), POLLIN, 0};
  size_t drips = 0;
  for (; drips < 1000 && ::poll(&answered, 1, 5) == 0; ++drips) client.send("A: b\r\n");
  CHECK(drips < 1000);
  CHECK(client.reply().status == 408);
}

TEST_CASE("a connection that is idle too long is closed") {
  Host host(with(&HttpOptions::idle_deadline));
  HttpClient client(host.address());
  CHECK(client.get("/").status == 200);
  CHECK(client.is_closed());
}

TEST_CASE("a client that does not read its response is closed") {
  Host host(with(&HttpOptions::write_deadline));
  HttpClient client(host.address());
  client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(eventually([&] { return host.server->counters().timed_out == 1; }));
  CHECK(eventually([&] { return host.open() == 0; }));
}

TEST_CASE("a client that goes on sending after its last response is closed") {
  Host host(with(&HttpOptions::linger_deadline));
  HttpClient client(host.address());
  CHECK(client.get("/", "Connection: close\r\n").status == 200);
  client.send("more");
  CHECK(eventually([&] { return host.open() == 0; }));
}

TEST_CASE("a large response arrives whole") {
  Host host;
  HttpClient client(host.address());
  const HttpReply reply = client.get("/large");
  CHECK(reply.body == std::string(32 << 20, 'x'));
  CHECK(client.get("/").body == "hello");
}

TEST_CASE("unread responses take so much memory and no more") {
  HttpOptions options;
  options.most_output_bytes = 40 << 20;
  Host host(options);
  HttpClient lazy(host.address()), eager(host.address());
  lazy.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(eventually([&] { return host.server->counters().requests == 1; }));
  CHECK(eager.get("/large").status == 503);
  CHECK(eager.get("/").status == 200);
  CHECK(lazy.reply().status == 200);
  CHECK(eager.get("/large").status == 200);
}

TEST_CASE("a header that is too large is told so, though the client goes on sending") {
  Host host;
  HttpClient client(host.address());
  client.send("GET / HTTP/1.1\r\nA: " + std::string(30'000, 'x'));
  CHECK(client.reply().status == 431);
  CHECK(client.is_closed());
}

TEST_CASE("a client that does not speak HTTP gets status 400 and is closed") {
  Host host;
  HttpClient client(host.address());
  client.send("\x16\x03\x01\x02\x00\x01");
  CHECK(client.reply().status == 400);
  CHECK(client.is_closed());
}

TEST_CASE("nothing after a refused request is looked at") {
  Host host;
  HttpClient client(host.address());
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n" +
              std::string(kGet));
  CHECK(client.reply().status == 405);
  CHECK(client.is_closed());
  CHECK(host.server->counters().requests == 1);
}

TEST_CASE("of 300 idle connections the oldest make room") {
  Host host;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(std::make_unique<HttpClient>(host.address()));
  // A connection is counted before it has its place.
  CHECK(
      eventually([&] { return host.server->counters().connections == 300 && host.open() == 256; }));
  CHECK(clients[0]->is_closed());
  CHECK(clients[43]->is_closed());
  CHECK(clients[44]->get("/").status == 200);
  CHECK(clients[299]->get("/").status == 200);
}

TEST_CASE("when every connection is busy one more is turned away") {
  HttpOptions options;
  options.most_connections = 2;
  options.most_output_bytes = 128 << 20;
  Host host(options);
  HttpClient one(host.address()), two(host.address());
  for (HttpClient* client : {&one, &two})
    client->send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(eventually([&] { return host.server->counters().requests == 2; }));
  HttpClient three(host.address());
  CHECK(three.reply().status == 503);
  CHECK(three.is_closed());
  CHECK(host.server->counters().turned_away == 1);
  CHECK(one.reply().status == 200);
  HttpClient four(host.address());
  CHECK(four.get("/").status == 200);
  CHECK(one.is_closed());
}

namespace {

// Opens descriptors until there are none.
class AllDescriptors {
 public:
  AllDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit fewer = before_;
    fewer.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &fewer);
    while (true) {
      Descriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!one) break;
      taken_.push_back(std::move(one));
    }
  }
  ~AllDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<Descriptor> taken_;
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

TEST_CASE("without descriptors the server neither ends nor spins, and then goes on") {
  Host host;
  HttpClient before(host.address());
  CHECK(before.get("/").status == 200);
  Descriptor late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto all = std::make_unique<AllDescriptors>();

  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<uint16_t>(std::stoi(host.address().substr(host.address().rfind(':') + 1))));
  REQUIRE(::connect(late.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  REQUIRE(::send(late.get(), kGet.data(), kGet.size(), 0) > 0);
  const double started = processor_seconds();
  pollfd answered{late.get(), POLLIN, 0};
  CHECK(::poll(&answered, 1, 400) == 0);
  CHECK(processor_seconds() - started < 0.2);
  CHECK(host.server->counters().connections == 1);
  CHECK(before.get("/").status == 200);

  all.reset();
  CHECK(::poll(&answered, 1, 5000) == 1);
  CHECK(host.server->counters().connections == 2);
}

TEST_CASE("an address that is taken or none is an error") {
  Host host;
  const auto taken = HttpServer::open(host.reactor, host.address(), {}, {});
  CHECK(taken.status().code() == Code::unavailable);
  CHECK_THAT(taken.status().message(), Catch::Contains(host.address()));
  CHECK(HttpServer::open(host.reactor, "nowhere", {}, {}).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("a server at a unix socket answers") {
  const TemporaryDirectory directory;
  Host host({}, "unix:" + directory / "http");
  HttpClient client(host.address());
  client.send(kGet);
  CHECK(client.reply().body == "hello");
}

TEST_CASE("a server that ends closes its connections") {
  Host host;
  HttpClient idle(host.address()), half(host.address()), lazy(host.address());
  CHECK(idle.get("/").status == 200);
  half.send("GET /");
  lazy.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(eventually([&] { return host.server->counters().requests == 2; }));
  host.server.reset();
  CHECK(idle.is_closed());
  CHECK(half.is_closed());
}

TEST_CASE("many clients ask at once", "[cluster]") {
  Host host;
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < 20; ++i) {
          HttpClient client(host.address());
          for (int k = 0; k < 5; ++k) answered += client.get("/").status == 200;
        }
      } catch (const std::exception&) {  // the count tells
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == 400);
  CHECK(host.server->counters().requests == 400);
}

TEST_CASE("a POST has its body, and the connection is kept") {
  Host host(with_writes());
  HttpClient client(host.address());
  for (const std::string body : {"{}", "{\"a\":1}"}) {
    client.send(post_head("/post", body.size()) + body);
    const HttpReply reply = client.reply();
    CHECK(reply.status == 200);
    CHECK(reply.body == "got " + body);
  }
  client.send(post_head("/post", 3) + "a");
  client.send("b");
  client.send("c" + std::string(kGet));  // the next request comes right behind the body
  CHECK(client.reply().body == "got abc");
  CHECK(client.reply().body == "hello");
  CHECK(host.server->counters().connections == 1);
}

TEST_CASE("a large body is asked for before it is sent") {
  Host host(with_writes());
  HttpClient client(host.address());
  const std::string body(3 << 20, 'x');
  client.send(post_head("/post", body.size(), "Expect: 100-continue\r\n"));
  CHECK(client.reply(true).status == 100);
  client.send(body);
  CHECK(client.reply().body == "got " + body);
}

TEST_CASE("a body that may not be sent is refused before it is read") {
  HttpOptions options = with_writes();
  options.most_body_bytes = 100;
  Host host(options);
  const auto status = [&](const std::string& head) {
    HttpClient client(host.address());
    client.send(head);
    const int status = client.reply().status;
    CHECK(client.is_closed());
    return status;
  };
  CHECK(status(post_head("/post", 101)) == 413);
  CHECK(status(post_head("/none", 50)) == 404);
  CHECK(status("POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n") == 401);
  CHECK(status(post_head("/post", 50, "Expect: magic\r\n")) == 417);
}

TEST_CASE("a body that does not come is told that it is late") {
  HttpOptions options = with_writes();
  options.body_deadline = 200ms;
  Host host(options);
  HttpClient client(host.address());
  client.send(post_head("/post", 5) + "abc");
  const HttpReply reply = client.reply();
  CHECK(reply.status == 408);
  CHECK_THAT(reply.body, Catch::Contains("expected 5 bytes of a body within 200 ms, received 3"));
}

TEST_CASE("bodies together take so much memory and no more") {
  HttpOptions options = with_writes();
  options.most_input_bytes = 100;
  Host host(options);
  HttpClient first(host.address()), second(host.address());
  first.send(post_head("/post", 60) + "a");
  eventually([&] {
    HttpClient client(host.address());
    client.send(post_head("/post", 60));
    return client.reply().status == 503;
  });
  first.send(std::string(59, 'b'));
  CHECK(first.reply().status == 200);
  second.send(post_head("/post", 60) + std::string(60, 'c'));
  CHECK(second.reply().status == 200);
}

TEST_CASE("a response may come later, from another thread") {
  Host host(with_writes());
  HttpClient client(host.address());
  client.send(post_head("/later", 0));
  std::thread([&] { host.pending->set(Host::text("done")); }).join();
  CHECK(client.reply().body == "done");
  // It was there before the connection waited for it.
  host.pending = std::make_shared<PendingResponse>();
  host.pending->set(Host::text("at once"));
  client.send(post_head("/later", 0));
  CHECK(client.reply().body == "at once");
}

TEST_CASE("a response that does not come in time has an error of its own") {
  HttpOptions options = with_writes();
  options.answer_deadline = 50ms;
  Host host(options);
  HttpClient client(host.address());
  client.send(post_head("/later", 0));
  CHECK(client.reply().status == 504);
  host.pending->set(Host::text("too late"));  // no client waits any more
}

TEST_CASE("a server ends while a response is awaited") {
  auto host = std::make_unique<Host>(with_writes());
  const auto pending = host->pending;
  HttpClient client(host->address());
  client.send(post_head("/later", 0));
  eventually([&] { return host->server->counters().open == 1; });
  host.reset();
  pending->set(Host::text("too late"));
  CHECK(client.is_closed());
}
