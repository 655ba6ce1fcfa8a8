// Tests the commands about a cluster as users run them: the real program, with a master whose state
// the test changes.
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "daemon/cli/cluster_connection.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/client/job_master.h"
#include "tests/daemon/leat_process.h"
#include "tests/eventually.h"
#include "tests/must.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestCommand = 120s;

constexpr char kCommandsJob[] = R"(version: 1
name: cnn
model: {graph: model.onnxtxt}
data: {root: mnist, train: {format: idx, features: x.gz, labels: y.gz}}
loss: cross_entropy
optimizer: {name: sgd, learning_rate: 0.1}
global_batch_size: 8
epochs: 2
seed: 11
shards: 4
)";

constexpr char kGraph[] = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,4] x) => (float[N,3] y) {
  y = leat.Dense <units = 3> (x)
}
)";

void write(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(directory_of(path));
  std::ofstream(path, std::ios::binary) << text;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// A folder with a job, a home without a config file, and a master.
struct Here {
  Here() {
    write(folder / "job.yaml", kCommandsJob);
    write(folder / "model.onnxtxt", kGraph);
  }
  std::vector<std::string> environment(std::vector<std::string> more = {}) const {
    std::vector<std::string> out{"LEAT_MASTER=" + master.address(), "LEAT_SECRET_FILE=",
                                 "LEAT_CLUSTER=", "XDG_CONFIG_HOME=" + (folder / "config")};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Finished run(const std::vector<std::string>& arguments, std::vector<std::string> more = {}) {
    return run_program(leat_binary(), folder.path(), arguments, environment(std::move(more)));
  }

  TemporaryDirectory folder;
  JobMaster master;
};

// A command that runs while the test does something else.
class Running {
 public:
  Running(const Here& here, const std::vector<std::string>& arguments)
      : process_(leat_binary(), arguments,
                 {.folder = here.folder.path(),
                  .environment = here.environment(),
                  .out = out_,
                  .err = err_}) {}

  void signal(int number) { process_.signal(number); }
  // Waits until its output contains `text`.
  void await_out(const std::string& text) { await(out_, text); }
  void await_err(const std::string& text) { await(err_, text); }
  Finished finish() {
    const auto code = process_.wait(kLongestCommand);
    REQUIRE(code.has_value());
    return {*code, contents_of(out_), contents_of(err_)};
  }

 private:
  static void await(const std::string& path, const std::string& text) {
    const auto written = [&] { return contents_of(path).find(text) != std::string::npos; };
    if (!eventually(written, kLongestCommand)) FAIL("no '" << text << "' in " << contents_of(path));
  }

  const TemporaryDirectory captured_;
  const std::string out_ = captured_ / "out", err_ = captured_ / "err";
  ChildProcess process_;
};

// A terminal with this number of columns, for a program to write to.
class Terminal {
 public:
  explicit Terminal(uint16_t columns) {
    const winsize size{24, columns, 0, 0};
    char path[64];
    REQUIRE(::openpty(&reader_, &writer_, path, nullptr, &size) == 0);
    REQUIRE(::fcntl(reader_, F_SETFL, O_NONBLOCK) == 0);
    path_ = path;
  }
  ~Terminal() {
    ::close(writer_);
    ::close(reader_);
  }
  const std::string& path() const { return path_; }
  // Returns everything that was written to it so far.
  const std::string& text() {
    char bytes[4096];
    for (ssize_t count; (count = ::read(reader_, bytes, sizeof bytes)) > 0;)
      text_.append(bytes, static_cast<size_t>(count));
    return text_;
  }

 private:
  int reader_ = -1, writer_ = -1;
  std::string path_, text_;
};

void succeed(JobView& view) {
  view.condition.state = JobState::succeeded;
  view.condition.reason.clear();
  view.condition.result = {"3323c3f4", 4, 11, "Model 7"};
  view.progress.last.val_accuracy = 0.915;
  view.progress.last.val_loss = 0.235;
}

}  // namespace

TEST_CASE("leat submit prints the job's id and returns at once") {
  Here here;
  const Finished done = here.run({"submit", "job.yaml", "--workers", "2", "--set", "epochs=3"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  CHECK(done.out == "cnn-a001\n");
  CHECK(done.err.empty());
  const Submission submission = here.master.jobs().submission("cnn-a001");
  CHECK(submission.text == kCommandsJob);
  CHECK(submission.num_workers == 2);
  CHECK(submission.overrides == std::vector<std::string>{"epochs=3", "optimizer.accumulate=1",
                                                         "shards=4", "num_workers=2",
                                                         "model.graph=graph/model.onnxtxt"});
  REQUIRE(submission.files.size() == 1);
  CHECK(submission.files[0].name == "graph/model.onnxtxt");
  CHECK(submission.files[0].bytes == kGraph);
}

TEST_CASE("leat submit --workers keeps the shards of accumulated gradients") {
  Here here;
  write(here.folder / "job.yaml", replaced(kCommandsJob, "shards: 4", "num_workers: 4"));
  const Finished done =
      here.run({"submit", "job.yaml", "--workers", "2", "--set", "optimizer.accumulate=2"});
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  const Submission submission = here.master.jobs().submission("cnn-a001");
  JobOverrides overrides;
  overrides.set = submission.overrides;
  const Job job = must(parse_job(submission.text, "/job.yaml", overrides));
  CHECK(job.shards == 8);
  CHECK(job.num_workers == 2);
}

TEST_CASE("leat submit refuses what is wrong before it talks to a master") {
  Here here;
  here.master.stop();
  CHECK(here.run({"submit", "none.yaml"}).exit_code == 5);
  write(here.folder / "wrong.yaml", cat(kCommandsJob, "epoch: 3\n"));
  const Finished wrong = here.run({"submit", "wrong.yaml"});
  CHECK(wrong.exit_code == 7);
  CHECK_THAT(wrong.err, Catch::Contains("wrong.yaml:11:1: epoch: unknown key"));
  write(here.folder / "model.onnxtxt",
        "<ir_version: 10, opset_import: [\"leat\" : 1]>\nnet (float[N,4] x) => (y) {\n  y = "
        "leat.Dens (x)\n}\n");
  const Finished graph = here.run({"submit", "job.yaml"});
  CHECK(graph.exit_code == 7);
  CHECK_THAT(graph.err, Catch::Contains("model.onnxtxt:3"));
  std::filesystem::remove(here.folder / "model.onnxtxt");
  CHECK(here.run({"submit", "job.yaml"}).exit_code == 5);
  CHECK(here.run({"submit", "job.yaml", "--wrokers", "2"}).exit_code == 2);
}

TEST_CASE("leat submit --wait exits with the outcome of the job and prints what it is worth") {
  Here here;
  {
    Running leat(here, {"submit", "job.yaml", "--wait"});
    here.master.jobs().change(here.master.jobs().await_job(), succeed);
    const Finished done = leat.finish();
    INFO(done.err);
    CHECK(done.exit_code == 0);
    CHECK(done.out ==
          "cnn-a001\ncnn-a001 SUCCEEDED: accuracy 0.9150, loss 0.2350, weights_sha256 3323c3f4, "
          "shards 4, seed 11, cpu Model 7\n");
  }
  {
    Running leat(here, {"submit", "job.yaml", "--wait"});
    here.master.jobs().change(here.master.jobs().await_job(2), [](JobView& view) {
      view.condition.state = JobState::failed;
      view.condition.reason = "out of workers";
    });
    const Finished done = leat.finish();
    CHECK(done.exit_code == 1);
    CHECK_THAT(done.out, Catch::EndsWith("cnn-a002 FAILED: out of workers\n"));
  }
}

TEST_CASE("leat submit --wait --timeout exits with 124, and the job goes on") {
  Here here;
  const Finished done = here.run({"submit", "job.yaml", "--wait", "--timeout", "300ms"});
  CHECK(done.exit_code == 124);
  CHECK(done.out == "cnn-a001\n");
  CHECK_THAT(done.err,
             Catch::Contains("still QUEUED") && Catch::Contains("leat show --follow cnn-a001"));
  CHECK(here.master.jobs().job("cnn-a001")->condition.state == JobState::queued);
}

TEST_CASE("leat submit --follow shows states and epochs, as leat train does") {
  Here here;
  Running leat(here, {"submit", "job.yaml", "--follow"});
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.await_job();
  leat.await_err("QUEUED");
  jobs.change(id, [](JobView& view) {
    view.condition.state = JobState::running;
    view.condition.workers = {"w1", "w2"};
  });
  leat.await_err("RUNNING on w1, w2");
  const bool rows_known = GENERATE(false, true);
  // 9 steps in two epochs. The first has 5 steps, or 6 if the number of rows is known.
  const uint64_t first = rows_known ? 6 : 5;
  const auto step = [&](uint64_t step, std::vector<EpochResult> ended) {
    jobs.change(id, [&](JobView& view) {
      ProgressReport& last = view.progress.last;
      last.step = step;
      last.steps = 9;
      last.epoch = ended.empty() ? 1 : 2;
      last.epochs = 2;
      last.samples_per_step = 8;
      if (rows_known) last.rows_per_epoch = 45, last.rows_per_step = 8;
      last.loss = 1.0 / static_cast<double>(step);
      last.accuracy = 0.5;
      view.progress.epochs = ended;
    });
  };
  const EpochResult one{1, first, 0.25, 0.75, 0.5, 0.625, 2, static_cast<double>(first) * 8 / 2};
  const EpochResult two{2, 9, 0.125, 0.875, 0.375, 0.75, 1, static_cast<double>(9 - first) * 8};
  step(2, {});
  step(7, {one});
  leat.await_err(rows_known ? "Epoch 1/2 - 6/6 - 2s 333ms/step - 24 "
                            : "Epoch 1/2 - 5/5 - 2s 400ms/step - 20 ");
  step(9, {one, two});
  leat.await_err(rows_known ? "Epoch 2/2 - 3/3 - 1s 333ms/step - 24 "
                            : "Epoch 2/2 - 4/4 - 1s 250ms/step - 32 ");
  jobs.change(id, succeed);
  const Finished done = leat.finish();
  CHECK(done.exit_code == 0);
  CHECK_THAT(done.err, Catch::Contains("/s - loss: 0.2500 - accuracy: 0.7500 - val_loss: 0.5000 - "
                                       "val_accuracy: 0.6250"));
  CHECK_THAT(done.err, Catch::Contains("/s - loss: 0.1250 - accuracy: 0.8750 - val_loss: 0.3750 - "
                                       "val_accuracy: 0.7500"));
  CHECK_THAT(done.err, Catch::Contains("leat fetch cnn-a001"));
  CHECK_THAT(done.out, Catch::StartsWith("cnn-a001\ncnn-a001 SUCCEEDED: "));
}

TEST_CASE("a terminal of 60 columns shows the loss of a job that is followed") {
  Here here;
  Terminal terminal(60);
  const std::string out = here.folder / "out";
  ChildProcess leat(leat_binary(), {"submit", "job.yaml", "--follow"},
                    {.folder = here.folder.path(),
                     .environment = here.environment(),
                     .out = out,
                     .err = terminal.path()});
  const auto shows = [&](const std::string& text) {
    return eventually([&] { return terminal.text().find(text) != std::string::npos; },
                      kLongestCommand);
  };
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.await_job();
  jobs.change(id, [](JobView& view) {
    view.condition.state = JobState::running;
    ProgressReport& last = view.progress.last;
    last.step = 100;
    last.steps = 1000;
    last.epoch = 1;
    last.epochs = 1;
    last.samples_per_step = 8;
    last.loss = 0.75;
    last.accuracy = 0.5;
  });
  // The steps before the first report have no speed, because their time is unknown.
  CHECK(shows("\r 100/1000 [>............] - loss: 0.7500 - accuracy: 0.5000"));
  // The last line of an epoch is written, however soon it follows another.
  jobs.change(id, [](JobView& view) {
    view.progress.last.step = 1000;
    view.progress.epochs = {{1, 1000, 0.25, 0.5, kNoNumber, kNoNumber, 2, 4000}};
  });
  CHECK(shows(" - loss: 0.2500 - accuracy: 0.5000"));
  jobs.change(id, succeed);
  CHECK(leat.wait(kLongestCommand) == 0);
}

TEST_CASE("hints name the cluster as the user did") {
  Here here;
  here.master.jobs().add("cnn");
  const std::string master = here.master.address();
  const Finished done = here.run(
      {"show", "cnn-a001", "--wait", "--timeout", "100ms", "--master", master, "--cluster", "leat"},
      {"LEAT_MASTER="});
  CHECK(done.exit_code == 124);
  CHECK_THAT(
      done.err,
      Catch::Contains(cat("leat show --follow cnn-a001 --master ", master, " --cluster leat\n")) &&
          Catch::Contains(cat("leat cancel cnn-a001 --master ", master, " --cluster leat\n")));
  const ClusterOptions options{"m:1", "", "it's here"};
  CHECK(command_for(options, "ps") == "leat ps --master m:1 --secret-file 'it'\\''s here'");
  CHECK(command_for({}, "ps") == "leat ps");
}

TEST_CASE("Ctrl-C detaches from a job, which goes on") {
  Here here;
  Running leat(here, {"submit", "job.yaml", "--follow"});
  here.master.jobs().await_job();
  leat.await_err("QUEUED");
  leat.signal(SIGINT);
  const Finished done = leat.finish();
  CHECK(done.exit_code == 130);
  CHECK_THAT(done.err, Catch::Contains("detached; the job goes on.") &&
                           Catch::Contains("leat show --follow cnn-a001") &&
                           Catch::Contains("leat cancel cnn-a001"));
  CHECK(here.master.jobs().job("cnn-a001")->condition.state == JobState::queued);
}

TEST_CASE("leat submit --follow --json prints the job at every change") {
  Here here;
  Running leat(here, {"submit", "job.yaml", "--follow", "--json"});
  here.master.jobs().await_job();
  leat.await_out("\"state\":\"QUEUED\"");
  here.master.jobs().change("cnn-a001", succeed);
  const Finished done = leat.finish();
  CHECK(done.exit_code == 0);
  CHECK(std::count(done.out.begin(), done.out.end(), '\n') == 2);
  CHECK_THAT(done.out, Catch::StartsWith("{\"apiVersion\":\"leat/v1\",\"kind\":\"Job\","
                                         "\"id\":\"cnn-a001\"") &&
                           Catch::Contains("\"weights_sha256\":\"3323c3f4\",\"shards\":4,"
                                           "\"seed\":11,\"cpu\":\"Model 7\""));
}

TEST_CASE("a command that waits outlives a master that starts again") {
  Here here;
  Running leat(here, {"submit", "job.yaml", "--wait"});
  here.master.jobs().await_job();
  here.master.jobs().await_watcher();
  here.master.stop();
  here.master.start();
  leat.await_err("connecting again");
  here.master.jobs().change("cnn-a001", succeed);
  CHECK(leat.finish().exit_code == 0);
}

TEST_CASE("a submit waits for a master that is not there yet") {
  Here here;
  here.master.stop();
  Running leat(here, {"submit", "job.yaml"});
  leat.await_err("connecting again");
  here.master.start();
  const Finished done = leat.finish();
  CHECK(done.exit_code == 0);
  CHECK(done.out == "cnn-a001\n");
  here.master.stop();
  const Finished late = here.run({"submit", "job.yaml", "--timeout", "300ms"});
  CHECK(late.exit_code == 124);
  CHECK(late.out.empty());
  CHECK(here.run({"logs", "cnn-a001"}).exit_code == 3);
}

TEST_CASE("leat rm forgets jobs that have ended, and leaves others alone") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string failed = jobs.add("cnn", JobState::failed), lives = jobs.add("cnn");
  const std::string cancelled = jobs.add("mlp", JobState::cancelled);
  const Finished done = here.run({"rm", failed, lives, "none", "mlp"});
  CHECK(done.out == cat(failed, "\n", cancelled, "\n"));
  CHECK(done.exit_code == 6);  // of the first job that stays
  CHECK_THAT(done.err, Catch::Contains("is RUNNING: expected one that has ended") &&
                           Catch::Contains("leat cancel --wait " + lives) &&
                           Catch::Contains("there is no job 'none'"));
  CHECK(here.run({"ps", "-a", "-q"}).out == lives + "\n");
  jobs.change(lives, succeed);
  CHECK_THAT(here.run({"rm", lives, "--json"}).out,
             Catch::StartsWith("{\"apiVersion\":\"leat/v1\",\"kind\":\"Job\",\"id\":\"cnn-a002\""));
  CHECK(here.run({"rm", lives}).exit_code == 5);
}

TEST_CASE("leat ps fits the terminal, and is whole in a pipe") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string reason = "waits for 2 workers with data set 'fashion-mnist', 1 there";
  for (int i = 0; i < 2; ++i) {
    jobs.change(jobs.add("fashion-mnist-cnn", JobState::queued),
                [&](JobView& view) { view.condition.reason = reason; });
  }
  CHECK_THAT(here.run({"ps"}).out, Catch::Contains(reason));
  for (const uint16_t columns : {80, 60}) {
    Terminal terminal(columns);
    ChildProcess leat(leat_binary(), {"ps"},
                      {.folder = here.folder.path(),
                       .environment = here.environment(),
                       .out = terminal.path(),
                       .err = here.folder / "err"});
    REQUIRE(leat.wait(kLongestCommand) == 0);
    CAPTURE(terminal.text());
    CHECK_THAT(terminal.text(), Catch::Contains("fashion-mnist-cnn-a001  QUEUED  waits f"));
    std::istringstream lines(terminal.text());
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      CHECK(line.size() <= columns);
    }
  }
}

TEST_CASE("leat ps is a table of the jobs that have not ended") {
  Here here;
  CHECK(here.run({"ps", "-q"}).out.empty());
  FakeJobs& jobs = here.master.jobs();
  const std::string running = jobs.add("cnn");
  jobs.add("old", JobState::failed);
  jobs.add("next", JobState::queued);
  jobs.change(running, [](JobView& view) {
    view.condition.reason = std::string("a\nb");
    view.progress.last.step = 250;
    view.progress.last.steps = 1000;
    view.progress.last.loss = 0.51234;
    view.progress.steps_per_second = 12.34;
    view.progress.eta_seconds = 61;
  });
  const Finished table = here.run({"ps"});
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out, Catch::StartsWith("ID         NAME  STATE    REASON  STEP      LOSS    "
                                          "STEPS/S  ETA   AGE"));
  CHECK_THAT(table.out, Catch::Contains("cnn-a001   cnn   RUNNING  a\\x0ab  250/1000  0.5123  "
                                        "12.3     1:01  "));
  CHECK_THAT(table.out, Catch::Contains("next-a003  next  QUEUED   -       -         -       -"));
  CHECK_THAT(table.out, !Catch::Contains("old-a002"));
  CHECK(here.run({"ps", "-q"}).out == "cnn-a001\nnext-a003\n");
  CHECK(here.run({"ps", "-a", "-q"}).out == "cnn-a001\nnext-a003\nold-a002\n");
  CHECK_THAT(here.run({"ps", "--no-headers"}).out, Catch::StartsWith("cnn-a001"));
  CHECK_THAT(here.run({"ps", "--json"}).out,
             Catch::StartsWith("{\"apiVersion\":\"leat/v1\",\"kind\":\"JobList\",\"items\":["
                               "{\"id\":\"cnn-a001\",\"number\":1,\"name\":\"cnn\","
                               "\"state\":\"RUNNING\""));
}

TEST_CASE("leat show describes a job by a prefix, and an unknown one is exit code 5") {
  Here here;
  const std::string id = here.master.jobs().add("cnn");
  here.master.jobs().change(id, succeed);
  const Finished shown = here.run({"show", "cnn"});
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Catch::StartsWith("Id              cnn-a001\nName            cnn\n"
                                          "State           SUCCEEDED for ") &&
                            Catch::Contains("Weights sha256  3323c3f4\n                shards 4, "
                                            "seed 11, Model 7\n"));
  CHECK(here.run({"show", "xyz"}).exit_code == 5);
  CHECK_THAT(here.run({"show", "xyz"}).err, Catch::Contains("there is no job 'xyz'"));
  here.master.jobs().add("cnn");
  CHECK(here.run({"show", "cnn"}).exit_code == 5);
  CHECK(here.run({"show", id, "--wait"}).exit_code == 0);
}

TEST_CASE("leat logs prints lines with their worker, the last ones, and those to come") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn");
  for (int i = 0; i < 4; ++i) jobs.say(id, "w1", cat("line ", i, "\033[2J"));
  CHECK(here.run({"logs", id}).out ==
        "w1 | line 0\\x1b[2J\nw1 | line 1\\x1b[2J\nw1 | line 2\\x1b[2J\nw1 | line 3\\x1b[2J\n");
  CHECK(here.run({"logs", id, "--tail", "1"}).out == "w1 | line 3\\x1b[2J\n");
  CHECK(here.run({"logs", id, "--tail", "0"}).out.empty());
  CHECK(here.run({"logs", "xyz"}).exit_code == 5);
  {
    Running leat(here, {"logs", "-f", id, "--tail", "1"});
    leat.await_out("line 3");
    jobs.say(id, "w2", "the last");
    leat.await_out("w2 | the last\n");
    jobs.change(id, succeed);
    CHECK(leat.finish().exit_code == 0);
  }
  jobs.add("other");
  Running leat(here, {"logs", "-f", "other"});
  jobs.await_watcher();
  leat.signal(SIGINT);
  const Finished done = leat.finish();
  CHECK(done.exit_code == 130);
  CHECK_THAT(done.err, Catch::Contains("leat logs -f other-a002"));
}

// `leat VERB ID --wait` returns once the job is in that state.
void check_wait(Here& here, const std::string& verb, const std::string& id, JobState state) {
  FakeJobs& jobs = here.master.jobs();
  Running leat(here, {verb, id, "--wait"});
  jobs.await_watcher();
  jobs.change(id, [&](JobView& view) { view.condition.state = state; });
  const Finished ended = leat.finish();
  CHECK(ended.exit_code == 0);
  CHECK(ended.out == cat(id, " ", name_of(state), "\n"));
}

TEST_CASE("leat cancel ends a job, and one that has ended is exit code 6") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn");
  const Finished done = here.run({"cancel", "cnn"});
  CHECK(done.exit_code == 0);
  CHECK(done.out == id + "\n");
  CHECK(jobs.job(id)->condition.state == JobState::cancelling);
  check_wait(here, "cancel", id, JobState::cancelled);
  CHECK(here.run({"cancel", id}).exit_code == 6);
  CHECK(here.run({"cancel", "xyz"}).exit_code == 5);
  jobs.add("other");
  CHECK(here.run({"cancel", "other", "--wait", "--timeout", "200ms"}).exit_code == 124);
}

TEST_CASE("leat pause waits for PAUSED if it is asked to, and leat resume takes it back") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn");
  const Finished done = here.run({"pause", "cnn"});
  CHECK(done.exit_code == 0);
  CHECK(done.out == id + " PAUSING\n");
  check_wait(here, "pause", id, JobState::paused);
  CHECK(here.run({"resume", id}).out == id + " QUEUED\n");
  CHECK(here.run({"pause", id, "--wait", "--timeout", "200ms"}).exit_code == 124);
  CHECK_THAT(here.run({"resume", id, "--json"}).out, Catch::Contains("\"state\":\"QUEUED\""));
  CHECK(here.run({"pause", "xyz"}).exit_code == 5);
  jobs.change(id, [](JobView& view) { view.condition.state = JobState::succeeded; });
  CHECK(here.run({"pause", id}).exit_code == 6);
}

TEST_CASE("leat nodes and leat cluster say what there is") {
  Here here;
  const Finished nodes = here.run({"nodes"});
  CHECK(nodes.exit_code == 0);
  CHECK_THAT(nodes.out, Catch::Contains("worker-1  READY  -                       cnn-a001  "
                                        "cpu:0 (4 threads)  8.0 GiB  mnist                 0s     "
                                        "10.0.0.2:17463\n"));
  CHECK_THAT(nodes.out, Catch::Contains("worker-2  LOST   no heartbeat for 3.0 s  -"));
  CHECK(here.run({"nodes", "-q"}).out == "worker-1\nworker-2\n");
  CHECK_THAT(here.run({"nodes", "--json"}).out, Catch::Contains("\"kind\":\"NodeList\""));
  const Finished cluster = here.run({"cluster"});
  CHECK_THAT(cluster.out, Catch::Contains("Cluster         leat\n") &&
                              Catch::Contains("Generation      3\n") &&
                              Catch::Contains("Status page     http://127.0.0.1:17460\n"));
  CHECK_THAT(here.run({"cluster", "--json"}).out, Catch::Contains("\"kind\":\"Cluster\""));
}

TEST_CASE("leat fetch copies what a job has left") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn", JobState::succeeded);
  CHECK(here.run({"fetch", id}).exit_code == 6);
  const std::string text = "the weights";
  jobs.leave(id, "weights.safetensors", std::as_bytes(std::span(text)));
  jobs.leave(id, "checkpoints/step-10/manifest.json", std::as_bytes(std::span(text)));
  const Finished all = here.run({"fetch", "cnn"});
  CHECK(all.exit_code == 0);
  CHECK(all.out == "cnn-a001/checkpoints/step-10/manifest.json\ncnn-a001/weights.safetensors\n");
  CHECK(contents_of(here.folder / "cnn-a001/weights.safetensors") == text);
  const Finished one = here.run({"fetch", id, "weights.safetensors", "-o", "out"});
  CHECK(one.out == "out/weights.safetensors\n");
  CHECK(here.run({"fetch", id, "none"}).exit_code == 5);
  CHECK(here.run({"fetch", "xyz"}).exit_code == 5);
}

TEST_CASE("a master that lies about ids and files leads no command out of its folder") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn", JobState::succeeded);
  const std::string home = here.folder / "home";
  write(home + "/.profile", "mine");
  jobs.leave(id, ".profile", std::as_bytes(std::span("theirs")));
  jobs.lies([&](JobView& view) { view.id = home; });
  const std::vector<std::vector<std::string>> commands = {{"fetch", "cnn"},
                                                          {"logs", "cnn"},
                                                          {"logs", "-f", "cnn"},
                                                          {"show", "cnn"},
                                                          {"ps", "-a"},
                                                          {"show", "--wait", "cnn"},
                                                          {"cancel", "cnn"},
                                                          {"submit", "--resume", "cnn"},
                                                          {"checkpoint", "ls", "cnn"}};
  for (const auto& command : commands) {
    const Finished done = here.run(command);
    INFO(join(command, " ") << ": " << done.out << done.err);
    CHECK(done.exit_code == 1);
    CHECK(done.out.empty());
    CHECK_THAT(done.err, Catch::Contains("a job: expected an id"));
  }
  jobs.lies({});
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"fetch", "cnn", "-o", "home"},
        {"fetch", "cnn", ".profile", "-o", "home"},
        {"submit", "--resume", "cnn"},
        {"checkpoint", "verify", "cnn"}}) {
    const Finished done = here.run(command);
    INFO(join(command, " ") << ": " << done.err);
    CHECK(done.exit_code != 0);
    CHECK_THAT(done.err, Catch::Contains("received '.profile'"));
  }
  jobs.lies({}, {"checkpoints/step-1/../../../home/x"});
  CHECK(here.run({"checkpoint", "ls", "cnn"}).exit_code == 1);
  CHECK(contents_of(home + "/.profile") == "mine");
  const auto left = std::filesystem::directory_iterator(home);
  CHECK(std::distance(begin(left), end(left)) == 1);
}

TEST_CASE("leat submit --resume sends no file of this machine that a job of the cluster names") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn", JobState::succeeded);
  const std::string mine = here.folder / "model.onnxtxt";
  const std::string text = replaced(kCommandsJob, "graph: model.onnxtxt", "graph: " + mine);
  jobs.leave(id, "job.yaml", std::as_bytes(std::span(text)));
  jobs.leave(id, "checkpoints/step-1/manifest.json", std::as_bytes(std::span("{}")));
  const Finished done = here.run({"submit", "--resume", id});
  CHECK(done.exit_code == 7);
  CHECK_THAT(done.err, Catch::Contains("expected its graph 'model.onnxtxt' among the files"));
  CHECK(jobs.jobs().size() == 1);
  jobs.leave(id, "model.onnxtxt", std::as_bytes(std::span(std::string_view(kGraph))));
  CHECK(here.run({"submit", "--resume", id}).exit_code == 0);
  CHECK(jobs.submission(jobs.await_job(2)).files[0].bytes == kGraph);
}

TEST_CASE("leat fetch goes on when a checkpoint is removed meanwhile") {
  Here here;
  FakeJobs& jobs = here.master.jobs();
  const std::string id = jobs.add("cnn");
  const std::string text = "bytes";
  const auto leave = [&](const std::string& name) {
    jobs.leave(id, name, std::as_bytes(std::span(text)));
  };
  for (const char* step : {"checkpoints/step-1/", "checkpoints/step-2/"}) {
    for (const char* name : {"manifest.json", "part-0", "part-1"}) leave(cat(step, name));
  }
  leave("job.yaml");
  const auto paths = [&](const std::string& folder, int step) {
    std::string lines;
    for (const char* name : {"manifest.json", "part-0", "part-1"})
      lines += cat(folder, "/checkpoints/step-", step, "/", name, "\n");
    return lines;
  };
  CHECK(here.run({"fetch", id, "-o", "before"}).exit_code == 0);
  write(here.folder / "before/checkpoints/step-2/part-0", "old");
  for (const std::string folder : {"before", "new"}) {
    jobs.vanishes("checkpoints/step-1/part-1");
    const Finished done = here.run({"fetch", id, "-o", folder});
    CHECK(done.exit_code == 0);
    CHECK_THAT(done.err, Catch::Contains("the job has removed checkpoints/step-1 meanwhile"));
    CHECK(done.out == cat(paths(folder, 2), folder, "/job.yaml\n"));
    // A checkpoint that was fetched earlier stays whole.
    const bool was_here = folder == "before";
    const std::string first = here.folder / (folder + "/checkpoints/step-1");
    CHECK(std::filesystem::exists(first + "/part-1") == was_here);
    CHECK(std::filesystem::exists(first) == was_here);
    CHECK(contents_of(here.folder / (folder + "/checkpoints/step-2/part-0")) == text);
    const auto left = std::filesystem::directory_iterator(here.folder / folder);
    CHECK(std::distance(begin(left), end(left)) == 2);
    for (const char* name : {"manifest.json", "part-0", "part-1"})
      leave(cat("checkpoints/step-1/", name));
  }
}

TEST_CASE("a master that is not there is exit code 3, one that refuses is 4") {
  Here here;
  for (const char* command : {"ps", "nodes", "cluster"}) {
    const Finished refused = here.run({command, "--cluster", "other"});
    CHECK(refused.exit_code == 4);
    CHECK_THAT(refused.err, Catch::Contains("cluster"));
  }
  here.master.stop();
  const Finished none = here.run({"ps"});
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.err, Catch::Contains("no master at " + here.master.address()) &&
                           Catch::Contains("leatd dev"));
}

TEST_CASE("a cluster with a secret is for those who know it") {
  TemporaryDirectory folder;
  const std::string secret = "a secret of more than thirty-two bytes";
  write(folder / "secret", secret + "\n");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::owner_read);
  JobMaster master({.secret = secret});
  const std::vector<std::string> environment{
      "LEAT_MASTER=", "LEAT_SECRET_FILE=", "LEAT_CLUSTER=", "XDG_CONFIG_HOME=" + folder.path()};
  const auto run = [&](std::vector<std::string> arguments, std::vector<std::string> changes) {
    changes.insert(changes.begin(), environment.begin(), environment.end());
    return run_program(leat_binary(), folder.path(), arguments, changes).exit_code;
  };
  CHECK(run({"ps", "--master", master.address()}, {}) == 4);
  CHECK(run({"ps", "--master", master.address(), "--secret-file", "secret"}, {}) == 0);
  CHECK(run({"ps", "--master", master.address(), "--secret-file", "none"}, {}) == 7);
  // The user's file comes first, then the environment replaces it, then the flag.
  write(folder / "leat/config.yaml",
        cat("master: ", master.address(), "\nsecret_file: ", folder / "secret", "\n"));
  CHECK(run({"ps"}, {}) == 0);
  CHECK(run({"ps"}, {"LEAT_MASTER=127.0.0.1:1"}) == 3);
  CHECK(run({"ps", "--master", master.address()}, {"LEAT_MASTER=127.0.0.1:1"}) == 0);
  write(folder / "leat/config.yaml", "mater: x\n");
  CHECK(run({"ps"}, {}) == 7);
}

}  // namespace leat
