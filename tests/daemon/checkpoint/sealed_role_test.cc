// Tests the roles of encrypted files: by which path a file is taken, and of which run.
#include "daemon/checkpoint/sealed_role.h"

#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("the role of a saved file has its run and its name, and the hash of a long one") {
  CHECK(saved_role("a-0001", "deep/v") == "saved/a-0001/deep/v");
  CHECK(saved_role("", "deep/v") == "saved/-/deep/v");
  const std::string longest(255 - std::string("saved/-/").size(), 'n');
  CHECK(saved_role("", longest) == "saved/-/" + longest);
  const std::string role = saved_role("", longest + "n");
  CHECK(role.starts_with("saved-sha256/-/"));
  CHECK(role.size() == std::string("saved-sha256/-/").size() + 64);
  CHECK(role != saved_role("", longest + "m"));
  CHECK(role != saved_role("a", longest + "n"));
  for (const std::string& each : {role, saved_role("a", "v")}) CHECK(is_saved_role(each));
  for (const char* other : {"weights.safetensors", "export/saved", "step-00000005/part", "value x"})
    CHECK_FALSE(is_saved_role(other));
}

TEST_CASE("a saved file has its role in the folder of its run alone, in any folder below") {
  const RunFolders runs({{"/runs/x"}, {"s3://b/x", "a-0002"}, {"/runs/x/saved/y", "y"}, {"here"}});
  const RunFolders jobs = RunFolders::of_jobs("/state/jobs");
  CHECK(jobs.role_of("/state/jobs/a-0001/saved/deep/v") == "saved/a-0001/deep/v");
  CHECK(jobs.role_of("/state/jobs/a-0001/saved/deep/v.12.tmp") == "saved/a-0001/deep/v");
  CHECK(jobs.role_of("/state/jobs/a-0001/saved/deep/12-3.tmp/v.7") == "saved/a-0001/deep/v.7");
  CHECK(jobs.role_of("/state/jobs/a-0001/saved/saved/v") == "saved/a-0001/saved/v");
  CHECK(jobs.role_of("/state/jobs/a-0001/saved/weights.safetensors") ==
        "saved/a-0001/weights.safetensors");
  CHECK(jobs.role_of("/state/jobs/a-0001/weights.safetensors") == "weights.safetensors");
  CHECK(runs.role_of("/runs/x/saved/export/v") == "saved/-/export/v");
  CHECK(runs.role_of("s3://b/x/saved/v") == "saved/a-0002/v");
  CHECK(runs.role_of("here/saved/v") == "saved/-/v");
  CHECK(runs.role_of("/runs/x/saved/y/saved/v") == "saved/y/v");
  for (const char* other :
       {"/state/jobs/saved/v", "/state/jobs/a-0001/metrics.jsonl", "/state/jobs/a/deep/saved/v",
        "saved/v", "v", "/state/jobs", "/state/jobs/a-0001/saved", "/state/jobs/a-0001/saved/"})
    CHECK(jobs.role_of(other) == "");
  for (const char* other : {"/runs/saved/v", "/runs/xy/saved/v", "./here/saved/v"})
    CHECK(runs.role_of(other) == "");
  CHECK(RunFolders().role_of("/x/saved/v") == "");
}

TEST_CASE("a saved file is read under its name, and of a job in the folder of that job") {
  const std::string folder = "/state/jobs/a-0001", saved = folder + "/saved/";
  const RunFolders jobs = RunFolders::of_jobs("/state/jobs");
  CHECK(jobs.allows(saved + "v", "saved/a-0001/v"));
  for (const char* other : {"saved/a-0002/v", "saved/-/v", "saved/a-0001/w", "weights.safetensors",
                            "value v", "saved/a-0001/deep/v"})
    CHECK_FALSE(jobs.allows(saved + "v", other));
  CHECK_FALSE(jobs.allows(saved + "weights.safetensors", "weights.safetensors"));
  // A saved file takes the place of no other, as that of a log that clients read.
  for (const char* other : {"/weights.safetensors", "/log.txt", "/export/v", "/submitted/v"})
    CHECK_FALSE(jobs.allows(folder + other, "saved/a-0001/v"));
  CHECK_FALSE(jobs.allows("/state/blobs/0123", "saved/a-0001/v"));
  CHECK(jobs.allows("/state/blobs/0123", "weights.safetensors"));

  // A run of leat train may go on where a job has ended.
  const RunFolders run({{"run"}});
  for (const char* each : {"saved/-/v", "saved/a-0001/v"}) CHECK(run.allows("run/saved/v", each));
  CHECK_FALSE(run.allows("run/saved/v", "saved/-/w"));
  CHECK_FALSE(run.allows("run/saved/v", "weights.safetensors"));
  CHECK(run.allows("run/saved/export/v", "export/v"));
  CHECK_FALSE(run.allows("run/export/v", "saved/-/v"));
  const std::string longest(300, 'n');
  CHECK(run.allows("run/saved/" + longest, saved_role("a-0001", longest)));
  CHECK_FALSE(run.allows("run/saved/" + longest + "n", saved_role("a-0001", longest)));
}

TEST_CASE("a copy to read may have the saved files of older versions and of a run without an id") {
  const RunFolders copy({{"copy", "a-0001", true}}),
      strict(std::vector<RunFolder>{{"copy", "a-0001"}});
  const std::string part = "step-00000005/part-00000-of-00001.safetensors";
  for (const std::string& name :
       {std::string("export/v"), std::string("deep/weights.safetensors"), part}) {
    INFO(name);
    const std::string path = "copy/saved/" + name;
    const std::string older = sealed_role(path);
    REQUIRE(older != "");
    CHECK(copy.allows(path, older));
    CHECK_FALSE(strict.allows(path, older));
    CHECK(copy.allows(path, saved_role("", name)));
    CHECK_FALSE(strict.allows(path, saved_role("", name)));
    CHECK(copy.allows(path, saved_role("a-0001", name)));
    for (const std::string& other : {saved_role("a-0002", name), saved_role("", "w"),
                                     std::string("export/w"), std::string("value v")})
      CHECK_FALSE(copy.allows(path, other));
  }
  CHECK_FALSE(copy.allows("copy/saved/v", "export/v"));
  CHECK_FALSE(copy.allows("copy/export/v", saved_role("", "export/v")));
  CHECK_FALSE(copy.allows("other/saved/v", saved_role("", "v")));
}

TEST_CASE("a training reads the saved files of other runs by the end of their paths") {
  const RunFolders reading = RunFolders::with_others({{"run"}}), strict({{"run"}});
  for (const char* path : {"other/saved/v", "/x/other/saved/v", "./run/saved/v", "/x/run/saved/v",
                           "saved/v", "runs/saved/v"}) {
    INFO(path);
    CHECK(reading.allows(path, "saved/a-0001/v"));
    CHECK(reading.allows(path, "saved/-/v"));
    CHECK_FALSE(reading.allows(path, "saved/-/w"));
    CHECK_FALSE(strict.allows(path, "saved/-/v"));
  }
  for (const char* path : {"run/saved/w", "run/deep/saved/v", "run/v", "other/v", "run/export/v"})
    CHECK_FALSE(reading.allows(path, "saved/-/v"));
}

TEST_CASE("a program that knows no folder of a run reads a saved file by the end of its path") {
  const RunFolders none;
  for (const char* path : {"a/saved/export/v", "saved/export/v", "/saved/saved/export/v"})
    CHECK(none.allows(path, "saved/a-0001/export/v"));
  CHECK(none.allows("anywhere/x", "saved/a-0001/export/v"));
  CHECK_FALSE(none.allows("a/export/v", "saved/a-0001/export/v"));
  CHECK_FALSE(none.allows("a/saved/export/w", "saved/a-0001/export/v"));
  CHECK_FALSE(none.allows("a/unsaved/export/v", "saved/a-0001/export/v"));
}

}  // namespace
}  // namespace leat
