#include "daemon/status/status_page.h"

#include "daemon/status/page_parts.h"
#include "devices/base/sha256.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

namespace {

HttpResponse page_of(const ExampleSource& source) {
  return status_page(source.cluster(), source.jobs(), source.nodes(), source.ready());
}

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from) + from.size();
  return text.substr(begin, text.find(to, begin) - begin);
}

std::string row_of(const ExampleSource& source, const std::string& id) {
  return between(page_of(source).body, "<tr id=\"" + id + "\">", "</tr>");
}

std::string hash_of(const std::string& text) {
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  return "'sha256-" + base64({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

}  // namespace

TEST_CASE("a running job shows how far it is") {
  const std::string row = row_of(ExampleSource(), "job-fashion-mnist-cnn-7f3a");
  for (const char* part : {">RUNNING<", "max=\"1000\" value=\"250\"", "25 %", "250 of 1000 steps",
                           "1 of 4", ">0.5<", "0.625", "87.50 %", "75.00 %", ">12.5<",
                           "1600 samples/s", "1 min 00 s", "worker-1, worker-2"})
    CHECK_THAT(row, Catch::Contains(part));
}

TEST_CASE("a job that waits says what for, and one that succeeded shows its weights") {
  const ExampleSource source;
  CHECK_THAT(row_of(source, "job-gpt-0001"), Catch::Contains("waits for 8 workers, 0 are free"));
  CHECK_THAT(row_of(source, "job-fashion-mnist-mlp-0c41"), Catch::Contains(std::string(64, 'a')));
}

TEST_CASE("the page lists the jobs of a group or of a name") {
  const ExampleSource source;
  const auto listed = [&](const JobFilter& filter) {
    const std::string body =
        status_page(source.cluster(), source.jobs(), source.nodes(), {}, filter).body;
    std::string ids;
    for (const JobView& job : source.jobs())
      if (body.find("<tr id=\"job-" + job.id + "\">") != std::string::npos) ids += job.id + " ";
    return ids;
  };
  CHECK(listed({"running", ""}) == "fashion-mnist-cnn-7f3a ");
  CHECK(listed({"waiting", ""}) == "gpt-0001 ");
  CHECK(listed({"ended", ""}) == "fashion-mnist-mlp-0c41 ");
  CHECK(listed({"", "mnist"}) == "fashion-mnist-mlp-0c41 fashion-mnist-cnn-7f3a ");
  CHECK(listed({"ended", "gpt"}) == "");
  CHECK(listed({"nonsense", ""}) == listed({"", ""}));
  CHECK(listed({"", ""}) == "fashion-mnist-mlp-0c41 fashion-mnist-cnn-7f3a gpt-0001 ");
  const std::string body =
      status_page(source.cluster(), source.jobs(), source.nodes(), {}, {"ended", "a\"b"}).body;
  CHECK_THAT(body, Catch::Contains("No such jobs") && Catch::Contains("value=\"a&quot;b\"") &&
                       Catch::Contains("<a href=\"/?show=running&amp;name=a%22b\">Running 1</a>") &&
                       Catch::Contains("aria-current=\"page\">Ended 1</a>"));
  StatusHost host;
  CHECK_THAT(host.get("/?show=waiting").body,
             Catch::Contains("aria-current=\"page\">Waiting 1</a>"));
}

TEST_CASE("a worker shows its state, since when and why, its devices and its job") {
  const ExampleSource source;
  const std::string row = row_of(source, "node-worker-1");
  for (const char* part : {">READY<", "1 min 05 s", "cpu:0", "8 threads, 16.0 GiB", "A processor",
                           "fashion-mnist-cnn-7f3a"})
    CHECK_THAT(row, Catch::Contains(part));
  CHECK_THAT(row_of(source, "node-worker-3"), Catch::Contains("no heartbeat for 3.0 s"));
}

TEST_CASE("the page says when the master is not ready") {
  ExampleSource source;
  CHECK_THAT(page_of(source).body, Catch::Contains(">READY<"));
  source.ready_ = unavailable("the journal: no disk");
  CHECK_THAT(page_of(source).body, Catch::Contains(">NOT READY<"));
  CHECK_THAT(page_of(source).body, Catch::Contains("the journal: no disk"));
}

TEST_CASE("an empty cluster says how to go on") {
  ExampleSource source;
  source.jobs_.clear();
  source.nodes_.clear();
  CHECK_THAT(page_of(source).body, Catch::Contains("leat submit"));
  CHECK_THAT(page_of(source).body, Catch::Contains("leatd worker"));
}

TEST_CASE("jobs that go on come first, then those that have ended, the newest first") {
  ExampleSource source;
  source.jobs_[2].condition.state = JobState::failed;
  const std::string body = page_of(source).body;
  const size_t running = body.find("id=\"job-fashion-mnist-cnn"),
               failed = body.find("id=\"job-gpt"),
               succeeded = body.find("id=\"job-fashion-mnist-mlp");
  CHECK(running < failed);
  CHECK(failed < succeeded);
}

TEST_CASE("thousands of jobs make no endless page") {
  ExampleSource source;
  while (source.jobs_.size() < 1000) {
    source.jobs_.push_back(source.jobs_[0]);
    source.jobs_.back().number = source.jobs_.size();
  }
  const std::string body = page_of(source).body;
  CHECK(count(body, "<tr id=\"job-") == 200);
  CHECK_THAT(body, Catch::Contains("<span>Newer</span><span>Page 1 of 5</span>"
                                   "<a href=\"/?page=2\">Older</a>"));

  while (source.jobs_.size() > 950) source.jobs_.pop_back();
  const auto page = [&](const JobFilter& filter) {
    return status_page(source.cluster(), source.jobs(), source.nodes(), {}, filter).body;
  };
  const std::string last = page({"", "fashion", 5});
  CHECK(count(last, "<tr id=\"job-") == 949 - 800);
  CHECK_THAT(last, Catch::Contains("<a href=\"/?name=fashion&amp;page=4\">Newer</a>"
                                   "<span>Page 5 of 5</span><span>Older</span>"));
  CHECK(page({"", "fashion", 77}) == last);
  CHECK(page({"", "fashion", 0}) == page({"", "fashion", 1}));
  CHECK(count(page({"", "", 2}), "<tr id=\"job-") == 200);
  StatusHost host;
  CHECK_THAT(host.get("/?page=nonsense").body, !Catch::Contains("Page "));
}

TEST_CASE("the page draws what a worker used in the last half hour") {
  ExampleSource source;
  WorkerView& worker = source.nodes_[0].worker;
  const int64_t now = source.cluster_.now_ms;
  const std::string id = "node-" + worker.info.worker.name;
  CHECK(row_of(source, id).find("<svg") == std::string::npos);
  worker.info.devices = {{"cpu", "cpu:0", 1000, 4, "a processor"}};
  worker.recent = std::make_shared<UsagePoints>(
      UsagePoints{{now - 3'600'000, 4, 1000}, {now - 900'000, 2, 250}, {now, 8, 1000}});
  CHECK_THAT(row_of(source, id),
             Catch::Contains("aria-label=\"The last 30 min: 8 of 4 threads compute, ") &&
                 // More than all is drawn as all, and the point of an hour ago not at all.
                 Catch::Contains("<polyline class=\"validation\" points=\"60.0,20.5 120.0,1.0\"/>"
                                 "<polyline class=\"training\" points=\"60.0,14.0 120.0,1.0\"/>"));
  worker.state = WorkerState::lost;
  CHECK(row_of(source, id).find("<svg") == std::string::npos);
}

TEST_CASE("names and reasons are shown as text, also if they contain HTML") {
  const std::string hostile = "<script>alert(1)</script><img src=x onerror=\"a\">'\"&--></style>";
  ExampleSource source;
  const std::string clean = page_of(source).body;
  source.cluster_.name = source.cluster_.version = source.cluster_.rpc_address = hostile;
  source.cluster_.journal = unavailable(hostile);
  source.ready_ = unavailable(hostile + "!");
  JobView& job = source.jobs_[1];
  job.id = job.name = job.condition.reason = job.condition.result.weights_sha256 = hostile;
  job.condition.workers = {hostile};
  WorkerView& worker = source.nodes_[1].worker;
  worker.info.worker.name = worker.info.address = worker.info.version = worker.reason = hostile;
  worker.info.datasets = {hostile};
  worker.info.devices = {{hostile, hostile, 1, 1, hostile}};
  source.nodes_[1].job = hostile;
  source.nodes_[1].jobs = {hostile};
  const std::string body = page_of(source).body;
  CHECK(count(body, "&lt;script&gt;alert(1)") >= 14);
  for (const char* part : {"<script", "</style>", "<img", "onerror=\"", "-->"})
    CHECK(count(body, part) == count(clean, part));
  CHECK(count(body, "href=\"/jobs/%3Cscript%3Ealert%281%29%3C%2Fscript%3E") == 3);
  CHECK(count(body, "href=\"/api/") == 0);  // people get pages, not JSON
}

TEST_CASE("the policy lets this style and this script run, and nothing be loaded") {
  const HttpResponse page = page_of(ExampleSource());
  REQUIRE(page.headers.size() == 1);
  const std::string policy = page.headers[0].second;
  CHECK_THAT(policy, Catch::StartsWith("default-src 'none'; connect-src 'self';"));
  CHECK_THAT(policy, Catch::Contains("style-src " +
                                     hash_of(between(page.body, "<style>", "</style>")) + ";"));
  CHECK_THAT(policy, Catch::Contains("script-src " +
                                     hash_of(between(page.body, "<script>", "</script>")) + ";"));
  CHECK_FALSE(policy.find("unsafe") != std::string::npos);
  for (const char* part : {"http://", "https://", " src=", "style=\"", "onclick", "url("})
    CHECK(count(page.body, part) == 0);
}

TEST_CASE("a duration is short") {
  CHECK(short_duration(0) == "0 s");
  CHECK(short_duration(59.9) == "59 s");
  CHECK(short_duration(192) == "3 min 12 s");
  CHECK(short_duration(7500) == "2 h 05 min");
  CHECK(short_duration(86400 * 3 + 4 * 3600) == "3 d 4 h");
  CHECK(short_duration(std::numeric_limits<double>::quiet_NaN()).empty());
  CHECK(short_duration(-1).empty());
  CHECK(short_duration(std::numeric_limits<double>::infinity()).empty());
}
