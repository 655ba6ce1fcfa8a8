#include "daemon/status/http_request.h"

#include "tests/catch.h"

using namespace leat;

namespace {

constexpr size_t kLimit = 8 << 10;

int refusal_of(std::string_view bytes) {
  const HttpParse parse = parse_http_request(bytes, kLimit);
  REQUIRE_FALSE(parse.request.has_value());
  return parse.refusal ? parse.refusal->status : 0;
}

HttpRequest request_of(std::string_view bytes) {
  const HttpParse parse = parse_http_request(bytes, kLimit);
  REQUIRE(parse.request.has_value());
  CHECK(parse.bytes == bytes.size());
  return *parse.request;
}

}  // namespace

TEST_CASE("a request has its method, path, query and headers") {
  const HttpRequest request =
      request_of("GET /a/b%20c?x=1&y=%26&z HTTP/1.1\r\nHost: localhost\r\nX-One:  two \r\n\r\n");
  CHECK(request.method == "GET");
  CHECK(request.segments == std::vector<std::string>{"a", "b c"});
  CHECK(request.query == std::vector<HttpField>{{"x", "1"}, {"y", "&"}, {"z", ""}});
  CHECK(*request.header("host") == "localhost");
  CHECK(*request.header("x-one") == "two");
  CHECK(request.header("x-two") == nullptr);
  CHECK(request.keep_alive);
}

TEST_CASE("every beginning of a request waits for more") {
  const std::string_view all = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size = 0; size < all.size(); ++size) {
    const HttpParse parse = parse_http_request(all.substr(0, size), kLimit);
    CHECK((!parse.request && !parse.refusal));
  }
  CHECK(parse_http_request(all, kLimit).request.has_value());
}

TEST_CASE("bytes after a request are left alone") {
  const std::string_view one = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
  const HttpParse parse = parse_http_request(std::string(one) + "\x16\x03", kLimit);
  CHECK(parse.request.has_value());
  CHECK(parse.bytes == one.size());
}

TEST_CASE("a connection is kept, or not, as its version and header say") {
  CHECK_FALSE(request_of("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").keep_alive);
  CHECK_FALSE(request_of("GET / HTTP/1.0\r\n\r\n").keep_alive);
  CHECK(request_of("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST_CASE("a POST says how long its body is") {
  const HttpRequest request =
      request_of("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 7000000\r\n\r\n");
  CHECK(request.method == "POST");
  CHECK(request.content_length == 7'000'000);
  CHECK(request_of("POST / HTTP/1.1\r\n\r\n").content_length == 0);
  CHECK(refusal_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 411);
  CHECK(refusal_of("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n") == 400);
}

TEST_CASE("a body of another method is refused") {
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n") == 413);
  CHECK(refusal_of("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 413);
  CHECK(refusal_of("GET / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n") == 413);
  CHECK(refusal_of("GET / HTTP/1.1\r\nTransfer-Encoding: \r\n\r\n") == 413);
  CHECK(request_of("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").method == "GET");
}

TEST_CASE("lengths that smuggle are refused") {
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 0, 5\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n") == 400);
}

TEST_CASE("bytes that are no HTTP are refused at once") {
  CHECK(refusal_of("\x16\x03\x01\x02") == 400);
  CHECK(refusal_of("get / HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET  / HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET /\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nno colon\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nName : value\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nA: b\nHost: a\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/2.0\r\n\r\n") == 505);
  CHECK(refusal_of("GET / HTTP/0.9\r\n\r\n") == 505);
}

TEST_CASE("a target is a path and a query, and nothing else") {
  for (const char* target : {"http://a/", "*", "a", "/%", "/%4", "/%zz", "/%00", "/%0a", "/?a=%0d",
                             "/#a", "/?a=1&a=2"}) {
    INFO(target);
    CHECK(refusal_of("GET " + std::string(target) + " HTTP/1.1\r\n\r\n") == 400);
  }
  CHECK(request_of("GET /a%2Fb HTTP/1.1\r\n\r\n").segments == std::vector<std::string>{"a/b"});
  CHECK(request_of("GET /../a// HTTP/1.1\r\n\r\n").segments ==
        std::vector<std::string>{"..", "a", "", ""});
}

TEST_CASE("a header has no control characters") {
  for (int c = 0; c <= 0x7f; ++c) {
    const bool control = (c < 0x20 && c != '\t') || c == 0x7f;
    INFO(c);
    std::string text = "GET / HTTP/1.1\r\nA: a_b\r\n\r\n";
    text[text.find('_')] = static_cast<char>(c);
    const HttpParse parse = parse_http_request(text, kLimit);
    CHECK(parse.request.has_value() != control);
    CHECK((parse.refusal && parse.refusal->status == 400) == control);
  }
}

TEST_CASE("a header is at most so large") {
  const std::string head = "GET / HTTP/1.1\r\nA: ";
  const std::string fits = head + std::string(kLimit - head.size() - 4, 'x') + "\r\n\r\n";
  CHECK(request_of(fits).headers.size() == 1);
  CHECK(refusal_of(head + std::string(kLimit - head.size() - 3, 'x') + "\r\n\r\n") == 431);
  CHECK(refusal_of(head + std::string(kLimit - head.size(), 'x')) == 431);
  CHECK(refusal_of(head + std::string(kLimit - head.size() - 1, 'x')) == 0);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 65; ++i) many += "A: b\r\n";
  CHECK(refusal_of(many + "\r\n") == 431);
}
