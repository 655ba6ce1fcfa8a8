// Runs whose weights are encrypted on the disk: jobs of a real cluster that is killed and goes on,
// and trainings of one process.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/base/sealed_magic.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/small_models.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// A file with a key, for its user alone.
std::string key_file(const TemporaryDirectory& folder, const std::string& name, char content) {
  const std::string path = folder / name;
  std::ofstream(path) << std::string(48, content);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

Bytes bytes_in(const fs::path& path) { return must(read_file(real_files(), path, UINT64_MAX)); }

// The files below a folder that have these bytes somewhere.
std::vector<std::string> files_with(const std::string& folder, const Bytes& wanted) {
  std::vector<std::string> names;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    const Bytes bytes = bytes_in(each.path());
    if (std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end()) != bytes.end())
      names.push_back(each.path().string());
  }
  return names;
}

// The sealed files below a folder; fails for one that should be and is not.
size_t sealed_files(const std::string& folder) {
  size_t count = 0;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file() || each.path().extension() != ".safetensors") continue;
    INFO(each.path());
    CHECK(begins_sealed(bytes_in(each.path())));
    ++count;
  }
  return count;
}

// Waits until a checkpoint of the job is whole, then kills all but the disk, and starts it again.
void kill_after_checkpoint(JobScene& scene, const std::string& folder) {
  const auto has_checkpoint = [&] {
    std::error_code none;
    for (const auto& each : fs::directory_iterator(folder + "/checkpoints", none)) {
      if (each.path().filename().string().starts_with("step-")) return true;
    }
    return false;
  };
  REQUIRE(eventually(has_checkpoint, std::chrono::seconds(60)));
  for (int i = 0; i < 2; ++i) scene.cluster().worker(i).signal(SIGKILL);
  scene.cluster().restart_master(SIGKILL);
  for (int i = 0; i < 2; ++i) scene.cluster().start_worker(i);
}

// Bytes of the weights at the end, in the order in which a plain file has them.
Bytes known_weights(const std::string& plain) {
  const SafeTensors content = must(read_safetensors(real_files(), plain));
  for (const auto& [name, value] : content.tensors) {
    if (value.bytes() < 64) continue;
    const auto* begin = value.data<std::byte>();
    return Bytes(begin, begin + 64);
  }
  FAIL("expected a weight of 64 bytes");
  return {};
}

}  // namespace

TEST_CASE("a job with encrypted checkpoints that is killed and goes on ends with the same weights",
          "[cluster]") {
  const TemporaryDirectory keys;
  const std::string key = key_file(keys, "key", 'k');
  const std::string copies = keys / "copies";
  JobScene scene(ProcessClusterOptions{.workers = 2,
                                       .master = {"--set", cat("checkpoint_key_file=", key),
                                                  "--set", cat("checkpoint_copies=", copies)}});
  const Job job = scene.job(1500, {"num_workers=2", "export=[safetensors]"});
  const std::string expected = scene.expected(job);
  const std::string id = scene.submit(job);
  const std::string folder = cat(scene.cluster().folder() / "master", "/jobs/", id);
  kill_after_checkpoint(scene, folder);
  const JobView ended = scene.await_end(id);
  INFO(ended.condition.reason << scene.cluster().logs());
  REQUIRE(ended.condition.state == JobState::succeeded);
  CHECK(ended.condition.result.weights_sha256 == expected);
  CHECK(ended.condition.assembly > 1);

  // `leat fetch` gives plain files.
  const TemporaryDirectory fetched;
  const Finished fetch = scene.cluster().leat("fetch", {id, "-o", fetched / "run"});
  INFO(fetch.err);
  REQUIRE(fetch.exit_code == 0);
  const Bytes weights = known_weights(fetched / "run/weights.safetensors");
  CHECK_FALSE(files_with(fetched / "run", weights).empty());
  const Finished plain = run_leat(fetched.path(), {"checkpoint", "verify", "run"});
  CHECK(plain.exit_code == 0);

  // No weight is in the clear in what the master keeps, or in the copy.
  CHECK(sealed_files(folder) >= 3);
  CHECK(sealed_files(copies) >= 3);
  CHECK(files_with(scene.cluster().folder() / "master", weights).empty());
  CHECK(files_with(copies, weights).empty());

  // With the key all that was signed is verified; without it the command says what it lacks.
  const auto leat = [&](std::vector<std::string> words, bool with_key) {
    if (with_key) words.insert(words.end(), {"--checkpoint-key", key});
    return run_leat(fetched.path(), words);
  };
  const Finished verified = leat({"checkpoint", "verify", folder}, true);
  INFO(verified.err);
  CHECK(verified.exit_code == 0);
  CHECK_THAT(verified.out, Catch::Contains("signed by key"));
  const Finished lacking = leat({"checkpoint", "verify", folder}, false);
  CHECK(lacking.exit_code != 0);
  CHECK_THAT(lacking.err, Catch::Contains("is encrypted: expected its key") &&
                              Catch::Contains("--checkpoint-key"));
  CHECK(leat({"checkpoint", "verify", cat(copies, "/", id)}, true).exit_code == 0);
  CHECK(leat({"checkpoint", "ls", folder}, false).exit_code == 0);
  CHECK(leat({"checkpoint", "export", folder, "-o", "out.safetensors"}, true).exit_code == 0);
  CHECK(must(read_safetensors(real_files(), fetched / "out.safetensors")).tensors.size() > 0);
  CHECK(leat({"checkpoint", "export", folder, "-o", "no.safetensors"}, false).exit_code != 0);
  CHECK_FALSE(fs::exists(fetched / "no.safetensors"));
  CHECK(leat({"checkpoint", "diff", folder, fetched / "run"}, true).exit_code == 0);

  // The master reads its own job, so that a key of the client would be of no use.
  const Finished keyed = scene.cluster().leat("submit", {"--resume", id, "--checkpoint-key", key});
  CHECK(keyed.exit_code == 2);
  CHECK_THAT(keyed.err, Catch::Contains("--checkpoint-key: expected the folder of a run"));

  // A job that goes on from this one finds its parts encrypted.
  const Finished resumed = scene.cluster().leat(
      "submit", {"--resume", id, "--set", "steps=1550", "--set", "export=[]", "--wait"});
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK(files_with(scene.cluster().folder() / "master", weights).empty());
}

TEST_CASE("a master with another key goes on from what it can read, and never from less",
          "[cluster]") {
  const bool has_both = GENERATE(true, false);
  const TemporaryDirectory keys;
  const std::string key = key_file(keys, "key", 'a');
  std::vector<std::string> master = {"--set", cat("checkpoint_key_file=", key)};
  if (has_both) {
    master.insert(master.end(),
                  {"--set", cat("previous_checkpoint_key_file=", key_file(keys, "before", 'a'))});
  }
  JobScene scene(ProcessClusterOptions{.workers = 2, .master = master});
  const Job job = scene.job(1500, {"num_workers=2"});
  const std::string expected = scene.expected(job);
  const std::string id = scene.submit(job);
  const std::string folder = cat(scene.cluster().folder() / "master", "/jobs/", id);
  key_file(keys, "key", 'b');  // which the master reads when it starts again
  kill_after_checkpoint(scene, folder);
  const JobView ended = scene.await_end(id);
  INFO(ended.condition.reason << scene.cluster().logs());
  if (has_both) {
    CHECK(ended.condition.state == JobState::succeeded);
    CHECK(ended.condition.result.weights_sha256 == expected);
    // The new key alone reads what was written since.
    CHECK(run_leat(keys.path(),
                   {"checkpoint", "export", folder, "-o", "w.npz", "--checkpoint-key", key})
              .exit_code == 0);
    return;
  }
  CHECK(ended.condition.state == JobState::failed);
  CHECK_THAT(ended.condition.reason, Catch::Contains("is encrypted: expected its key"));
  // Nothing was set aside or written anew.
  size_t checkpoints = 0;
  for (const auto& each : fs::directory_iterator(folder + "/checkpoints"))
    checkpoints += each.path().filename().string().starts_with("step-") ? 1 : 0;
  CHECK(checkpoints >= 1);
  CHECK(sealed_files(folder) >= 1);
}

TEST_CASE("a training with a key goes on with it or the next one, and ends the same as without") {
  const SmallJob small(kTinyDense);
  const TemporaryDirectory folder;
  const std::string key = key_file(folder, "key", 'k'), next = key_file(folder, "next", 'n');
  std::ofstream(folder / "job.yaml")
      << print_job(small.job({"steps=20", "checkpoint={every_steps: 10}"}));
  const auto leat = [&](std::vector<std::string> words, const std::vector<std::string>& keys) {
    for (const std::string& each : keys) words.insert(words.end(), {"--checkpoint-key", each});
    return run_leat(folder.path(), words);
  };
  // The same without a key.
  REQUIRE(leat({"train", "job.yaml", "--output", "plain"}, {}).exit_code == 0);
  const Finished twin = leat({"train", "--resume", "plain", "--set", "steps=30"}, {});
  REQUIRE(twin.exit_code == 0);
  const std::string expected = twin.err.substr(twin.err.find("sha256 "), 7 + 64);
  const Finished first = leat({"train", "job.yaml", "--output", "run"}, {key});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK(sealed_files(folder / "run") == 3);  // two checkpoints and the weights
  const std::vector<std::string> go_on = {"train", "--resume", "run", "--set", "steps=30"};
  // Neither without the key nor with another one does it begin anew.
  const Finished without = leat(go_on, {}), wrong = leat(go_on, {next});
  for (const Finished* each : {&without, &wrong}) {
    CHECK(each->exit_code != 0);
    CHECK_THAT(each->err, Catch::Contains("step-00000020/part-00000-of-00001.safetensors' is "
                                          "encrypted: expected its key"));
  }
  CHECK(fs::exists(folder / "run/checkpoints/step-00000020"));
  // The next key encrypts from now on, and the one before is still read.
  const Finished rotated = leat(go_on, {next, key});
  INFO(rotated.err);
  REQUIRE(rotated.exit_code == 0);
  CHECK_THAT(rotated.err, Catch::Contains(expected));
  CHECK(sealed_files(folder / "run") == 4);
  CHECK(leat({"checkpoint", "verify", "run"}, {next, key}).exit_code == 0);
  const Finished newest = leat({"checkpoint", "verify", "run/checkpoints/step-00000030"}, {next});
  CHECK(newest.exit_code == 0);
  CHECK(leat({"checkpoint", "verify", "run/checkpoints/step-00000020"}, {next}).exit_code != 0);
  // A copy with the key stays encrypted.
  CHECK(leat({"checkpoint", "copy", "run", "copy"}, {next, key}).exit_code == 0);
  CHECK(sealed_files(folder / "copy") == 2);
  CHECK(leat({"evaluate", "copy"}, {next}).exit_code == 0);
  const Finished evaluated = leat({"evaluate", "copy"}, {});
  CHECK(evaluated.exit_code != 0);
  CHECK_THAT(evaluated.err, Catch::Contains("weights.safetensors' is encrypted"));
}

// Its summary of each step, and files whose names are those of other files of a run.
constexpr const char* kSaving = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
counting () => (count) {
  v = leat.Variable <name = "v", shape = [1]> ()
  zero = Constant <value_floats = [0.0]> ()
  one = Constant <value_floats = [1.0]> ()
  first = leat.Restore <path = "weights.safetensors", names = ["v"], optional = 1> (zero)
  [begin] = leat.Initialize (v, first)
  [add] = leat.AssignAdd (v, one)
  now = leat.Read <after = ["[add]"]> (v)
  [log] = leat.Save <path = "summaries/{step}.safetensors", names = ["counted"]> (now)
  [save] = leat.Save <path = "weights.safetensors", names = ["v"]> (now)
  [export] = leat.Save <path = "export/a.safetensors", names = ["v"]> (now)
  count = Squeeze (now)
}
)";

TEST_CASE("what a graph saves in a training with a key is encrypted, and each command reads it") {
  const SmallJob small(kSaving);
  const std::string folder = small.path();
  const TemporaryDirectory keys;
  const std::string key = key_file(keys, "key", 'k');
  const auto leat = [&](std::vector<std::string> words, bool with_key) {
    if (with_key) words.insert(words.end(), {"--checkpoint-key", key});
    return run_leat(folder, words);
  };
  const auto train = [&](const std::string& run, bool with_key) {
    const std::string copy =
        cat("checkpoint={every_steps: 4, copy_to: '", folder, "/", run, "-copy'}");
    const Finished done = leat(
        {"train", "model.onnxtxt", "--set", "steps=4", "--set", copy, "--output", run}, with_key);
    INFO(done.err);
    CHECK(done.exit_code == 0);
    CHECK(done.err.find("warning") == std::string::npos);
  };
  // A mixed run: its first file of summaries is from before there was a key.
  train("run", true);
  const std::string summaries = "/saved/summaries/0000000";
  CHECK(sealed_files(folder + "/run/saved") == 6);
  CHECK(sealed_files(folder + "/run-copy/saved") == 6);
  train("plain", false);
  fs::copy_file(folder + "/plain" + summaries + "1.safetensors",
                folder + "/run" + summaries + "1.safetensors",
                fs::copy_options::overwrite_existing);

  // Each command that reads saved files has the key, or names what it lacks.
  const std::vector<std::string> board = {"metrics", "run", "--tensorboard", "board"},
                                 copy = {"checkpoint", "copy", "run", "run2"},
                                 bring = {"checkpoint", "copy", "run-copy", "run3"};
  for (const auto& words : {board, copy, bring}) {
    const Finished lacking = leat(words, false);
    CHECK(lacking.exit_code != 0);
    CHECK_THAT(lacking.err, Catch::Contains("is encrypted: expected its key") &&
                                Catch::Contains("--checkpoint-key"));
  }
  for (const char* each : {"/run2", "/run3"}) fs::remove_all(folder + each);
  for (const auto& words : {board, copy, bring}) {
    const Finished done = leat(words, true);
    INFO(done.err);
    CHECK(done.exit_code == 0);
  }
  const Bytes events = bytes_in(folder + "/board/run/events.out.tfevents.leat");
  const std::string text(reinterpret_cast<const char*>(events.data()), events.size());
  size_t summaries_there = 0;
  for (size_t at = 0; (at = text.find("summaries/counted", at)) != text.npos; ++at)
    ++summaries_there;
  CHECK(summaries_there == 4);
  CHECK(sealed_files(folder + "/run2/saved") == 6);
  CHECK(sealed_files(folder + "/run3/saved") == 6);

  // A new training in the folder begins with what was saved.
  fs::remove_all(folder + "/run/checkpoints");
  fs::remove_all(folder + "/run-copy");
  train("run", true);
  CHECK(leat({"checkpoint", "export", "run", "-o", "v.safetensors"}, true).exit_code == 0);
  const auto count = must(read_safetensors(real_files(), folder + "/v.safetensors"));
  CHECK(count.tensors.at("v").at(0) == 8);

  // A file in the place of another one is refused by name.
  fs::copy_file(folder + "/run" + summaries + "3.safetensors",
                folder + "/run" + summaries + "2.safetensors",
                fs::copy_options::overwrite_existing);
  const Finished exchanged = leat(board, true);
  CHECK(exchanged.exit_code == 7);
  CHECK_THAT(exchanged.err, Catch::Contains("00000002.safetensors': expected the encrypted file "
                                            "'saved/-/summaries/00000002.safetensors'"));
}

// Writes a file as the graph of a run saves it that has the key of key_file(..., 'k').
void save_sealed(const std::string& run, const std::string& id, const std::string& name,
                 const SafeTensors& content) {
  const auto keys = must(make_checkpoint_keys(std::vector<std::string>{std::string(48, 'k')}));
  SealedFiles files(real_files(), keys, RunFolders({{run, id}}));
  must(files.make_directories(run + "/saved"));
  must(write_safetensors(files, cat(run, "/saved/", name), content));
}

TEST_CASE(
    "a training and a prediction with a key start from the weights of another run's saved file") {
  const SmallJob small(kTinyDense);
  const std::string folder = small.path();
  const TemporaryDirectory keys;
  const std::string key = key_file(keys, "key", 'k');
  std::ofstream(folder + "/job.yaml") << print_job(small.job({"steps=2"}));
  REQUIRE(run_leat(folder, {"train", "job.yaml", "--output", "first"}).exit_code == 0);
  const SafeTensors weights =
      must(read_safetensors(real_files(), folder + "/first/weights.safetensors"));
  save_sealed(folder + "/other", "a-0001", "w.safetensors", weights);
  save_sealed(folder + "/run", "", "w.safetensors", weights);
  fs::copy_file(folder + "/other/saved/w.safetensors", folder + "/other/saved/x.safetensors");
  const auto train = [&](const std::string& from, const std::string& run) {
    return run_leat(folder, {"train", "job.yaml", "--set", "model.weights=" + from, "--output", run,
                             "--checkpoint-key", key});
  };
  // Also a file of the run's own folder whose path is written in another way.
  const std::vector<std::pair<std::string, std::string>> trainings = {
      {"other/saved/w.safetensors", "b"},
      {folder + "/other/saved/w.safetensors", "c"},
      {folder + "/run/saved/w.safetensors", "run"}};
  for (const auto& [from, run] : trainings) {
    INFO(from);
    const Finished done = train(from, run);
    INFO(done.err);
    CHECK(done.exit_code == 0);
  }
  const Finished refused = train("other/saved/x.safetensors", "d");
  CHECK(refused.exit_code != 0);
  CHECK_THAT(refused.err, Catch::Contains("x.safetensors': expected the encrypted file"));
  const Finished predicted =
      run_leat(folder, {"predict", "b", "--weights", "other/saved/w.safetensors", "--input",
                        "val-x.npy", "-o", "out.npy", "--checkpoint-key", key});
  INFO(predicted.err);
  CHECK(predicted.exit_code == 0);
}

TEST_CASE(
    "a copy of an older version, or of a run before, is brought back, as far as it is whole") {
  const SmallJob small(kSaving);
  const std::string folder = small.path(), copy = folder + "/copy";
  const TemporaryDirectory keys;
  const std::string key = key_file(keys, "key", 'k');
  const auto leat = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--checkpoint-key", key});
    return run_leat(folder, words);
  };
  const Finished trained =
      leat({"train", "model.onnxtxt", "--set", "steps=4", "--set",
            cat("checkpoint={every_steps: 4, copy_to: '", copy, "'}"), "--output", "run"});
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  // A copier that began before the training had its own provenance.
  std::ofstream(copy + "/provenance.txt") << "run job-1\n";
  SealedFiles older(real_files(),
                    must(make_checkpoint_keys(std::vector<std::string>{std::string(48, 'k')})));
  for (const char* name : {"/saved/export/a.safetensors", "/saved/weights.safetensors"}) {
    const auto content = must(read_safetensors(older, folder + "/run" + name));
    must(write_safetensors(older, copy + name, content));
  }
  const Finished brought = leat({"checkpoint", "copy", "copy", "back"});
  INFO(brought.err);
  CHECK(brought.exit_code == 0);
  CHECK(brought.err.find("warning") == std::string::npos);
  CHECK(sealed_files(folder + "/back/saved") == 6);
  CHECK(leat({"metrics", "copy", "--tensorboard", "board"}).exit_code == 0);

  const std::string spoiled = copy + "/saved/export/a.safetensors";
  fs::resize_file(spoiled, fs::file_size(spoiled) - 1);
  const Finished rest = leat({"checkpoint", "copy", "copy", "rest"});
  INFO(rest.err);
  CHECK(rest.exit_code == 0);
  CHECK_THAT(rest.err, Catch::Contains("warning: 'copy/saved/export/a.safetensors': expected "));
  CHECK(sealed_files(folder + "/rest/saved") == 5);
  CHECK(leat({"train", "--resume", "rest", "--set", "checkpoint={every_steps: 4}"}).exit_code == 0);

  // A file that names the run and cannot be read is no missing one.
  fs::remove(copy + "/provenance.txt");
  fs::create_directory(copy + "/provenance.txt");
  const Finished unread = leat({"checkpoint", "copy", "copy", "none"});
  CHECK(unread.exit_code != 0);
  CHECK_THAT(unread.err, Catch::Contains("provenance.txt"));
}

TEST_CASE("the key of checkpoints is read from a variable, and from a file like a secret") {
  const SmallJob small(kTinyDense);
  const TemporaryDirectory folder;
  const std::string key = key_file(folder, "key", 'k');
  std::ofstream(folder / "job.yaml") << print_job(small.job({"steps=5"}));
  const auto train = [&](const std::string& path, const std::string& run) {
    return run_program(leat_binary(), folder.path(), {"train", "job.yaml", "--output", run},
                       {"LEAT_CHECKPOINT_KEY_FILE=" + path});
  };
  CHECK(train(key, "run").exit_code == 0);
  CHECK(sealed_files(folder / "run") >= 1);
  const std::string open = key_file(folder, "open", 'o');
  REQUIRE(::chmod(open.c_str(), 0644) == 0);
  CHECK_THAT(train(open, "run2").err, Catch::Contains("its owner alone may read"));
  std::ofstream(folder / "short") << "too short";
  REQUIRE(::chmod((folder / "short").c_str(), 0600) == 0);
  CHECK_THAT(train(folder / "short", "run3").err, Catch::Contains("expected from 32 to 4096"));
  CHECK_FALSE(fs::exists(folder / "run2"));
}

}  // namespace leat
