#include "daemon/status/status_json.h"

#include <cmath>
#include <limits>

#include "daemon/base/json_line.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

TEST_CASE("a cluster is one line of JSON") {
  const ExampleSource source;
  CHECK(cluster_json(source.cluster_) ==
        R"({"apiVersion":"leat/v1","kind":"Cluster","name":"leat",)"
        R"("id":"0123456789abcdef0123456789abcdef","version":"0.1.0",)"
        R"("time":"2026-01-31T12:01:05.000Z","started":"2026-01-31T12:00:00.000Z",)"
        R"("generation":3,"membership":4,"epoch":4,)"
        R"("addresses":{"rpc":"127.0.0.1:17461","http":"127.0.0.1:17460"},)"
        R"("journal":{"ok":true,"error":null}})"
        "\n");
}

TEST_CASE("a broken journal says why") {
  ExampleSource source;
  source.cluster_.journal = resource_exhausted("journal: no space");
  CHECK_THAT(cluster_json(source.cluster_),
             Catch::Contains(R"("journal":{"ok":false,"error":)"
                             R"({"code":"resource_exhausted","message":"journal: no space"}})"));
}

TEST_CASE("a job is one line of JSON") {
  const ExampleSource source;
  CHECK(job_json(source.jobs_[1]) ==
        R"({"apiVersion":"leat/v1","kind":"Job","id":"fashion-mnist-cnn-7f3a","number":2,)"
        R"("name":"fashion-mnist-cnn","state":"RUNNING","reason":"",)"
        R"("since":"2026-01-31T12:00:05.250Z","submitted":"2026-01-31T12:00:01.000Z",)"
        R"("queued_seconds":0.0,"running_seconds":0.0,"recovering_seconds":0.0,)"
        R"("priority":0,"user":null,"max_run_time_seconds":null,"preemptible":false,)"
        R"("num_workers":2,"workers":["worker-1","worker-2"],"restarts":1,"assemblies":2,)"
        R"("lost_assemblies":1,"lost_epochs":1,)"
        R"("progress":{"step":250,"steps":1000,"epoch":1,"epochs":4,"loss":0.5,"accuracy":0.875,)"
        R"("val_loss":0.625,"val_accuracy":0.75,"steps_per_second":12.5,)"
        R"("samples_per_second":1600.0,"samples_per_step":128,"eta_seconds":60.0,)"
        R"("validated_step":null,"checkpoint_step":null,)"
        R"("steps_skipped":0,"metrics_missing_rows":0,"metrics_changed_until":null,"results":[]},)"
        R"("weights_sha256":null,"version":17,"history":[{"number":1,"assembly":1,"epoch":1,)"
        R"("cause":"worker 'worker-2' was lost","culprit":"worker-2","fault":null,)"
        R"("began":"2026-01-31T12:00:02.000Z","failed":"2026-01-31T12:00:05.000Z",)"
        R"("detection_seconds":0.25,"recovery_seconds":null,"stopped_at":70,"went_on_from":64,)"
        R"("source":"checkpoint","steps_recomputed":6}]})"
        "\n");
}

TEST_CASE("a job has the time that it has spent queued, running and recovering") {
  TableDriver driver;
  const std::string id = driver.submit("a", 1);
  const auto expect = [&](std::string_view queued, std::string_view running,
                          std::string_view recovering) {
    CHECK_THAT(job_json(*driver.table->find(id)),
               Catch::Contains(cat("\"queued_seconds\":", queued, ",\"running_seconds\":", running,
                                   ",\"recovering_seconds\":", recovering, ",")));
  };
  driver.tick(std::chrono::milliseconds(2000));
  expect("2.0", "0.0", "0.0");
  driver.join("w1");
  driver.start_all(id);
  driver.tick(std::chrono::milliseconds(3000));
  expect("2.0", "3.0", "0.0");
  driver.send(WorkerLost{{"w1", 1}, "no heartbeat for 2.5 s", std::chrono::milliseconds(2500)});
  driver.tick(std::chrono::milliseconds(500));
  expect("2.0", "3.0", "0.5");
  driver.join("w2");
  driver.start_all(id);
  driver.send(JobFinished{id, 2, "abc"});
  driver.tick(std::chrono::milliseconds(9000));
  expect("2.0", "3.0", "0.5");
  driver.restart();
  expect("2.0", "3.0", "0.5");
}

TEST_CASE("a job has what it asks of the queue, and its place there") {
  TableDriver driver;
  QueueTerms terms;
  terms.priority = -3;
  terms.user = "ann";
  terms.max_run_time = std::chrono::minutes(90);
  terms.preemptible = true;
  terms.cpu = 2;
  terms.memory = uint64_t{1} << 30;
  const std::string id = driver.submit("a", 1, terms);
  CHECK_THAT(job_json(*driver.table->find(id)),
             Catch::Contains(R"("priority":-3,"user":"ann","position":1,)"
                             R"("max_run_time_seconds":5400.0,"preemptible":true,"cores":2,)"
                             R"("memory_bytes":1073741824,)"));
}

TEST_CASE("unknown facts of a job are null") {
  const ExampleSource source;
  const std::string text = job_json(source.jobs_[0]);
  CHECK_THAT(
      text, Catch::Contains(R"("steps":null,"epoch":0,"epochs":null,"loss":null,"accuracy":null)"));
  CHECK_THAT(text, Catch::Contains(R"("eta_seconds":null)"));
  CHECK_THAT(text, Catch::Contains(R"("weights_sha256":"aaaa)"));
}

TEST_CASE("a loss that is no number is told from one that there is none of") {
  ExampleSource source;
  double& loss = source.jobs_[1].progress.last.loss;
  const auto says = [&](const char* text) {
    CHECK_THAT(job_json(source.jobs_[1]), Catch::Contains(text));
  };
  loss = std::numeric_limits<double>::infinity();
  says(R"("loss":"Infinity")");
  loss = -loss;
  says(R"("loss":"-Infinity")");
  loss = computed(std::nan(""));
  says(R"("loss":"NaN")");
  loss = kNoNumber;
  says(R"("loss":null)");
}

TEST_CASE("a job has the numbers of its epochs, what its metrics lost, and what its weights are") {
  ExampleSource source;
  JobView& job = source.jobs_[1];
  job.progress.epochs.push_back({1, 250, 0.5, 0.75, 0.25, kNoNumber, 2, 1600});
  job.progress.last.validated_step = 200;
  job.progress.last.checkpoint_step = 150;
  job.progress.last.steps_skipped = 2;
  job.progress.last.metrics_missing = 3;
  job.progress.last.metrics_changed_until = 40;
  job.condition.result = {"abc", 2, 7, "A processor", true};
  CHECK(job_json(job).find("\"metrics\"") == std::string::npos);
  job.progress.last.ended.more = {{"val_f1", 0.5}, {"val_auc", computed(kNoNumber)}};
  CHECK_THAT(job_json(job), Catch::Contains(R"("metrics":{"val_f1":0.5,"val_auc":"NaN"})"));
  job.progress.last.ended.more.clear();
  const std::string text = job_json(job);
  CHECK_THAT(text, Catch::Contains(
                       R"("validated_step":200,"checkpoint_step":150,)"
                       R"("steps_skipped":2,"metrics_missing_rows":3,"metrics_changed_until":40,)"
                       R"("results":[{"epoch":1,"step":250,"loss":0.5,)"
                       R"("accuracy":0.75,"val_loss":0.25,"val_accuracy":null,)"
                       R"("seconds":2.0,"samples_per_second":1600.0}])"));
  CHECK_THAT(text, Catch::Contains(R"("cpu":"A processor","depends_on_timing":true)"));
}

TEST_CASE("nodes are a list, with their devices") {
  const ExampleSource source;
  CHECK(nodes_json(std::span(source.nodes_).subspan(2)) ==
        R"({"apiVersion":"leat/v1","kind":"NodeList","items":[{"name":"worker-3",)"
        R"("incarnation":"fedcba9876543210","state":"LOST","reason":"no heartbeat for 3.0 s",)"
        R"("since":"2026-01-31T12:00:00.000Z","silent_seconds":0.125,"progress":250,"job":null,)"
        R"("jobs":[],)"
        R"("address":"10.0.0.2:17463","machine":"boot-1","version":"0.1.0",)"
        R"("devices":[{"name":"cpu:0","kind":"cpu","description":"A processor",)"
        R"("memory_bytes":17179869184,"threads":8}],"datasets":["fashion-mnist"],)"
        R"("cpu_seconds":0.0,"resident_bytes":0,)"
        R"("reserved_bytes":{"host":{"variables":0,"activations":0,"constants":0,"transfers":0,)"
        R"("fetches":0,"data":0},"accelerators":{"variables":0,"activations":0,"constants":0,)"
        R"("transfers":0,"fetches":0,"data":0}},"step_seconds":null,"waiting":null,)"
        R"("traffic":{"frames_sent":500,"frames_received":501,"bytes_sent":65536,)"
        R"("bytes_received":65537,"values_sent":750,"values_received":751,"late_values":2,)"
        R"("bytes_by_wire":0}}]})"
        "\n");
}

TEST_CASE("lists without items are lists") {
  CHECK(jobs_json({}) == "{\"apiVersion\":\"leat/v1\",\"kind\":\"JobList\",\"items\":[]}\n");
  CHECK(nodes_json({}) == "{\"apiVersion\":\"leat/v1\",\"kind\":\"NodeList\",\"items\":[]}\n");
}

TEST_CASE("a page of a log says where the next begins") {
  LogPage page;
  page.first = 7;
  page.end = 9;
  page.lines = {{0, "worker-1", "step 1"}, {1, "worker-2", "a\tb"}};
  CHECK(log_json("job-1", page) ==
        R"({"apiVersion":"leat/v1","kind":"LogPage","job":"job-1","first":7,"next":9,"end":9,)"
        R"("complete":false,"lines":[)"
        R"({"time":"1970-01-01T00:00:00.000Z","worker":"worker-1","text":"step 1"},)"
        R"({"time":"1970-01-01T00:00:00.001Z","worker":"worker-2","text":"a\tb"}]})"
        "\n");
}

TEST_CASE("texts that are hostile, or no UTF-8, are still JSON") {
  ExampleSource source;
  source.jobs_[2].condition.reason = "\"}\\\n\x01</script>\xff\xc3(";
  CHECK_THAT(
      job_json(source.jobs_[2]),
      Catch::Contains("\"reason\":\"\\\"}\\\\\\n\\u0001</script>\xef\xbf\xbd\xef\xbf\xbd(\""));
  CHECK(error_json("not_found", "\xfe") ==
        "{\"apiVersion\":\"leat/"
        "v1\",\"error\":{\"code\":\"not_found\",\"message\":\"\xef\xbf\xbd\"}}\n");
}

TEST_CASE("times are ISO 8601 with four digits of a year, whatever the clock says") {
  CHECK(iso_time(0) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(1'709'208'000'007) == "2024-02-29T12:00:00.007Z");
  CHECK(iso_time(-1) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(std::numeric_limits<int64_t>::max()) == "9999-12-31T23:59:59.999Z");
}
