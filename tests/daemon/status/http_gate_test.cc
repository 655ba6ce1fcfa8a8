#include "daemon/status/http_gate.h"

#include "tests/catch.h"

using namespace leat;

namespace {

HttpRequest request(std::vector<HttpField> headers, std::vector<std::string> segments = {"open"}) {
  HttpRequest request;
  request.method = "GET";
  request.segments = std::move(segments);
  request.headers = std::move(headers);
  return request;
}

HttpResponse say(const std::string& what) {
  HttpResponse response;
  response.body = what;
  return response;
}

const std::vector<HttpRoute> kRoutes = {
    {"/open", [](const HttpRequest&) { return say("open"); }, true},
    {"/", [](const HttpRequest&) { return say("root"); }},
    {"/post", [](const HttpRequest& r) { return say("posted " + r.body); }, false, "POST"},
    {"/a/{x}/c/{y}", [](const HttpRequest& r) { return say(r.captured[0] + "," + r.captured[1]); }},
};

HttpResponse answer(HttpRequest request, const HttpPolicy& policy = {}) {
  return answer_http(std::move(request), kRoutes, policy);
}

int status_with(std::vector<HttpField> headers, const HttpPolicy& policy = {}) {
  return answer(request(std::move(headers)), policy).status;
}

const HttpField kHost = {"host", "127.0.0.1:17460"};

}  // namespace

TEST_CASE("a host is an address, localhost or a name that is configured") {
  const HttpPolicy policy = {{"master.example"}, ""};
  for (const char* host : {"127.0.0.1", "127.0.0.1:17460", "10.1.2.3:1", "[::1]", "[::1]:17460",
                           "localhost", "LocalHost:80", "master.example", "Master.Example:17460"}) {
    INFO(host);
    CHECK(is_known_host(host, policy));
  }
  for (const char* host :
       {"", ":80", "evil.example", "evil.example:17460", "localhost.evil.example", "127.0.0.1.",
        "127.0.0.1.evil.example", "127.1", "0x7f000001", "2130706433", "[::1", "::1", "[::1]x",
        "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:80:80", "localhost:8a", "[evil.example]"}) {
    INFO(host);
    CHECK_FALSE(is_known_host(host, policy));
  }
}

TEST_CASE("a name that resolves here but is not ours is turned away, as in DNS rebinding") {
  CHECK(status_with({{"host", "rebound.evil.example:17460"}}) == 421);
  CHECK(status_with({{"host", "rebound.evil.example:17460"},
                     {"origin", "http://rebound.evil.example:17460"},
                     {"sec-fetch-site", "same-origin"}}) == 421);
}

TEST_CASE("a request names exactly one host") {
  CHECK(status_with({}) == 400);
  CHECK(status_with({kHost, {"host", "evil.example"}}) == 400);
  CHECK(status_with({kHost}) == 200);
}

TEST_CASE("a page of another site cannot ask") {
  CHECK(status_with({kHost, {"origin", "http://evil.example"}}) == 403);
  CHECK(status_with({kHost, {"origin", "null"}}) == 403);
  CHECK(status_with({kHost, {"origin", "http://127.0.0.1:8000"}}) == 403);
  CHECK(status_with({kHost, {"origin", kHost.second}}) == 403);
  CHECK(status_with({kHost, {"origin", "http://" + kHost.second}, {"origin", "null"}}) == 403);
  CHECK(status_with({kHost, {"sec-fetch-site", "cross-site"}}) == 403);
  CHECK(status_with({kHost, {"sec-fetch-site", "same-site"}}) == 403);
  CHECK(status_with({kHost, {"sec-fetch-site", "none"}, {"sec-fetch-site", "cross-site"}}) == 403);
  CHECK(status_with({kHost,
                     {"sec-fetch-site", "cross-site"},
                     {"sec-fetch-mode", "no-cors"},
                     {"sec-fetch-dest", "script"}}) == 403);
  CHECK(status_with({kHost,
                     {"sec-fetch-site", "cross-site"},
                     {"sec-fetch-mode", "navigate"},
                     {"sec-fetch-dest", "iframe"}}) == 403);
}

TEST_CASE("this host's own page, and a link that is followed, can") {
  CHECK(status_with({kHost, {"origin", "http://" + kHost.second}}) == 200);
  CHECK(status_with({kHost, {"origin", "https://" + kHost.second}}) == 200);
  CHECK(status_with({kHost, {"sec-fetch-site", "same-origin"}}) == 200);
  CHECK(status_with({kHost, {"sec-fetch-site", "none"}}) == 200);
  CHECK(status_with({kHost,
                     {"sec-fetch-site", "cross-site"},
                     {"sec-fetch-mode", "navigate"},
                     {"sec-fetch-dest", "document"}}) == 200);
}

TEST_CASE("methods that could change something are refused") {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "BREW"}) {
    HttpRequest posted = request({kHost});
    posted.method = method;
    const HttpResponse response = answer(posted);
    CHECK(response.status == 405);
    CHECK(response.headers == std::vector<HttpField>{{"Allow", "GET, HEAD"}});
  }
}

TEST_CASE("a request that writes has the token for it") {
  HttpPolicy policy;
  policy.write_token = "0123456789abcdef0123456789abcdef";
  const HttpField token = {"authorization", "Bearer " + policy.write_token};
  const auto post = [&](std::vector<HttpField> headers,
                        std::vector<std::string> segments = {"post"},
                        const std::string& body = "") {
    HttpRequest posted = request(std::move(headers), std::move(segments));
    posted.method = "POST";
    posted.body = body;
    posted.content_length = body.size();
    return answer(posted, policy);
  };
  const HttpField json = {"content-type", "application/json; charset=utf-8"};
  CHECK(post({kHost, token, json}, {"post"}, "{}").body == "posted {}");
  CHECK(post({kHost, token}).body == "posted ");
  CHECK(post({kHost}).status == 401);
  CHECK(post({kHost, {"authorization", "Bearer " + std::string(32, 'x')}}).status == 401);
  // A browser sends Basic by itself, also for a request that another site has made up.
  CHECK(post({kHost, {"authorization", "Basic " + base64("leat:" + policy.write_token)}}).status ==
        401);
  CHECK(post({kHost, token, {"origin", "http://evil.example"}}).status == 403);
  CHECK(post({{"host", "evil.example"}, token}).status == 421);
  CHECK(post({kHost, token, {"content-type", "text/plain"}}, {"post"}, "{}").status == 415);
  CHECK(post({kHost, token}, {"none"}).status == 404);
  const HttpResponse read_only = post({kHost, token}, {"open"});
  CHECK(read_only.status == 405);
  CHECK(read_only.headers == std::vector<HttpField>{{"Allow", "GET, HEAD"}});
  // Reading needs no token here, and a path that only writes cannot be read.
  CHECK(status_with({kHost}, policy) == 200);
  CHECK(answer(request({kHost}, {"post"}), policy).status == 405);
  // The token for reading is not enough to write; the one for writing is enough to read.
  policy.token = "fedcba9876543210fedcba9876543210";
  CHECK(post({kHost, {"authorization", "Bearer " + policy.token}}).status == 401);
  CHECK(answer(request({kHost, token}, {""}), policy).status == 200);
  CHECK(answer(request({kHost}, {""}), policy).status == 401);
}

TEST_CASE("a pattern takes the segments that its braces stand for") {
  CHECK(answer(request({kHost}, {"a", "b", "c", "d e"})).body == "b,d e");
  CHECK(answer(request({kHost}, {""})).body == "root");
  using Path = std::vector<std::string>;
  for (const Path& path : {Path{"a", "b", "c"}, Path{"a", "", "c", "d"}, Path{"a", "b", "c", ""},
                           Path{"a", "b", "x", "d"}, Path{"a", "b", "c", "d", "e"},
                           Path{"open", ""}, Path{"Open"}, Path{"a/b"}}) {
    CHECK(answer(request({kHost}, path)).status == 404);
  }
}

TEST_CASE("with a token, what is not open needs it") {
  const HttpPolicy policy = {{}, "s3cret"};
  const auto status = [&](const std::string& authorization) {
    return answer(request({kHost, {"authorization", authorization}}, {""}), policy).status;
  };
  CHECK(status("Bearer s3cret") == 200);
  CHECK(status("bearer s3cret") == 200);
  CHECK(status("Basic " + base64("leat:s3cret")) == 200);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crett", "s3cret",
                            "Bearer  s3cret", "Basic s3cret", "Digest s3cret"})
    CHECK(status(wrong) == 401);
  CHECK(answer(request({kHost}, {"open"}), policy).status == 200);
  const HttpResponse refused = answer(request({kHost}, {"no such path"}), policy);
  CHECK(refused.status == 401);
  // Two challenges of one header are one that browsers do not know.
  REQUIRE(refused.headers.size() == 2);
  for (const HttpField& header : refused.headers) CHECK(header.first == "WWW-Authenticate");
  CHECK_THAT(refused.headers[0].second, Catch::StartsWith("Basic realm=\""));
  CHECK(refused.headers[1].second == "Bearer realm=\"leat\"");
  CHECK(
      answer(request({kHost, {"authorization", "Basic " + base64(":" + policy.token)}}, {}), policy)
          .status != 401);
}

TEST_CASE("a browser gets a page where something is wrong, a program JSON") {
  HttpPolicy policy;
  policy.token = std::string(32, 't');
  const HttpField browser{"accept", "text/html,application/xhtml+xml,*/*;q=0.8"};
  const HttpResponse page = answer(request({kHost, browser}, {"no such path"}), policy);
  CHECK(page.status == 401);
  CHECK_THAT(page.type, Catch::StartsWith("text/html"));
  CHECK_THAT(page.body,
             Catch::Contains("<h1>Unauthorized</h1>") && Catch::Contains("the token as password"));
  CHECK(std::count_if(page.headers.begin(), page.headers.end(), [](const HttpField& header) {
          return header.first == "WWW-Authenticate";
        }) == 2);
  const HttpResponse none = answer(
      request({kHost, browser, {"authorization", "Bearer " + policy.token}}, {"<b>"}), policy);
  CHECK(none.status == 404);
  CHECK_THAT(none.body, Catch::Contains("there is no &#39;/&lt;b&gt;&#39;"));
  for (const HttpResponse& json : {answer(request({kHost}, {"no such path"}), policy),
                                   answer(request({kHost, browser}, {"api", "v1"}), policy)}) {
    CHECK(json.type == "application/json");
    CHECK_THAT(json.body, Catch::StartsWith("{\"apiVersion\""));
  }
}

TEST_CASE("base64 is padded") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("the date of a response is that of RFC 9110") {
  CHECK(http_date(784'111'777) == "Sun, 06 Nov 1994 08:49:37 GMT");
}
