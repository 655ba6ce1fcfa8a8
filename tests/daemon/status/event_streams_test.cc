#include "daemon/status/event_streams.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "daemon/status/event_text.h"
#include "daemon/status/status_json.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

namespace {

// Changes a job of the source as the master's thread would.
void change_job(StatusHost& host, size_t job, uint64_t version, JobState state) {
  host.reactor.sync([&] {
    host.source.jobs_[job].version = version;
    host.source.jobs_[job].condition.state = state;
  });
}

// `id`: "" for an event that is not the last one of those that come together.
std::string job_event(const JobView& job, const std::string& id, bool whole = false) {
  std::string text = event_text("job", id, whole ? job_json(job) : job_summary_json(job));
  text.resize(text.size() - 2);  // the empty line
  return text;
}

HttpOptions quick_streams() {
  HttpOptions options;
  options.stream_pause = 5ms;
  return options;
}

}  // namespace

TEST_CASE("an event has a field for each line") {
  CHECK(event_text("job", "7", "{}\n") == "event: job\nid: 7\ndata: {}\n\n");
  CHECK(event_text("", "", "a\nb") == "data: a\ndata: b\n\n");
  CHECK(event_text("end", "", "") == "event: end\ndata: \n\n");
}

TEST_CASE("a stream of the cluster has what is there, and then each change") {
  StatusHost host(quick_streams());
  HttpClient client(host.server->address());
  const HttpReply head = client.open_stream("/api/v1/events");
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-type") == "text/event-stream; charset=utf-8");
  CHECK(head.headers.at("cache-control") == "no-store");
  for (size_t i = 0; i < 3; ++i)
    CHECK(client.event() == job_event(host.source.jobs_[i], i == 2 ? "18" : ""));
  for (const NodeView& node : host.source.nodes_)
    CHECK_THAT(client.event(), Catch::StartsWith("event: node\ndata: ") &&
                                   Catch::Contains(node.worker.info.worker.name));
  change_job(host, 2, 19, JobState::running);
  CHECK(client.event() == job_event(host.source.jobs_[2], "19"));
  // Two changes that come together: the version of the first job is the higher one.
  host.reactor.sync([&] {
    host.source.jobs_[0].version = 21;
    host.source.jobs_[1].version = 20;
  });
  CHECK(client.event() == job_event(host.source.jobs_[0], ""));
  CHECK(client.event() == job_event(host.source.jobs_[1], "21"));
  host.reactor.sync([&] {
    host.source.nodes_[0].worker.silent = 1s;  // is no event
    host.source.nodes_[1].worker.state = WorkerState::lost;
  });
  CHECK_THAT(client.event(), Catch::Contains("worker-2") && Catch::Contains("LOST"));
}

TEST_CASE("a client that comes back gets what it has missed") {
  StatusHost host(quick_streams());
  for (const char* request : {"Last-Event-ID: 17\r\n", ""}) {
    HttpClient client(host.server->address());
    client.open_stream(*request != '\0' ? "/api/v1/events" : "/api/v1/events?since=17", request);
    CHECK(client.event() == job_event(host.source.jobs_[2], "18"));
    CHECK_THAT(client.event(), Catch::StartsWith("event: node"));
  }
  HttpClient client(host.server->address());
  CHECK(client.open_stream("/api/v1/events", "Last-Event-ID: x\r\n").status == 400);
}

TEST_CASE("a stream of a job ends with the job") {
  StatusHost host(quick_streams());
  HttpClient client(host.server->address());
  CHECK(client.open_stream("/api/v1/jobs/fashion-mnist-cnn/events").status == 200);
  CHECK(client.event() ==
        job_event(host.source.jobs_[1], std::to_string(host.source.jobs_[1].version), true));
  change_job(host, 2, 19, JobState::running);  // another job
  change_job(host, 1, 20, JobState::succeeded);
  CHECK(client.event() ==
        job_event(host.source.jobs_[1], std::to_string(host.source.jobs_[1].version), true));
  CHECK(client.event() == "event: end\ndata: {}");
  CHECK(client.is_closed());

  HttpClient late(host.server->address());
  late.open_stream("/api/v1/jobs/fashion-mnist-mlp/events");
  CHECK(late.event() ==
        job_event(host.source.jobs_[0], std::to_string(host.source.jobs_[0].version), true));
  CHECK(late.event() == "event: end\ndata: {}");
  CHECK(HttpClient(host.server->address()).open_stream("/api/v1/jobs/none/events").status == 404);
}

TEST_CASE("a stream of a log has each line once, and ends with the log") {
  StatusHost host(quick_streams());
  HttpClient client(host.server->address());
  client.open_stream("/api/v1/jobs/gpt/logs/events?from=3");
  CHECK_THAT(client.event(), Catch::StartsWith("event: line\nid: 3\n"));
  CHECK_THAT(client.event(), Catch::Contains("\"text\":\"line 4\""));
  host.reactor.sync([&] { host.source.lines_.push_back({0, "worker-2", "more"}); });
  CHECK_THAT(client.event(), Catch::StartsWith("event: line\nid: 5\n"));
  host.reactor.sync([&] { host.source.complete_ = true; });
  CHECK(client.event() == "event: end\ndata: {}");
  CHECK(client.is_closed());

  HttpClient again(host.server->address());
  again.open_stream("/api/v1/jobs/gpt/logs/events", "Last-Event-ID: 4\r\n");
  CHECK_THAT(again.event(), Catch::StartsWith("event: line\nid: 5\n"));
}

TEST_CASE("a stream without events shows that it lives, and ends with its client") {
  HttpOptions options = quick_streams();
  options.stream_silence = 20ms;
  StatusHost host(options);
  auto client = std::make_unique<HttpClient>(host.server->address());
  client->open_stream("/api/v1/jobs/fashion-mnist-cnn/events");
  CHECK_THAT(client->event(), Catch::StartsWith("event: job"));
  CHECK(client->event() == ":");
  CHECK(host.server->counters().streams == 1);
  client.reset();
  eventually([&] { return host.server->counters().streams == 0; });
  eventually([&] { return host.server->counters().open == 0; });
}

TEST_CASE("streams leave room for requests") {
  HttpOptions options = quick_streams();
  options.most_streams = 2;
  StatusHost host(options);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(host.server->address()));
    const HttpReply reply = clients.back()->open_stream("/api/v1/events");
    CHECK(reply.status == (i < 2 ? 200 : 503));
    if (i == 2) CHECK_THAT(reply.body, Catch::Contains("expected at most 2 streams"));
  }
  CHECK(host.get("/api/v1/jobs").status == 200);
}

TEST_CASE("a feed that has dropped events shows the newest state") {
  ExampleSource source;
  const auto feed = std::make_shared<StatusFeed>(source, 2, 0ms);
  const auto stream = stream_cluster(feed, 18);
  CHECK_THAT(stream->next(), !Catch::Contains("event: job") && Catch::Contains("event: node"));
  for (uint64_t version = 19; version < 24; ++version) {
    source.jobs_[version % 3].version = version;
    feed->update();
  }
  CHECK(feed->first() == 3);
  const std::string all = stream->next();
  for (const JobView& job : source.jobs_) CHECK_THAT(all, Catch::Contains(job_summary_json(job)));
  CHECK(stream->next().empty());
}

TEST_CASE("a log that cannot be read has not ended") {
  struct Broken final : ExampleSource {
    Result<LogPage> log(std::string_view, uint64_t, size_t) const override {
      return unavailable("the log: the disk is gone");
    }
  } source;
  const auto stream = stream_log(source, "gpt-0001", 0);
  CHECK(stream->next().empty());
  CHECK(stream->has_ended());
}
