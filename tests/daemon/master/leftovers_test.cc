// Leftovers of crashes and of clients are removed, both while the master runs and when it starts.
#include "daemon/master/leftovers.h"

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"
#include "tests/must.h"

namespace leat {

using namespace testing;

namespace {

namespace fs = std::filesystem;

// Makes a job's folder in the state in which a master that is killed during a write leaves it.
void leave_half(const std::string& folder) {
  fs::create_directories(folder + "/checkpoints/.tmp-step-00000050-ab12");
  fs::create_directories(folder + "/checkpoints/step-00000040");
  fs::create_directories(folder + "/saved/deep");
  for (const char* name : {"/checkpoints/.tmp-step-00000050-ab12/part-00000-of-00001.safetensors",
                           "/metrics.jsonl.tmp", "/job.yaml.4711-3.tmp", "/metrics.jsonl",
                           "/saved/deep/w", "/saved/deep/w.3.tmp"})
    write(folder + name, "{}\n");
}

std::vector<std::string> left_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& each : fs::recursive_directory_iterator(folder))
    names.push_back(fs::relative(each.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<std::string> kWhole = {"checkpoints",   "checkpoints/step-00000040",
                                         "metrics.jsonl", "saved",
                                         "saved/deep",    "saved/deep/w"};

TEST_CASE("half-written files of an ended job go after a while, those of a running one stay") {
  const JournalFolder folder;
  leave_half(folder / "job-1");
  leave_half(folder / "job-2");
  Leftovers leftovers(real_files(), folder.path(), 10s, {});
  const Clock::Steady now{1h};
  leftovers.ended("job-1", now);
  leftovers.ended("job-3", now);  // it has no folder
  leftovers.sweep(now + 9s);
  CHECK(left_in(folder / "job-1").size() == 11);
  leftovers.sweep(now + 10s);
  CHECK(left_in(folder / "job-1") == kWhole);
  CHECK(left_in(folder / "job-2").size() == 11);  // it is alive
}

TEST_CASE("a master removes what ended jobs left, while it runs and when it starts") {
  Host host;
  host.tuning.sweep = 20ms;
  host.tuning.sweep_after = 0ms;
  host.restart();
  const std::string id = host.submitted(tiny_job("r1"));
  leave_half(host.folder / ("state/jobs/" + id));
  REQUIRE_OK(host.cancel(id).status());
  const auto swept = [&] {
    return !fs::exists(host.folder / ("state/jobs/" + id + "/metrics.jsonl.tmp"));
  };
  CHECK(eventually(swept));
  leave_half(host.folder / ("state/jobs/" + id));
  host.restart();
  CHECK(eventually(swept));
  CHECK(fs::exists(host.folder / ("state/jobs/" + id + "/checkpoints/step-00000040")));
}

TEST_CASE("a file that was uploaded for no job goes after a while, and one of a job stays") {
  Host host;
  const std::string text = "of no job";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const Sha256Digest digest = sha256(bytes);
  auto blob = must(host.master->begin_blob({digest, bytes.size()}));
  must(blob->append(bytes));
  must(blob->finish());
  const std::string path = host.folder / ("state/blobs/" + to_hex(digest));
  CHECK(fs::exists(path));
  blob.reset();
  REQUIRE_OK(host.master->stop());
  host.master.reset();
  {
    const auto journal = open_journal(host.folder / "state");
    CHECK_FALSE(fs::exists(path));  // no job names it at the start
    REQUIRE_OK(journal->blobs().put(digest, bytes));
    REQUIRE_OK(journal->collect_blobs(3600s));
    CHECK(fs::exists(path));  // its job may still come
    Submission names = make_submission("r1", "net", 1, "");
    AttachedFile file;
    file.name = "weights";
    file.sha256 = digest;
    file.size = bytes.size();
    names.files.push_back(file);
    REQUIRE_OK(journal->append(submitted(1, "net-1a2b", names)));
    REQUIRE_OK(journal->collect_blobs({}));
    CHECK(fs::exists(path));
    REQUIRE_OK(journal->append(JobForgotten{"net-1a2b"}));
    REQUIRE_OK(journal->collect_blobs({}));
    CHECK_FALSE(fs::exists(path));
  }
  host.tuning.sweep = 20ms;
  host.tuning.blob_age = 0s;
  host.start();
  blob = must(host.master->begin_blob({digest, bytes.size()}));
  must(blob->append(bytes));
  must(blob->finish());
  blob.reset();
  CHECK(eventually([&] { return !fs::exists(path); }));  // removed while the master runs
}

}  // namespace
}  // namespace leat
