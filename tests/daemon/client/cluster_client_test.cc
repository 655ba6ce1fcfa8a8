#include "daemon/client/cluster_client.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/eventually.h"
#include "tests/promised_time.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr char kJob[] = R"(version: 1
name: cnn
model: {graph: model.onnxtxt}
data: {root: mnist, train: {format: idx, features: x.gz, labels: y.gz}}
loss: cross_entropy
optimizer: {name: sgd, learning_rate: 0.1}
global_batch_size: 8
steps: 10
shards: 4
)";

ClusterClientOptions options_for(const JobMaster& master) {
  ClusterClientOptions options;
  options.address = master.address();
  return options;
}

std::unique_ptr<ClusterClient> connect(ClusterClientOptions options) {
  auto client = ClusterClient::connect(std::move(options));
  INFO(client.status());
  REQUIRE(client.ok());
  return std::move(*client);
}

Bytes pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  return bytes;
}

std::string write(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return path;
}

Bytes read(const std::string& path) {
  auto bytes = read_file(real_files(), path, uint64_t{1} << 30);
  INFO(bytes.status());
  REQUIRE(bytes.ok());
  return std::move(*bytes);
}

JobRequest request_of(std::vector<JobAttachment> files = {}) {
  return {new_request_id(), kJob, {"num_workers=2"}, std::move(files)};
}

}  // namespace

TEST_CASE("a job arrives as it was sent, with its small and large files") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const Bytes small = pattern(1000), large = pattern(5u << 20);
  const JobRequest request = request_of({{"graph/model.onnxtxt", write(here / "m", small)},
                                         {"weights/w.safetensors", write(here / "w", large)}});
  const auto view = client->submit(request);
  INFO(view.status());
  REQUIRE(view.ok());
  CHECK(view->id == "cnn-a001");
  CHECK(view->condition.state == JobState::queued);
  CHECK(view->num_workers == 2);
  const Submission submission = master.jobs().submission(view->id);
  CHECK(submission.name == "cnn");
  CHECK(submission.text == kJob);
  CHECK(submission.overrides == request.overrides);
  REQUIRE(submission.files.size() == 2);
  CHECK(submission.files[0].name == "graph/model.onnxtxt");
  CHECK(submission.files[0].sha256 == sha256(small));
  CHECK(submission.files[0].bytes.has_value());
  CHECK(submission.files[1].sha256 == sha256(large));
  CHECK(submission.files[1].size == large.size());
  CHECK_FALSE(submission.files[1].bytes.has_value());
  CHECK(master.jobs().blobs() == 1);
}

TEST_CASE("an upload that breaks is made once more") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const JobRequest request =
      request_of({{"weights/w.safetensors", write(here / "w", pattern(96u << 20))}});
  std::thread other([&] {
    const auto due = std::chrono::steady_clock::now() + 30s;
    while (master.jobs().blobs() == 0 && std::chrono::steady_clock::now() < due)
      std::this_thread::yield();
    master.stop();
    master.start();
  });
  const auto view = client->submit(request);
  other.join();
  INFO(view.status());
  REQUIRE(view.ok());
  CHECK(master.jobs().submission(view->id).files[0].size == 96u << 20);
  CHECK(master.jobs().blobs() == 1);
}

TEST_CASE("a file that changes between its hash and its upload is refused by name") {
  JobMaster master;
  const TemporaryDirectory here;
  const std::string path = write(here / "w", pattern(3u << 20));
  ClusterClientOptions options = options_for(master);
  // The client asks after each MiB that it has hashed.
  int asked = 0;
  options.stop = [&] {
    if (++asked == 3) write(path, Bytes(3u << 20));
    return false;
  };
  const auto client = connect(std::move(options));
  asked = 0;
  const auto view = client->submit(request_of({{"weights/w", path}}));
  CHECK(view.status().code() == Code::failed_precondition);
  CHECK_THAT(view.status().message(),
             Catch::Contains(path + "': it changed while it was being uploaded") &&
                 Catch::Contains("while uploading 'weights/w'"));
  CHECK(eventually([&] { return master.jobs().blobs() == 0; }));
  CHECK(master.jobs().jobs().empty());
}

TEST_CASE("a file that is encrypted is refused before it is sent, small or large") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  for (const size_t size : {size_t{8}, size_t{5} << 20}) {
    Bytes sealed = pattern(size);
    std::ranges::copy(std::as_bytes(std::span(std::string_view("leatseal"))), sealed.begin());
    const std::string path = write(here / "w", sealed);
    const Status refused = client->submit(request_of({{"weights/w", path}})).status();
    CHECK(refused.code() == Code::invalid_argument);
    CHECK_THAT(refused.message(), Catch::Contains("'" + path +
                                                  "': expected a file that is not "
                                                  "encrypted") &&
                                      Catch::Contains("export it first"));
  }
  CHECK(master.jobs().blobs() == 0);
  CHECK(master.jobs().jobs().empty());
}

TEST_CASE("a checkpoint of a thousand parts goes along, and what no message holds is refused") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const std::string part = write(here / "p", pattern(1000));
  std::vector<JobAttachment> files;
  for (int i = 0; i < 1000; ++i) files.push_back({cat("resume/checkpoints/step-1/", i), part});
  const auto view = client->submit(request_of(files));
  INFO(view.status());
  REQUIRE(view.ok());
  CHECK(master.jobs().submission(view->id).files.size() == 1000);
  CHECK(master.jobs().blobs() == 1);  // of the files that did not fit in the message
  for (JobAttachment& file : files) file.name += std::string(1000, 'x');
  const Status large = client->submit(request_of(files)).status();
  CHECK(large.code() == Code::invalid_argument);
  CHECK_THAT(large.message(), Catch::StartsWith("submit: expected a job file, overrides and names "
                                                "of files of at most 960.0 KiB, received 1.1 MiB"));
}

TEST_CASE("a job to go on from is named to the master") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("first");
  JobRequest request = request_of();
  request.resume = "fir";
  const auto view = client->submit(request);
  INFO(view.status());
  REQUIRE(view.ok());
  CHECK(master.jobs().submission(view->id).files.at(0).name == "resume/" + id);
  request.request_id = new_request_id();
  request.resume = "other";
  CHECK(client->submit(request).status().message() == "there is no job 'other'");
  request.resume = std::string(300, 'x');
  CHECK(client->submit(request).status().code() == Code::invalid_argument);
}

TEST_CASE("a submit that is repeated is the same job") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const JobRequest request = request_of();
  const auto first = client->submit(request), again = client->submit(request);
  REQUIRE(first.ok());
  REQUIRE(again.ok());
  CHECK(first->id == again->id);
  CHECK(master.jobs().repeats() == 1);
  CHECK(client->jobs()->size() == 1);
}

TEST_CASE("a job that is wrong is refused with its place, whoever sent it") {
  JobMaster master;
  const auto client = connect(options_for(master));
  JobRequest request = request_of();
  request.overrides = {"num_workers=9"};
  const auto refused = client->submit(request);
  CHECK(refused.status().code() == Code::invalid_argument);
  CHECK_THAT(refused.status().message(), Catch::Contains("num_workers: expected at most 4"));
  CHECK(master.jobs().jobs().empty());
}

TEST_CASE("all that is known of a job goes over the wire") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn");
  master.jobs().change(id, [](JobView& view) {
    view.num_workers = 3;
    view.condition.reason = "two of them";
    view.condition.restarts = 2;
    view.condition.assembly = 4;
    view.condition.workers = {"a", "b"};
    view.condition.result = {"abcd", 4, 11, "Model 7", true};
    view.progress.last.step = 7;
    view.progress.last.steps = 10;
    view.progress.last.epoch = 1;
    view.progress.last.epochs = 2;
    view.progress.last.samples_per_step = 64;
    view.progress.last.loss = 0.5;
    view.progress.last.accuracy = 0.75;
    view.progress.last.val_accuracy = 0.875;
    view.progress.last.rows_per_epoch = 6000;
    view.progress.last.rows_per_step = 65;
    view.progress.last.val_loss = computed(std::nan(""));
    view.progress.last.metrics_missing = 5;
    view.progress.last.metrics_changed_until = 6;
    view.progress.last.steps_skipped = 4;
    view.progress.epochs = {{1, 3, 0.5, 0.25, kNoNumber, computed(kNoNumber), 7, 8}};
    view.progress.epochs[0].more = {{"val_f1", 0.25}, {"val_auc", computed(kNoNumber)}};
    view.progress.steps_per_second = 12;
    view.progress.eta_seconds = 3;
    view.history.put({1, 3, "worker 'a' was lost", "a", "kill=worker:0@step=7", 10, 20, 30, -1, 7});
    view.history.put({2, 4, "", "", "", 1, 2, -1, 40, 7, 5, RecoverySource::memory});
  });
  const auto got = client->job("cnn");
  REQUIRE(got.ok());
  const JobView sent = *master.jobs().job(id);
  CHECK(got->number == sent.number);
  CHECK(got->id == id);
  CHECK(got->num_workers == 3);
  CHECK(got->submitted_ms == sent.submitted_ms);
  CHECK(got->condition == sent.condition);
  CHECK(got->version == 2);
  CHECK(got->progress.last.step == 7);
  CHECK(got->progress.last.samples_per_step == 64);
  CHECK(got->progress.last.rows_per_epoch == 6000);
  CHECK(got->progress.last.rows_per_step == 65);
  CHECK(got->progress.last.val_accuracy == 0.875);
  CHECK(std::isnan(got->progress.samples_per_second));
  CHECK(std::isnan(got->progress.last.val_loss));
  CHECK(is_known(got->progress.last.val_loss));
  CHECK(got->progress.last.metrics_missing == 5);
  CHECK(got->progress.last.metrics_changed_until == 6);
  CHECK(got->progress.last.steps_skipped == 4);
  REQUIRE(got->progress.epochs.size() == 1);
  CHECK(got->progress.epochs[0].step == 3);
  CHECK(got->progress.epochs[0].samples_per_second == 8);
  CHECK_FALSE(is_known(got->progress.epochs[0].val_loss));
  CHECK(is_known(got->progress.epochs[0].val_accuracy));
  CHECK(got->progress.epochs[0].more == sent.progress.epochs[0].more);
  CHECK(got->progress.last.ended.more == sent.progress.epochs[0].more);
  CHECK(got->progress.eta_seconds == 3);
  CHECK(got->history == sent.history);

  const auto nodes = client->nodes();
  REQUIRE(nodes.ok());
  REQUIRE(nodes->size() == 2);
  CHECK((*nodes)[0].worker.info.worker == WorkerRef{"worker-1", 0x1234});
  CHECK((*nodes)[0].worker.info.devices.at(0).threads == 4);
  CHECK((*nodes)[0].worker.info.datasets == std::vector<std::string>{"mnist"});
  CHECK((*nodes)[0].job == "cnn-a001");
  CHECK((*nodes)[1].worker.state == WorkerState::lost);
  CHECK((*nodes)[1].worker.silent == 65s);
  const auto cluster = client->cluster();
  REQUIRE(cluster.ok());
  CHECK(cluster->id == master.jobs().cluster().id);
  CHECK(cluster->now_ms == master.jobs().cluster().now_ms);
  CHECK(cluster->journal.ok());
}

TEST_CASE("a watch ends with the next change, or with its time") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn");
  CHECK(client->watch(id, 0, 30s)->version == 1);
  CHECK(client->watch(id, 1, 1ms)->version == 1);
  std::thread other([&] {
    master.jobs().await_watcher();
    master.jobs().change(id, [](JobView& view) { view.condition.state = JobState::succeeded; });
  });
  const auto changed = client->watch(id, 1, 30s);
  other.join();
  REQUIRE(changed.ok());
  CHECK(changed->condition.state == JobState::succeeded);
}

TEST_CASE("a call that waits ends when it is told to stop") {
  JobMaster master;
  std::atomic<bool> stop = false;
  ClusterClientOptions options = options_for(master);
  options.stop = [&] { return stop.load(); };
  const auto client = connect(std::move(options));
  const std::string id = master.jobs().add("cnn");
  std::thread other([&] {
    master.jobs().await_watcher();
    stop = true;
  });
  CHECK(client->watch(id, 1, 30s).status().code() == Code::cancelled);
  other.join();
}

TEST_CASE("a master that stops is as good as a connection that is lost") {
  JobMaster master;
  std::atomic<int> lost = 0;
  ClusterClientOptions options = options_for(master);
  options.on_lost = [&](const Status& cause) {
    CHECK(cause.message() == "the master is stopping");
    ++lost;
  };
  const auto client = connect(std::move(options));
  const std::string id = master.jobs().add("cnn");
  std::thread other([&] {
    master.jobs().await_watcher();
    master.jobs().leave_waiting();
    master.jobs().await_watcher();
    master.jobs().change(id, [](JobView& view) { view.condition.state = JobState::succeeded; });
  });
  const auto changed = client->watch(id, 1, 30s);
  other.join();
  REQUIRE(changed.ok());
  CHECK(changed->condition.state == JobState::succeeded);
  CHECK(lost == 1);
}

TEST_CASE("unknown and ended jobs are told apart from lost masters") {
  JobMaster master;
  const auto client = connect(options_for(master));
  master.jobs().add("cnn", JobState::succeeded);
  CHECK(client->job("xyz").status().code() == Code::failed_precondition);
  CHECK(client->cancel("cnn").status().code() == Code::failed_precondition);
  CHECK(client->job(std::string(300, 'x')).status().code() == Code::invalid_argument);
  CHECK(client->job("").status().code() == Code::invalid_argument);
  CHECK_FALSE(client->refused());
}

TEST_CASE("logs come in pages, from any line on") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn");
  const std::string longer(1000, 'x');
  for (int i = 0; i < 1000; ++i) master.jobs().say(id, "w", cat(i, longer));
  uint64_t from = 0;
  int pages = 0;
  while (from < 1000) {
    const auto page = client->logs(id, from);
    REQUIRE(page.ok());
    REQUIRE(page->first == from);
    REQUIRE_FALSE(page->lines.empty());
    CHECK(page->lines.front().text == cat(from, longer));
    CHECK(page->end == 1000);
    from += page->lines.size();
    ++pages;
  }
  CHECK(pages == 4);  // of 256 KiB
  const auto end = client->logs(id, 1000);
  REQUIRE(end.ok());
  CHECK(end->lines.empty());
  CHECK_FALSE(end->complete);
}

TEST_CASE("a client connects again when the master comes back, and its call is answered") {
  JobMaster master;
  ClusterClientOptions options = options_for(master);
  std::atomic<int> lost = 0;
  options.on_lost = [&](const Status&) { ++lost; };
  const auto client = connect(std::move(options));
  const std::string id = master.jobs().add("cnn");
  std::thread other([&] {
    master.jobs().await_watcher();
    master.stop();
    master.start();
    master.jobs().change(id, [](JobView& view) { view.condition.state = JobState::failed; });
  });
  const auto changed = client->watch(id, 1, 30s);
  other.join();
  INFO(changed.status());
  REQUIRE(changed.ok());
  CHECK(changed->condition.state == JobState::failed);
  CHECK(lost == 1);
}

TEST_CASE("a master that stays away is unavailable, in bounded time") {
  JobMaster master;
  ClusterClientOptions options = options_for(master);
  options.patience = 300ms;
  const auto client = connect(options);
  master.stop();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(client->jobs().status().code() == Code::unavailable);
  check_promised(begin, 5s);
  CHECK(ClusterClient::connect(options).status().code() == Code::unavailable);
  master.start();
  CHECK(client->jobs().ok());
}

TEST_CASE("another cluster's master and a wrong secret refuse a client") {
  JobMaster master({.secret = "a secret of more than thirty-two bytes"});
  ClusterClientOptions options = options_for(master);
  CHECK(ClusterClient::connect(options).status().code() == Code::failed_precondition);
  options.secret = "another secret of more than 32 bytes";
  CHECK(ClusterClient::connect(options).status().code() == Code::failed_precondition);
  options.secret = "a secret of more than thirty-two bytes";
  CHECK(ClusterClient::connect(options).ok());
  options.cluster = "other";
  const auto other = ClusterClient::connect(options);
  CHECK(other.status().code() == Code::failed_precondition);
  CHECK_THAT(other.status().message(), Catch::Contains("cluster"));
}

TEST_CASE("files of a job are listed and fetched whole") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  const Bytes weights = pattern(64u << 20), empty;
  master.jobs().leave(id, "weights.safetensors", weights);
  master.jobs().leave(id, "checkpoints/000010/manifest.json", empty);
  const auto files = client->files(id);
  REQUIRE(files.ok());
  REQUIRE(files->size() == 2);
  CHECK((*files)[1].name == "weights.safetensors");
  CHECK((*files)[1].size == weights.size());
  for (const RemoteFile& file : *files) {
    const auto path = client->fetch(id, file.name, here / "out");
    INFO(path.status());
    REQUIRE(path.ok());
    CHECK(*path == here / "out/" + file.name);
  }
  CHECK(read(here / "out/weights.safetensors") == weights);
  CHECK(read(here / "out/checkpoints/000010/manifest.json").empty());
  CHECK(real_files().list(here / "out")->size() == 2);  // and no temporary file
}

TEST_CASE("a fetch that breaks goes on where it broke") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  const Bytes weights = pattern(96u << 20);
  master.jobs().leave(id, "w", weights);
  std::thread other([&] {
    // Waits until the client has begun to write, under a temporary name.
    const auto began = [&] {
      const auto names = real_files().list(here / "out");
      return names.ok() && !names->empty();
    };
    const auto due = std::chrono::steady_clock::now() + 30s;
    while (!began() && std::chrono::steady_clock::now() < due) std::this_thread::yield();
    master.stop();
    master.start();
  });
  const auto path = client->fetch(id, "w", here / "out");
  other.join();
  INFO(path.status());
  REQUIRE(path.ok());
  CHECK(read(*path) == weights);
}

TEST_CASE("a job that a master calls otherwise than it may is taken by no call") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn");
  for (const char* name : {"/tmp/home", "../cnn-a001", "..", "", "-cnn-a001", "cnn a001",
                           "cnn\x1b[2J", "CNN-a001", "rnn-a001"}) {
    INFO(name);
    master.jobs().lies([&](JobView& view) { view.id = name; });
    CHECK(client->job("cnn").status().code() == Code::internal);
    CHECK(client->watch(id, 0, 1ms).status().code() == Code::internal);
    const std::string known = name;  // a list may contain any job
    CHECK(client->jobs().ok() == (known == "rnn-a001"));
  }
  master.jobs().lies([](JobView& view) { view.condition.workers = {"w1", "../w2"}; });
  CHECK_THAT(client->job(id).status().message(), Catch::Contains("received '../w2'"));
  master.jobs().lies({});
  CHECK(client->job("cnn").ok());
}

TEST_CASE("a file that leads out of the folder, or hides in it, makes a listing worthless") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  for (const char* name : {"../w", "/etc/passwd", "checkpoints/../../w", "", ".", "a//b", ".bashrc",
                           ".ssh/authorized_keys", "a\nb", "\x1b[2J"}) {
    INFO(name);
    master.jobs().lies({}, {name});
    CHECK(client->files(id).status().code() == Code::internal);
    CHECK(client->fetch(id, name, here / "out").status().code() == Code::invalid_argument);
  }
  CHECK_FALSE(*real_files().exists(here / "out"));
  master.jobs().lies({}, {"graph/.data/w"});
  CHECK(client->files(id).ok());
}

TEST_CASE("a page with lines before those that were asked for is refused") {
  JobMaster master;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn");
  for (int i = 0; i < 4; ++i) master.jobs().say(id, "w1", cat("line ", i));
  master.jobs().repeats_lines(1);
  CHECK(client->logs(id, 0).ok());
  CHECK(client->logs(id, 2).status().code() == Code::internal);
  CHECK(client->logs(id, 9).status().code() == Code::internal);
}

TEST_CASE("names that lead out of the folder are not fetched") {
  JobMaster master;
  const TemporaryDirectory here;
  const auto client = connect(options_for(master));
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  master.jobs().leave(id, "w", pattern(10));
  for (const char* name : {"../w", "/etc/passwd", "a/../../w", "", ".", "a//b"}) {
    INFO(name);
    CHECK(client->fetch(id, name, here / "out").status().code() == Code::invalid_argument);
  }
  CHECK(client->fetch(id, "x", here / "out").status().code() == Code::invalid_argument);
  CHECK_FALSE(*real_files().exists(here / "out"));
}

}  // namespace leat
