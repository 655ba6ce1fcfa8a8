// Tests damaged run folders, damaged checkpoints and full disks: whole files stay whole, and one
// line reports the error.
#include <filesystem>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/manifest.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::string>;

constexpr const char* kOld = "run/checkpoints/step-00000004/";
constexpr const char* kNew = "run/checkpoints/step-00000008/";

// Owns a finished run in `run`. A test spoils it, and then calls reset().
class FinishedRun {
 public:
  FinishedRun() {
    check_ok(tiny.train("good"));
    reset();
  }
  void reset() const {
    fs::remove_all(path("run"));
    fs::copy(path("good"), path("run"), fs::copy_options::recursive);
  }
  std::string path(const std::string& name) const { return tiny.folder() + "/" + name; }
  void change(const std::string& name, const std::string& bytes) const { tiny.write(name, bytes); }
  Finished resume(const Parts& more = {}) const {
    Parts arguments{"train", "--resume", "run", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tiny.leat(arguments);
  }
  const TinyJob tiny;
};

TEST_CASE("a damaged checkpoint is passed over for an older one, with a warning") {
  const FinishedRun run;
  const std::string manifest = run.tiny.read(std::string(kNew) + "manifest.json");
  const std::string part = part_name(0, 2);
  const std::string variables = run.tiny.read(kNew + part);
  const std::string weights = run.tiny.read("good/weights.safetensors");
  struct Case {
    std::string name, file, bytes;  // without bytes, the file is removed
    std::string warning;
  };
  const std::vector<Case> cases{
      {"no manifest", "manifest.json", "", "manifest.json': cannot open it"},
      {"manifest cut", "manifest.json", half(manifest), "expected it to end with the SHA-256"},
      {"manifest is a list", "manifest.json", "[1]", "expected it to end with the SHA-256"},
      {"seed", "manifest.json", with(manifest, "\"seed\": 0", "\"seed\": 1"), "it is damaged"},
      {"no part", part, "", cat(part, "': cannot open it")},
      {"part cut", part, half(variables), "bytes as in the manifest, received"},
      {"a bit", part, flipped(variables, variables.size() - 1), "expected SHA-256"},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    run.reset();
    if (c.bytes.empty())
      fs::remove(run.path(kNew + c.file));
    else
      run.change(kNew + c.file, c.bytes);
    const Finished finished = run.resume();
    check_ok(finished);
    CHECK_THAT(finished.err, Catch::Contains("warning: a checkpoint was passed over"));
    CHECK_THAT(finished.err, Catch::Contains(c.warning));
    CHECK_THAT(finished.err, Catch::Contains("Going on after step 4"));
    CHECK(run.tiny.read("run/weights.safetensors") == weights);
  }
}

TEST_CASE("damaged checkpoints alone are refused, and nothing is changed") {
  const FinishedRun run;
  for (const char* folder : {kOld, kNew}) {
    const std::string file = std::string(folder) + part_name(0, 2);
    run.change(file, flipped(run.tiny.read(file), 300));
  }
  const auto before = run.tiny.snapshot("run");
  check_refused(run.resume(), kExitFailed,
                {"run/checkpoints", "expected a checkpoint", "only damaged ones", "SHA-256"});
  CHECK(run.tiny.snapshot("run") == before);
}

TEST_CASE("a run that cannot be resumed is refused, and nothing is changed") {
  const FinishedRun run;
  const std::string graph = run.tiny.read("net.onnxtxt");
  run.change("wide.onnxtxt", with(graph, "units = 5", "units = 6"));
  run.change("other.onnxtxt", with(with(graph, "h =", "k ="), "(h)", "(k)"));
  const auto before = run.tiny.snapshot("run");
  const auto refused = [&](const std::string& set, const Parts& parts) {
    INFO(set);
    check_refused(run.resume({"--set", set}), kExitInvalid, parts);
    CHECK(run.tiny.snapshot("run") == before);
  };
  refused("shards=4", {"checkpoint of step 8", "expected shards 2 as when it was written",
                       "received shards 4"});
  refused("seed=3", {"checkpoint of step 8", "expected seed 0", "received seed 3"});
  refused("name=other", {"checkpoint of step 8", "expected name tiny", "received name other"});
  refused("global_batch_size=16", {"checkpoint of step 8", "expected global_batch_size 8",
                                   "received global_batch_size 16", "or begin a new run"});
  refused("data.shuffle=false", {"expected data.shuffle true", "received data.shuffle false"});
  refused("steps=6", {"checkpoint of step 8", "expected at most 6"});
  refused("model.graph=" + run.path("wide.onnxtxt"), {"variable 'h/", "expected float[", "float["});
  refused("model.graph=" + run.path("other.onnxtxt"), {"variable 'h/", "the job's graph does not"});
}

TEST_CASE("a run that is resumed with another graph of the same variables says so") {
  const FinishedRun run;
  run.change("same.onnxtxt", "# as before\n" + run.tiny.read("net.onnxtxt"));
  const Finished finished = run.resume({"--set", "model.graph=" + run.path("same.onnxtxt")});
  check_ok(finished);
  CHECK_THAT(finished.err, Catch::Contains("same.onnxtxt is not the graph that the checkpoint"));
}

TEST_CASE("a run is not resumed on other data") {
  const FinishedRun run;
  const std::string x = run.tiny.read("x"), y = run.tiny.read("y");
  const auto before = run.tiny.snapshot("run");
  run.change("x", flipped(x, 50));
  check_refused(run.resume(), kExitInvalid, {"expected features of 140 bytes, crc32c", "received"});
  run.change("x", idx(8, {31, 4}, x.substr(16, 124)));
  run.change("y", idx(8, {31}, y.substr(8, 31)));
  check_refused(run.resume(), kExitInvalid, {"expected rows 32, features of", "received rows 31"});
  CHECK(run.tiny.snapshot("run") == before);
  // The same data may be at another path.
  run.change("x2", x);
  run.change("y", y);
  check_ok(run.resume({"--set", "data.train.features=x2", "--set", "data.validation.features=x2"}));
}

TEST_CASE("a run folder that is not there or has no checkpoints is refused") {
  const FinishedRun run;
  const auto resume = [&](const std::string& folder) {
    return run.tiny.leat({"train", "--resume", folder});
  };
  check_refused(resume("none"), kExitNoSuch, {"no such run", "none"});
  fs::create_directory(run.path("bare"));
  check_refused(resume("bare"), kExitNoSuch, {"no such run", "bare"});
  fs::remove_all(run.path("run/checkpoints"));
  check_refused(run.resume(), kExitFailed,
                {"run/checkpoints", "expected a checkpoint, found none"});
}

TEST_CASE("a new run does not begin over the checkpoints of another") {
  const FinishedRun run;
  const auto before = run.tiny.snapshot("run");
  check_refused(run.tiny.train("run"), kExitFailed,
                {"checkpoints", "expected no checkpoints", "found step-00000008", "--resume"});
  CHECK(run.tiny.snapshot("run") == before);
}

TEST_CASE("an output folder that cannot be made is refused") {
  const TinyJob tiny;
  check_refused(tiny.train("x/run"), kExitFailed,
                {"'x/run'", "cannot make the directory", "Not a directory"});
  check_refused(tiny.train("x"), kExitFailed,
                {"'x'", "cannot make the directory", "Not a directory"});
  check_refused(tiny.train("/dev/full"), kExitFailed, {"'/dev/full'", "Not a directory"});
  check_refused(tiny.train("run", {{"every_steps: 4", "every_steps: 4, path: x/checkpoints"}}),
                kExitFailed, {"x/checkpoints'", "cannot make the directory"});
  CHECK(tiny.read("x").size() == 140);
}

TEST_CASE("predict refuses what is missing or does not fit, and keeps the old output") {
  const FinishedRun run;
  run.change("out.npy", "as it was");
  const auto refused = [&](const std::string& folder, const std::string& input, int exit_code,
                           const Parts& parts) {
    INFO(folder << " " << input);
    check_refused(run.tiny.leat({"predict", folder, "--input", input, "-o", "out.npy"}), exit_code,
                  parts);
    CHECK(run.tiny.read("out.npy") == "as it was");
  };
  refused("./none", "x", kExitNoSuch, {"no such run", "none"});
  refused("run", "none", kExitNoSuch, {"no such input file", "'none'"});
  refused("run", "y", kExitInvalid,
          {"'y'", "of the shape of a row of float[N,4], the input 'x'", "uint8[]"});
  refused("run", "job.yaml", kExitInvalid, {"'job.yaml'", "expected 0, 0 at byte 0"});
  run.change("cut.npy", "\x93NUMPY\x01");
  refused("run", "cut.npy", kExitInvalid, {"cut.npy", "expected"});
  const std::string weights = run.tiny.read("run/weights.safetensors");
  run.change("run/weights.safetensors", half(weights));
  refused("run", "x", kExitInvalid, {"run/weights.safetensors", "expected"});
  fs::remove(run.path("run/weights.safetensors"));
  refused("run", "x", kExitNoSuch, {"no such weights file", "run/weights.safetensors"});
  run.reset();
  check_refused(run.tiny.leat({"predict", "run", "--input", "x", "-o", "x/out.npy"}), kExitFailed,
                {"x/out.npy", "Not a directory"});
  check_refused(run.tiny.leat({"predict", "run", "--input", "x", "-o", "out.npy"},
                              "files/append=resource_exhausted"),
                kExitFailed, {"failpoint 'files/append' is set", "out.npy"});
  CHECK(run.tiny.read("out.npy") == "as it was");
}

TEST_CASE("a converted graph on a full disk leaves the old file") {
  const TinyJob tiny;
  tiny.write("out.leat", "as it was");
  for (const char* place : {"files/create", "files/append", "files/sync", "files/rename"}) {
    INFO(place);
    const auto finished = tiny.leat({"graph", "convert", "net.onnxtxt", "out.leat"},
                                    std::string(place) + "=resource_exhausted");
    check_refused(finished, kExitFailed, {place});
    CHECK(tiny.read("out.leat") == "as it was");
  }
  CHECK(tiny.snapshot(".").size() == 5);  // and no other file
}

// Fails one write after the other until a training passes without a failure. Resumes after each
// failure that ends the training; a failed checkpoint along the way does not. A full disk does not
// fail a write, because the training waits: see full_disk_test.cc.
void fail_each_pass(const std::string& place, int at_least) {
  const TinyJob tiny;
  check_ok(tiny.train("whole"));
  const std::string weights = tiny.read("whole/weights.safetensors");
  int pass = 1;
  for (;; ++pass) {
    INFO(place << " fails at pass " << pass);
    fs::remove_all(tiny.folder() + "/run");
    const Finished failed =
        tiny.train("run", {}, {}, place + "=unavailable@" + std::to_string(pass));
    REQUIRE(pass < 100);
    if (failed.exit_code == kExitOk) {
      if (failed.err.find("failpoint '" + place + "' is set") == std::string::npos) break;
      CHECK_THAT(failed.err, Catch::Contains("warning: no checkpoint of step "));
      CHECK(tiny.read("run/weights.safetensors") == weights);
      continue;
    }
    check_refused(failed, kExitFailed, {"failpoint '" + place + "' is set"});
    const auto left = tiny.snapshot("run");
    for (const auto& [name, bytes] : left) {
      INFO(name);
      CHECK(name.find("tmp") == std::string::npos);
      CHECK(name.find(".new") == std::string::npos);
    }
    const Finished resumed = tiny.leat({"train", "--resume", "run", "--threads", "1"});
    if (left.count(std::string(kOld) + "manifest.json") == 0) {
      CHECK(resumed.exit_code != kExitOk);
      CHECK(left.count("run/weights.safetensors") == 0);
      continue;
    }
    check_ok(resumed);
    CHECK(resumed.err.find("warning") == std::string::npos);
    CHECK(tiny.read("run/weights.safetensors") == weights);
  }
  CHECK(pass > at_least);
}

TEST_CASE("a training whose disk fails at any write goes on from the last checkpoint") {
  fail_each_pass("files/append", 8);
}

TEST_CASE("a training that cannot rename goes on from the last checkpoint") {
  fail_each_pass("files/rename", 5);
}

}  // namespace
}  // namespace leat
