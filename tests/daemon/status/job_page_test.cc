#include "daemon/status/job_page.h"

#include "daemon/status/compare_page.h"
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

TEST_CASE("the page of a job has its state, progress, workers, log and links to JSON") {
  const ExampleSource source;
  const JobView job = *source.job("fashion-mnist-cnn");
  const std::string body = job_page(job, *source.log(job.id, 2, 2), source.cluster()).body;
  for (const char* part :
       {">RUNNING<", "59 s", "2: worker-1, worker-2", "max=\"1000\" value=\"250\"",
        "250 of 1000 steps, epoch 1 of 4", "0.5, validation 0.625", "87.50 %, validation 75.00 %",
        "12.5 steps/s, 1600 samples/s", "1 min 00 s", "worker-1 | line 2\nworker-1 | line 3\n",
        "href=\"/api/v1/jobs/fashion-mnist-cnn-7f3a\"",
        "href=\"/api/v1/jobs/fashion-mnist-cnn-7f3a/logs\"", "href=\"/\""})
    CHECK_THAT(body, Catch::Contains(part));
  const std::string waiting = job_page(*source.job("gpt"), LogPage(), source.cluster()).body;
  CHECK_THAT(waiting, Catch::Contains("waits for 8 workers, 0 are free"));
  CHECK_THAT(waiting, Catch::Contains("(no lines)"));
  const std::string ended =
      job_page(*source.job("fashion-mnist-mlp"), LogPage(), source.cluster()).body;
  CHECK_THAT(ended, Catch::Contains(std::string(64, 'a')));
}

TEST_CASE("the page of a job tells of skipped steps and of metrics that are lost") {
  ExampleSource source;
  JobView& job = source.jobs_[1];
  const std::string usual = job_page(job, LogPage(), source.cluster()).body;
  CHECK_THAT(usual, !Catch::Contains("Skipped") && !Catch::Contains("Metrics"));
  job.progress.last.steps_skipped = 1;
  job.progress.last.metrics_missing = 3;
  const std::string body = job_page(job, LogPage(), source.cluster()).body;
  CHECK_THAT(body, Catch::Contains("<td>1 step, whose numbers were not finite</td>") &&
                       Catch::Contains("<td>3 rows of metrics.jsonl missing</td>"));
}

TEST_CASE("names and logs are text on the page of a job, also if they contain HTML") {
  const std::string hostile = "<script>alert(1)</script><img src=x onerror=\"a\">'\"&--></pre>";
  ExampleSource source;
  JobView& job = source.jobs_[1];
  const std::string clean = job_page(job, LogPage(), source.cluster()).body;
  job.id = job.name = job.condition.reason = job.condition.result.weights_sha256 = hostile;
  job.condition.workers = {hostile};
  const LogPage log{0, {{0, hostile, hostile}}, 1, false};
  const std::string body = job_page(job, log, source.cluster()).body;
  for (const char* part : {"<script", "</pre>", "<img", "onerror=\"", "-->"})
    CHECK(count(body, part) == count(clean, part));
  CHECK(count(body, "&lt;script&gt;alert(1)") >= 7);
}

TEST_CASE("the pictures of a job mark the steps from which it went on") {
  const ExampleSource source;
  JobView job = *source.job("fashion-mnist-cnn");
  LostAssembly lost;
  lost.went_on_from = 2;
  lost.cause = "worker 'a<b' was lost";
  LostAssembly never = lost;
  never.went_on_from = -1;
  LostAssembly later = lost;
  later.went_on_from = 700;  // beyond the points that are there
  job.history.last = {lost, never, later};
  CurvesView curves;
  curves.of_steps = {{"loss", {1, 2, 3}, {3, 2, 1}}};
  const std::string body = job_page(job, LogPage(), source.cluster(), curves).body;
  CHECK_THAT(body, Catch::Contains("<line class=\"mark\" x1=\"199.0\" y1=\"8\" x2=\"199.0\" "
                                   "y2=\"148\"><title>went on from step 2: worker "
                                   "&#39;a&lt;b&#39; was lost</title></line>"));
  CHECK(count(body, "class=\"mark\"") == 1);
}

TEST_CASE("the curves of several jobs are drawn over each other") {
  std::vector<ComparedJob> jobs(2);
  jobs[0].job = "first";
  jobs[0].view.of_steps = {{"loss", {1, 3}, {3, 1}}};
  jobs[0].view.of_epochs = {{"val_loss", {3}, {2}}};
  jobs[1].job = "<second>";
  jobs[1].view.of_steps = {{"loss", {1, 2}, {2, 2}}, {"rate", {1, 2}, {0, 1}}};
  const std::string body = compare_page(jobs).body;
  CHECK(count(body, "<figure>") == 2);
  // In one pair of axes.
  CHECK_THAT(body, Catch::Contains("<polyline class=\"job0\" points=\"46.0,8.0 352.0,148.0\"/>"
                                   "<circle class=\"job0 dashed\" cx=\"352.0\" cy=\"78.0\" "
                                   "r=\"2\"/>"
                                   "<polyline class=\"job1\" points=\"46.0,78.0 199.0,78.0\"/>"));
  CHECK_THAT(body, Catch::Contains("href=\"/jobs/first\">first</a>"));
  CHECK_THAT(body, Catch::Contains("&lt;second&gt;</a>") && !Catch::Contains("<second>"));
  CHECK_THAT(body, Catch::Contains("<input type=\"hidden\" name=\"a\" value=\"first\">") &&
                       Catch::Contains("<input type=\"search\" name=\"c\""));
  CHECK_THAT(compare_page({}).body, Catch::Contains("<input type=\"search\" name=\"a\"") &&
                                        Catch::Contains("No step has ended yet."));
  CHECK_THAT(compare_page(std::vector<ComparedJob>(kMostCompared)).body,
             !Catch::Contains("<input type=\"search\""));
}

TEST_CASE("the page of a job has a picture for each metric") {
  const ExampleSource source;
  const JobView job = *source.job("fashion-mnist-cnn");
  CurvesView curves;
  curves.of_steps = {{"learning_rate", {1, 2}, {0.1, 0.1}}, {"loss", {1, 2, 3}, {3, 2, 1}}};
  curves.of_epochs = {{"seconds", {3}, {5}}, {"val_loss", {3}, {1.5}}};
  const std::string body = job_page(job, LogPage(), source.cluster(), curves).body;
  const size_t loss = body.find("aria-label=\"Curve of loss\"");
  const size_t rate = body.find("aria-label=\"Curve of learning_rate\"");
  CHECK(loss < rate);
  CHECK(rate != std::string::npos);
  CHECK_THAT(body, !Catch::Contains("Curve of seconds"));
  CHECK_THAT(body, Catch::Contains("<polyline class=\"training\" points=\"46.0,8.0 199.0,78.0 "
                                   "352.0,148.0\"/><circle class=\"validation\""));
  CHECK_THAT(job_page(job, LogPage(), source.cluster()).body, Catch::Contains("Reading..."));
  curves = {{}, {}, true};
  CHECK_THAT(job_page(job, LogPage(), source.cluster(), curves).body,
             Catch::Contains("No step has ended yet."));
}
