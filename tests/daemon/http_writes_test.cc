#include "daemon/master/http_writes.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/small_client.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using Json = nlohmann::json;

const std::string kWriteToken(32, 'w');

HttpReply post(const std::string& address, const std::string& path, const std::string& body,
               const std::string& token = kWriteToken) {
  HttpClient client(address);
  client.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token +
              "\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  return client.reply();
}

std::string read_error(const std::string& body) {
  const auto submission = read_http_submission(body);
  return submission.ok() ? "" : submission.status().message();
}

std::string all_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a submission over HTTP has a job, files and settings") {
  const auto submission = must(read_http_submission(
      R"({"job": "version: 1", "set": ["steps=5", "seed=2"], "request_id": "0123",
          "files": {"g.onnxtxt": "text", "w.npz": {"base64": "AAEC/w=="}}})"));
  CHECK(submission.text == "version: 1");
  CHECK(submission.overrides == std::vector<std::string>{"steps=5", "seed=2"});
  CHECK(submission.request_id == "0123");
  REQUIRE(submission.files.size() == 2);
  CHECK(submission.files[0] == attach("g.onnxtxt", "text"));
  CHECK(submission.files[1] == attach("w.npz", std::string("\x00\x01\x02\xff", 4)));
  const std::string id = must(read_http_submission(R"({"job": ""})")).request_id;
  CHECK(id.size() == 32);
  CHECK(must(read_http_submission(R"({"job": ""})")).request_id != id);
}

TEST_CASE("a submission over HTTP that is none says where") {
  CHECK(read_error("") == "body: expected a JSON object");
  CHECK(read_error("[]") == "body: expected a JSON object");
  CHECK(read_error(std::string(100'000, '[')) == "body: expected a JSON object");
  CHECK(read_error("{}") == "job: missing; expected the job file's text");
  CHECK(read_error(R"({"job": 1})") == "job: expected a text, received number");
  CHECK(read_error(R"({"job": "", "set": "a=b"})") ==
        "set: expected a list of texts, received string");
  CHECK(read_error(R"({"job": "", "set": [1]})") ==
        "set: expected a list of texts, received number");
  CHECK(read_error(R"({"job": "", "files": []})") == "files: expected an object, received array");
  CHECK(read_error(R"({"job": "", "files": {"a": {"base64": "A"}}})") ==
        "files.a.base64: expected base64 with padding, received 1 characters and 0 of padding");
  CHECK(read_error(R"({"job": "", "files": {"a": {"base64": "%%%%"}}})") ==
        "files.a.base64: expected base64, received '%' at character 0");
  for (const std::string text : {R"(QQ==\n\n\n\n)", "QQ==QQ==", "QUJD----", "====", "A==="}) {
    INFO(text);
    CHECK_THAT(read_error(R"({"job": "", "files": {"a": {"base64": ")" + text + R"("}}})"),
               Catch::StartsWith("files.a.base64: expected base64"));
  }
  CHECK(read_error(R"({"job": "", "files": {"a": {"hex": "00"}}})") ==
        R"(files.a: expected a text, or {"base64": "..."})");
  CHECK(read_error(R"({"job": "", "jobs": ""})") ==
        "jobs: unknown key; expected job, files, set or request_id");
}

TEST_CASE("jobs are submitted and cancelled over HTTP as over RPC") {
  const TemporaryDirectory secrets;
  std::ofstream(secrets / "token") << kWriteToken;
  REQUIRE(::chmod((secrets / "token").c_str(), 0400) == 0);
  JobScene scene(ProcessClusterOptions{
      .workers = 3, .master = {"--set", "http_write_token_file=" + (secrets / "token")}});
  const std::string http = scene.cluster().master().ready().http;

  Job job = scene.job(100);
  const std::string expected = scene.expected(job);
  job.data.root = "data";
  job.model.graph = "model.onnxtxt";
  Json body = {{"job", print_job(job)},
               {"files", {{"model.onnxtxt", all_of(scene.data_path("model.onnxtxt"))}}},
               {"request_id", std::string(32, 'a')}};
  const HttpReply submitted = post(http, "/api/v1/jobs", body.dump());
  INFO(submitted.body);
  REQUIRE(submitted.status == 201);
  const std::string id = Json::parse(submitted.body).at("id");
  // The same request is the same job.
  CHECK(Json::parse(post(http, "/api/v1/jobs", body.dump()).body).at("id") == id);
  CHECK(scene.await_end(id).condition.result.weights_sha256 == expected);
  const HttpReply ended = post(http, "/api/v1/jobs/" + id + "/cancel", "");
  CHECK(ended.status == 409);
  CHECK(Json::parse(ended.body).at("error").at("code") == "conflict");

  body["request_id"] = std::string(32, 'b');
  body["set"] = {"steps=1000000"};
  const std::string endless = Json::parse(post(http, "/api/v1/jobs", body.dump()).body).at("id");
  scene.await(endless, [](const JobView& view) { return view.progress.last.step > 0; });
  CHECK(post(http, "/api/v1/jobs/" + endless + "/cancel", "", std::string(32, 'x')).status == 401);
  CHECK(post(http, "/api/v1/jobs/" + endless + "/pause", "").status == 200);
  const JobView paused = scene.await(
      endless, [](const JobView& view) { return view.condition.state == JobState::paused; });
  CHECK(post(http, "/api/v1/jobs/" + endless + "/resume", "").status == 200);
  scene.await(endless, [&](const JobView& view) {
    return view.condition.state == JobState::running &&
           view.progress.last.step > paused.progress.last.step;
  });
  CHECK(
      post(http, "/api/v1/jobs/" + endless.substr(0, endless.size() - 1) + "/cancel", "").status ==
      200);
  CHECK(scene.await_end(endless).condition.state == JobState::cancelled);

  // The errors are those of the job file.
  body["request_id"] = std::string(32, 'c');
  body["set"] = {"stepz=5"};
  const HttpReply wrong = post(http, "/api/v1/jobs", body.dump());
  CHECK(wrong.status == 422);
  CHECK_THAT(wrong.body, Catch::Contains("stepz") && Catch::Contains("unknown key"));
  CHECK(post(http, "/api/v1/jobs", "{}").status == 400);
  CHECK(post(http, "/api/v1/jobs/none/cancel", "").status == 404);
}

TEST_CASE("a worker reports what it uses, and events tell of its job") {
  JobScene scene(1);
  const std::string http = scene.cluster().master().ready().http;
  HttpClient events(http);
  CHECK(events.open_stream("/api/v1/events").status == 200);
  CHECK_THAT(events.event(), Catch::Contains("event: node") && Catch::Contains("\"job\":null"));
  Job job = scene.job(100'000, {"num_workers=1"});
  const std::string id = scene.submit(job);
  const JobView running = scene.await_step(id, 100, 1);
  eventually([&] {
    const auto nodes = must(scene.client().nodes());
    const WorkerView& worker = nodes.at(0).worker;
    return worker.usage.cpu_ms > 100 && worker.usage.resident_bytes > 10 << 20 &&
           worker.waiting < 0.5 && worker.step_seconds > 0 && worker.usage.host.variables > 0 &&
           worker.usage.host.activations > 0 && worker.usage.host.data > 0;
  });
  HttpClient of_job(http);
  CHECK(of_job.open_stream("/api/v1/jobs/" + id + "/events").status == 200);
  CHECK_THAT(of_job.event(), Catch::Contains("\"state\":\"RUNNING\""));
  scene.cancel(id);
  std::string last;
  for (std::string event = of_job.event(); !event.empty(); event = of_job.event()) {
    if (event.starts_with("event: end")) break;
    last = event;
  }
  CHECK_THAT(last, Catch::Contains("\"state\":\"CANCELLED\""));
  CHECK(of_job.is_closed());
  std::string seen;  // on the stream of the cluster
  while (seen.find("CANCELLED") == std::string::npos) seen += events.event();
  CHECK_THAT(seen,
             Catch::Contains("\"state\":\"RUNNING\"") && Catch::Contains("\"job\":\"" + id + "\""));
}

}  // namespace leat
