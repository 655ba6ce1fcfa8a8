#include "daemon/status/status_routes.h"

#include <nlohmann/json.hpp>

#include "daemon/base/json_line.h"
#include "daemon/status/job_page.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

TEST_CASE("the API answers with the JSON of each view") {
  StatusHost host;
  const ExampleSource& source = host.source;
  CHECK(host.get("/api/v1/cluster").body == cluster_json(source.cluster()));
  CHECK(host.get("/api/v1/nodes").body == nodes_json(source.nodes()));
  CHECK(host.get("/api/v1/jobs").body == jobs_json(source.jobs(), {.version = 18}));
  CHECK(host.get("/api/v1/jobs/gpt-0001").body == job_json(source.jobs()[2]));
  const HttpReply reply = host.get("/api/v1/cluster");
  CHECK(reply.status == 200);
  CHECK(reply.headers.at("content-type") == "application/json");
  CHECK(reply.headers.at("cache-control") == "no-store");
  CHECK(reply.headers.at("x-content-type-options") == "nosniff");
  CHECK(reply.headers.at("content-security-policy").starts_with("default-src 'none'"));
  CHECK_FALSE(reply.headers.contains("access-control-allow-origin"));
}

TEST_CASE("a job is found by a prefix of no other id") {
  StatusHost host;
  CHECK(host.get("/api/v1/jobs/gpt").status == 200);
  const HttpReply ambiguous = host.get("/api/v1/jobs/fashion");
  CHECK(ambiguous.status == 409);
  CHECK_THAT(ambiguous.body, Catch::Contains(R"("code":"ambiguous")"));
  const HttpReply none = host.get("/api/v1/jobs/%22%3Cscript%3E");
  CHECK(none.status == 404);
  CHECK(none.headers.at("content-type") == "application/json");
  CHECK_THAT(none.body, Catch::Contains(R"(there is no job '\"<script>')"));
  CHECK(host.get("/api/v1/jobs/").status == 404);
}

TEST_CASE("lists have filters and pages") {
  StatusHost host;
  const auto ids = [&](const std::string& query) {
    std::string text;
    const auto body = nlohmann::json::parse(host.get("/api/v1/jobs" + query).body);
    for (const auto& job : body.at("items")) text += job.at("id").get<std::string>() + " ";
    return text + (body.contains("next") ? "next " + body.at("next").get<std::string>() : "end");
  };
  CHECK(ids("?state=RUNNING") == "fashion-mnist-cnn-7f3a end");
  CHECK(ids("?state=QUEUED,SUCCEEDED") == "fashion-mnist-mlp-0c41 gpt-0001 end");
  CHECK(ids("?name=mnist") == "fashion-mnist-mlp-0c41 fashion-mnist-cnn-7f3a end");
  CHECK(ids("?name=mnist&state=QUEUED") == "end");
  CHECK(ids("?limit=2") == "fashion-mnist-mlp-0c41 fashion-mnist-cnn-7f3a next 2");
  CHECK(ids("?limit=2&after=2") == "gpt-0001 end");
  CHECK(ids("?limit=3") == "fashion-mnist-mlp-0c41 fashion-mnist-cnn-7f3a gpt-0001 end");
  const auto nodes = nlohmann::json::parse(host.get("/api/v1/nodes?state=READY,LOST&limit=1").body);
  CHECK(nodes.at("items").size() == 1);
  CHECK(nodes.at("next") == "worker-1");
  for (const char* query :
       {"state=running", "state=", "limit=0", "limit=10001", "limit=x", "after=x", "order=name"}) {
    INFO(query);
    CHECK(host.get(std::string("/api/v1/jobs?") + query).status == 400);
  }
}

TEST_CASE("a log comes in pages") {
  StatusHost host;
  const std::string path = "/api/v1/jobs/gpt/logs";
  CHECK_THAT(host.get(path).body,
             Catch::Contains(R"("job":"gpt-0001","first":0,"next":5,"end":5)"));
  CHECK_THAT(host.get(path + "?from=3").body, Catch::Contains(R"("first":3,"next":5)"));
  CHECK_THAT(host.get(path + "?from=1&limit=2").body, Catch::Contains(R"("first":1,"next":3)"));
  CHECK_THAT(host.get(path + "?from=99").body, Catch::Contains(R"("first":5,"next":5)"));
  for (const char* query : {"?from=", "?from=x", "?from=-1", "?from=1.5", "?from=1x", "?limit=0",
                            "?limit=1001", "?from=18446744073709551616"}) {
    INFO(query);
    CHECK(host.get(path + query).status == 400);
  }
  CHECK(host.get("/api/v1/jobs/none/logs").status == 404);
}

TEST_CASE("the page of a log has its lines with their times, and leads to those around them") {
  StatusHost host;
  const JobView job = *host.source.job("gpt");
  const LogPage log = *host.source.log(job.id, 0, 1000);
  REQUIRE(log.lines.size() == 5);
  const std::string all = host.get("/jobs/gpt/log").body;
  for (const LogLine& line : log.lines) {
    CHECK_THAT(
        all, Catch::Contains(cat(iso_time(line.at_ms), "  ", line.worker, " | ", line.text, "\n")));
  }
  CHECK_THAT(all, !Catch::Contains("Older") && !Catch::Contains("Newer"));
  const std::string behind = host.get("/jobs/gpt/log?from=1").body;
  CHECK_THAT(behind, Catch::Contains("Lines 1 to 4.") &&
                         Catch::Contains("href=\"/jobs/gpt-0001/log?from=0\">Older"));
  CHECK(host.get("/jobs/gpt/log?from=x").status == 400);
  CHECK(host.get("/jobs/none/log").status == 404);
  // A part of it leads to what follows.
  const std::string part = job_log_page(job, *host.source.log(job.id, 0, 1), 1).body;
  CHECK_THAT(part, Catch::Contains("Lines 0 to 0.") && Catch::Contains("log?from=1\">Newer"));
}

TEST_CASE("the master lives, and is ready or says why not") {
  StatusHost host;
  CHECK(host.get("/healthz/live").status == 200);
  CHECK(host.get("/healthz/ready").body ==
        "{\"apiVersion\":\"leat/v1\",\"kind\":\"Readiness\",\"ready\":true,\"error\":null}\n");
  host.source.ready_ = unavailable("the journal: no disk");
  const HttpReply reply = host.get("/healthz/ready");
  CHECK(reply.status == 503);
  CHECK_THAT(reply.body, Catch::Contains("the journal: no disk"));
  CHECK(host.get("/healthz/live").status == 200);
}

TEST_CASE("metrics are those of the cluster, the source, the server and the process") {
  StatusHost host;
  host.source.metrics_ = {{"leat_more_total", "More", MetricKind::counter, {{{}, 7}}}};
  const HttpReply reply = host.get("/metrics");
  CHECK(reply.headers.at("content-type") == "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {"leat_jobs{state=\"RUNNING\"} 1\n", "leat_more_total 7\n",
                           "leat_http_connections 1\n", "process_open_fds "})
    CHECK_THAT(reply.body, Catch::Contains(line));
}

TEST_CASE("the page is HTML, with a policy of its own") {
  StatusHost host;
  const HttpReply reply = host.get("/");
  CHECK(reply.status == 200);
  CHECK(reply.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK_THAT(reply.headers.at("content-security-policy"), Catch::Contains("script-src 'sha256-"));
  CHECK_THAT(reply.body, Catch::StartsWith("<!doctype html>"));
}

TEST_CASE("a page compares the jobs that a query names, each once") {
  StatusHost host;
  const HttpReply page = host.get("/compare?a=gpt&b=fashion-mnist-cnn&d=gpt-0001&z=none");
  CHECK(page.status == 200);
  CHECK(page.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK_THAT(page.body, Catch::Contains("<h1>gpt-0001, fashion-mnist-cnn-7f3a</h1>"));
  CHECK(host.get("/compare").status == 200);
  CHECK(host.get("/compare?a=none").status == 404);
  CHECK(host.get("/compare?a=fashion").status == 409);  // the prefix of two
}

TEST_CASE("a rebound name and another site are turned away") {
  StatusHost host;
  HttpClient client(host.server->address());
  client.send("GET /api/v1/jobs HTTP/1.1\r\nHost: rebound.evil.example:17460\r\n\r\n");
  CHECK(client.reply().status == 421);
  CHECK(host.get("/api/v1/jobs", "Origin: http://evil.example\r\n").status == 403);
  CHECK(host.get("/api/v1/jobs", "Sec-Fetch-Site: cross-site\r\n").status == 403);
}

TEST_CASE("errors are JSON") {
  StatusHost host;
  const HttpReply reply = host.get("/favicon.ico");
  CHECK(reply.status == 404);
  CHECK(reply.body ==
        "{\"apiVersion\":\"leat/v1\",\"error\":"
        "{\"code\":\"not_found\",\"message\":\"there is no '/favicon.ico'\"}}\n");
  HttpClient client(host.server->address());
  client.send("DELETE /api/v1/jobs/gpt HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const HttpReply refused = client.reply();
  CHECK(refused.status == 405);
  CHECK(refused.headers.at("allow") == "GET, HEAD");
}

TEST_CASE("with a token only the health can be seen without it") {
  HttpOptions options;
  options.policy.token = "0123456789abcdef0123456789abcdef";
  StatusHost host(options);
  for (const char* path : {"/", "/metrics", "/api/v1/jobs", "/api/v1/cluster", "/none"})
    CHECK(host.get(path).status == 401);
  CHECK(host.get("/healthz/live").status == 200);
  CHECK(host.get("/healthz/ready").status == 200);
  const std::string bearer = "Authorization: Bearer " + options.policy.token + "\r\n";
  for (const char* path : {"/", "/metrics", "/api/v1/jobs"})
    CHECK(host.get(path, bearer).status == 200);
}
