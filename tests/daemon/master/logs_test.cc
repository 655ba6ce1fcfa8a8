// Tests logs of jobs: as files, and as a master serves them.
#include "daemon/master/job_log.h"
#include "daemon/master/job_logs.h"
#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"
#include "tests/must.h"

namespace leat {

using namespace testing;

namespace {

std::vector<LogLine> lines(int count, int first = 0) {
  std::vector<LogLine> lines;
  for (int i = 0; i < count; ++i) lines.push_back({1000 + i, "w1", cat("line ", first + i)});
  return lines;
}

}  // namespace

TEST_CASE("lines of a log come back by their numbers, also from another process") {
  const TemporaryDirectory folder;
  const std::string path = folder / "job/log.txt";
  {
    JobLog log(path, 1 << 20);
    CHECK(log.page(0, 10)->lines.empty());
    REQUIRE_OK(log.append(lines(100)));
    REQUIRE_OK(log.append(lines(100, 100)));
  }
  JobLog log(path, 1 << 20);
  for (const uint64_t from : {0, 1, 63, 64, 65, 127, 128, 199}) {
    const auto page = log.page(from, 3);
    REQUIRE_OK(page.status());
    CHECK(page->first == from);
    CHECK(page->end == 200);
    REQUIRE(!page->lines.empty());
    CHECK(page->lines[0].text == cat("line ", from));
    CHECK(page->lines[0].worker == "w1");
    CHECK(page->lines[0].at_ms == static_cast<int64_t>(1000 + from % 100));
    CHECK(page->lines.size() == std::min<uint64_t>(3, 200 - from));
  }
  CHECK(log.page(200, 3)->lines.empty());
  CHECK(log.page(1000, 3)->first == 200);
}

TEST_CASE("a text of several lines becomes several lines, and an empty one is a line") {
  const TemporaryDirectory folder;
  JobLog log(folder / "log.txt", 1 << 20);
  REQUIRE_OK(log.append(std::vector<LogLine>{{0, "w1", "a\nb\n"}, {0, "w2", ""}}));
  const auto page = log.page(0, 10);
  REQUIRE(page->lines.size() == 3);
  CHECK(page->lines[1].text == "b");
  CHECK(page->lines[2].worker == "w2");
  CHECK(page->lines[2].text.empty());
}

TEST_CASE("a full log drops its older half, says so, and keeps the numbers") {
  const TemporaryDirectory folder;
  const std::string path = folder / "log.txt";
  JobLog log(path, 32 << 10);
  for (int i = 0; i < 20; ++i) REQUIRE_OK(log.append(lines(100, 100 * i)));
  CHECK(*log.end() == 2000);
  CHECK(std::filesystem::file_size(path) <= 32 << 10);
  const auto page = log.page(0, 3);
  REQUIRE(page->lines.size() == 3);
  CHECK(page->first > 500);
  CHECK(page->lines[0].text == cat("dropped earlier lines: ", page->first + 1));
  CHECK(page->lines[1].text == cat("line ", page->first + 1));
  CHECK(log.page(1999, 3)->lines[0].text == "line 1999");
  JobLog again(path, 32 << 10);
  CHECK(again.page(0, 3)->first == page->first);
  CHECK(again.page(1999, 3)->lines[0].text == "line 1999");
}

TEST_CASE("a line that a crash has torn is a line of its own") {
  const TemporaryDirectory folder;
  const std::string path = folder / "log.txt";
  write(path, "1970-01-01T00:00:01.000Z w1 whole\n1970-01-01T00:0");
  JobLog log(path, 1 << 20);
  REQUIRE_OK(log.append(lines(1)));
  const auto page = log.page(0, 10);
  REQUIRE(page->lines.size() == 3);
  CHECK(page->lines[0].text == "whole");
  CHECK(page->lines[0].at_ms == 1000);
  CHECK(page->lines[2].text == "line 0");
}

TEST_CASE("a page ends after about 256 KiB") {
  const TemporaryDirectory folder;
  JobLog log(folder / "log.txt", 8 << 20);
  const std::vector<LogLine> long_lines(400, {0, "w1", std::string(4000, 'x')});
  REQUIRE_OK(log.append(long_lines));
  const auto page = log.page(10, 10'000);
  CHECK(page->lines.size() > 60);
  CHECK(page->lines.size() < 70);
  CHECK(page->end == 400);
}

TEST_CASE("any number of logs holds few files open") {
  const TemporaryDirectory folder;
  const RealClock clock;
  JobLogs logs(folder.path(), 1 << 20, clock, {});
  const auto open_files = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      ++count;
    return count;
  };
  const size_t before = open_files();
  std::promise<void> written;
  for (int i = 0; i < 300; ++i) logs.add(cat("job-", i), "w1", {"text"});
  logs.add("job-0", "w1", {"more"}, [&] { written.set_value(); });
  REQUIRE(written.get_future().wait_for(60s) == std::future_status::ready);
  CHECK(open_files() <= before + 64);
  CHECK(logs.page("job-0", 0, 10)->lines.size() == 2);
  CHECK(logs.page("job-7", 0, 10)->lines.size() == 1);
}

TEST_CASE("a job's log has its states and what its runners say, to its end", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  (void)worker.order();
  REQUIRE_OK(worker.log(id, {"the runner says", "something"}));
  const auto said = host.logs(id, 0, 0ms);
  REQUIRE_OK(said.status());
  REQUIRE(said->lines.size() == 4);
  CHECK(said->lines[0].worker == "master");
  CHECK(said->lines[0].text == "QUEUED");
  CHECK(said->lines[1].text == "STARTING, assembly 1 on w1");
  CHECK(said->lines[2].worker == "w1");
  CHECK(said->lines[2].text == "the runner says");
  CHECK_FALSE(said->complete);
  CHECK(host.master->status().log(id, 3, 10)->lines[0].text == "something");

  // No line comes until the deadline.
  CHECK(host.logs(id, 4, 30ms)->lines.empty());
  // A waiting client gets new lines at once, and the last page says that it is complete.
  std::promise<Result<LogPage>> answer;
  host.master->logs(id, 4, std::chrono::steady_clock::now() + 60s,
                    [&](Result<LogPage> page) { answer.set_value(page); });
  REQUIRE_OK(host.cancel(id).status());
  auto page = answer.get_future();
  REQUIRE(page.wait_for(60s) == std::future_status::ready);
  CHECK(page.get()->lines[0].text == "CANCELLING: cancelled by somebody");
  REQUIRE(host.becomes(id, "CANCELLED"));
  REQUIRE(eventually([&] { return host.master->status().log(id, 0, 10)->complete; }));
  CHECK(host.logs(id, 6, 60s)->complete);
  REQUIRE_OK(worker.log(id, {"too late"}));
  CHECK(host.master->status().log(id, 0, 100)->end == 6);
  CHECK(host.logs("nothing", 0, 0ms).status().code() == Code::failed_precondition);
}

TEST_CASE("a worker writes into no log but those of jobs that it has or had", "[cluster]") {
  Host host;
  auto worker = std::make_unique<FakeWorker>(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  (void)worker->order();
  auto other = std::make_unique<FakeWorker>(host.master->address(), "w2");
  REQUIRE_OK(other->registered());
  const std::string waiting = host.submitted(tiny_job("r2", 4));  // no worker has it
  // Whether there is such a job is not told.
  for (const std::string& foreign : {id, waiting, std::string("nothing"), id.substr(0, 6)}) {
    const Status refused = other->log(foreign, {"forged"});
    CHECK(refused.code() == Code::invalid_argument);
    CHECK(refused.message() == cat("Registry.log: expected a job with a runner on worker 'w2', "
                                   "received '",
                                   foreign, "'"));
  }
  CHECK(other->heart().ok());  // it stays a member
  REQUIRE_OK(worker->log(id, {"true"}));
  const auto text = [&] {
    const auto page = must(host.master->status().log(id, 0, 100));
    std::string text;
    for (const LogLine& line : page.lines) text += line.text;
    return text;
  };
  CHECK_THAT(text(), Catch::Contains("true") && !Catch::Contains("forged"));
  CHECK(eventually([&] {
    std::string audit;
    for (const auto& each : std::filesystem::directory_iterator(host.folder / "state/audit"))
      audit += contents(each.path());
    return audit.find("worker 'w2' at ") != std::string::npos &&
           audit.find("expected a job with a runner on worker 'w2'") != std::string::npos;
  }));
  // The last lines of a runner may come to a master that has started since.
  host.restart();
  worker = std::make_unique<FakeWorker>(host.master->address(), "w1", 2);
  REQUIRE_OK(worker->registered());
  REQUIRE_OK(worker->log(id, {"the last"}));
  (void)worker->order();  // it has the job again, and the other worker does not get it
  other = std::make_unique<FakeWorker>(host.master->address(), "w2", 2);
  CHECK(other->log(id, {"forged"}).code() == Code::invalid_argument);
  CHECK_THAT(text(), Catch::Contains("the last") && !Catch::Contains("forged"));
}

TEST_CASE("last lines of a runner of an earlier assembly come to a master that has started since",
          "[cluster]") {
  Host host;
  auto worker = std::make_unique<FakeWorker>(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  (void)worker->order();
  worker.reset();  // the job goes on without it
  auto other = std::make_unique<FakeWorker>(host.master->address(), "w2");
  (void)other->order();
  CHECK(eventually([&] {
    const auto view = host.master->status().job(id);
    return view.ok() && view->condition.workers == std::vector<std::string>{"w2"};
  }));
  host.restart();
  worker = std::make_unique<FakeWorker>(host.master->address(), "w1", 2);
  REQUIRE_OK(worker->registered());
  REQUIRE_OK(worker->log(id, {"of the first assembly"}));
}

TEST_CASE("a job's files are listed by name, and no other file can be fetched", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  const auto runner = FakeRunner::connect(host.master->address(), worker.order());
  REQUIRE(host.becomes(id, "RUNNING"));
  REQUIRE(eventually([&] { return runner->called(); }));  // it was unpacked
  const std::string folder = host.folder / ("state/jobs/" + id);
  std::filesystem::create_directories(folder + "/checkpoints/step-1");
  write(folder + "/checkpoints/step-1/manifest.json", "{}");
  write(folder + "/weights.safetensors.1.tmp", "half");
  write(folder + "/.profile", "hidden");
  write(folder + "/notes.tmp.md", "{}");
  std::filesystem::create_symlink("/etc/passwd", folder + "/link");
  const auto files = host.master->files(id);
  REQUIRE_OK(files.status());
  std::vector<std::string> names;
  for (const JobFile& file : *files) names.push_back(file.name);
  CHECK(names ==
        std::vector<std::string>{"checkpoints/step-1/manifest.json", "log.txt", "notes.tmp.md"});
  CHECK((*files)[0].size == 2);
  CHECK(contents(*host.master->file_path(id, "checkpoints/step-1/manifest.json", "ann")) == "{}");
  CHECK(host.master->file_path(id, "../../journal.sqlite", "ann").status().code() ==
        Code::invalid_argument);
  CHECK(host.master->file_path(id, "submitted/tiny.onnxtxt", "ann").status().code() ==
        Code::invalid_argument);
}

}  // namespace leat
