// Tests what checkpoints say of their origin, and that `leat checkpoint verify` finds those that
// were changed, exchanged or made by others.
#include "daemon/checkpoint/provenance.h"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "daemon/base/exit_code.h"
#include "daemon/base/version.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/origin_check.h"
#include "daemon/checkpoint/signing_key.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/job_scene.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// Trains to step 12 with checkpoints of steps 4, 8 and 12: each is the last of a training of its
// own, which none leaves out.
void train_thrice(const TinyJob& tiny, const std::string& run, const TinyJob::Swaps& swaps = {},
                  const std::vector<std::string>& more = {}) {
  TinyJob::Swaps all = {{"steps: 8", "steps: 4"}};
  all.insert(all.end(), swaps.begin(), swaps.end());
  check_ok(tiny.train(run, all, more));
  for (const char* steps : {"steps=8", "steps=12"}) {
    std::vector<std::string> resume = {"train", "--resume", run, "--set", steps};
    resume.insert(resume.end(), more.begin(), more.end());
    check_ok(tiny.leat(resume));
  }
}

std::string checkpoint_in(const std::string& run, int64_t step) {
  return cat(run, "/checkpoints/", checkpoint_name(step));
}
std::string manifest_in(const std::string& run, int64_t step) {
  return cat(checkpoint_in(run, step), "/", kManifestName);
}
Manifest manifest_of(const TinyJob& tiny, const std::string& run, int64_t step) {
  return must(read_manifest(real_files(), cat(tiny.folder(), "/", checkpoint_in(run, step))));
}
// Writes a manifest whose own hash is right again, as somebody would who wants it to be believed.
void rewrite(const TinyJob& tiny, const std::string& run, int64_t step,
             const std::function<void(Manifest&)>& change) {
  Manifest manifest = manifest_of(tiny, run, step);
  change(manifest);
  tiny.write(manifest_in(run, step), print_manifest(manifest));
}
void replace_folder(const TinyJob& tiny, const std::string& from, const std::string& to) {
  fs::remove_all(tiny.folder() + "/" + to);
  fs::copy(tiny.folder() + "/" + from, tiny.folder() + "/" + to, fs::copy_options::recursive);
}
std::string line_of(const TinyJob& tiny, const std::string& name) {
  std::string text = tiny.read(name);
  text.pop_back();
  return text;
}
std::string hash_of_bytes(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text.data(), text.size()))));
}
// Expects an error that has all of `parts`, and that the other checkpoints are looked at.
void check_found(const Finished& finished, const std::vector<std::string>& parts) {
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == kExitInvalid);
  for (const std::string& part : parts) CHECK_THAT(finished.err, Contains(part));
}

TEST_CASE("a key is made once, for its owner alone, and read again") {
  const TemporaryDirectory folder;
  const std::string path = folder / "my.key";
  const ::mode_t before = ::umask(0);
  const auto made = must(SigningKey::open_or_make(path));
  ::umask(before);
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(must(SigningKey::open_or_make(path))->public_key() == made->public_key());
  CHECK(must(read_public_key(folder / "my.pub")) == made->public_key());
  CHECK(must(read_public_key(made->public_key())) == made->public_key());
  CHECK(must(read_file(real_files(), path, 4096)).size() > 100);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 2);

  const std::string signature = must(made->sign("text"));
  CHECK(signature == must(made->sign("text")));
  CHECK(check_signature("text", made->public_key(), signature, "m").ok());
  CHECK(check_signature("texT", made->public_key(), signature, "m").message() ==
        cat("m: expected a signature of its text by key ", made->public_key(),
            ", received one of another text or key: ", signature));
  const auto other = must(SigningKey::open_or_make(folder / "other.key"));
  CHECK(other->public_key() != made->public_key());
  CHECK_FALSE(check_signature("text", other->public_key(), signature, "m").ok());
  CHECK(check_signature("text", made->public_key(), signature.substr(2), "m").message() ==
        cat("m: expected a signature of 128 hexadecimal digits, received 126: '",
            signature.substr(2), "'"));
}

TEST_CASE("a key that others can read, or that is none, is refused") {
  const TemporaryDirectory folder;
  const std::string path = folder / "my.key";
  const auto made = must(SigningKey::open_or_make(path));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(SigningKey::open_or_make(path).status().message() ==
        cat("'", path, "': expected a key that its owner alone may read (chmod 0600), ",
            "received mode 0640"));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  const Bytes pem = must(read_file(real_files(), path, 4096));
  const std::span<const std::byte> half(pem.data(), pem.size() / 2);
  must(write_file_atomically(real_files(), path, half));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(SigningKey::open_or_make(path).status().message() ==
        cat("'", path, "': expected a private key in PEM form"));
  CHECK(SigningKey::open_or_make(folder / "no/such.key").status().code() == Code::unavailable);
  CHECK_THAT(read_public_key(path).status().message(),
             Contains("expected a public key of Ed25519, as 64 hexadecimal digits"));
}

TEST_CASE("processes that need a key at once agree on one") {
  const TemporaryDirectory folder;
  std::vector<std::string> keys(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& key : keys) {
      threads.emplace_back([&] {
        const auto made = SigningKey::open_or_make(folder / "my.key");
        if (made.ok()) key = (*made)->public_key();
      });
    }
  }
  const std::string key = must(SigningKey::open_or_make(folder / "my.key"))->public_key();
  for (const std::string& each : keys) CHECK(each == key);
}

TEST_CASE("a manifest keeps its provenance and its signature to the byte") {
  const TemporaryDirectory folder;
  const auto key = must(SigningKey::open_or_make(folder / "my.key"));
  Manifest manifest;
  manifest.step = 10;
  manifest.job = "small";
  manifest.parts = {{12, to_hex(sha256({}))}};
  const std::string plain = print_manifest(manifest);
  CHECK(plain.find("provenance") == std::string::npos);
  CHECK(plain.find("signature") == std::string::npos);
  manifest.provenance = Provenance{
      "0.1.0", "small-1a2b", "aa", FirstWeights{"w.npz", "bb"}, {{"", "old", 5, "cc"}}, "dd"};
  must(sign(manifest, *key));
  const std::string text = print_manifest(manifest);
  const auto read = parse_manifest(std::as_bytes(std::span(text)), "m");
  REQUIRE(read.ok());
  CHECK(*read == manifest);
  CHECK(print_manifest(*read) == text);
  CHECK(check_signature(*read, "m").ok());
  // Each field of the manifest is under the signature.
  for (const auto& change : std::vector<std::function<void(Manifest&)>>{
           [](Manifest& m) { m.step = 11; }, [](Manifest& m) { m.job = "other"; },
           [](Manifest& m) { m.graph = "1"; }, [](Manifest& m) { m.seed = 3; },
           [](Manifest& m) { m.shards = 3; }, [](Manifest& m) { m.data.files["x"] = "1"; },
           [](Manifest& m) { m.parts[0].sha256[0] = 'f'; },
           [](Manifest& m) { m.parts[0].bytes = 13; },
           [](Manifest& m) {
             m.previous = CheckpointParent{5, "ee"};
           },
           [](Manifest& m) {
             m.metrics = MetricsDigest{10, 1, 2, 0, 0};
           },
           [](Manifest& m) { m.provenance.reset(); },
           [](Manifest& m) { m.provenance->run = "other"; },
           [](Manifest& m) { m.provenance->code = "other"; },
           [](Manifest& m) { m.provenance->job_sha256 = "other"; },
           [](Manifest& m) { m.provenance->weights.reset(); },
           [](Manifest& m) { m.provenance->metrics_sha256 = "ee"; },
           [](Manifest& m) { m.provenance->lineage.clear(); }}) {
    Manifest changed = manifest;
    change(changed);
    CHECK_FALSE(check_signature(changed, "m").ok());
  }
}

TEST_CASE("leat checkpoint verify says by what each checkpoint was made from what") {
  const TinyJob tiny;
  train_thrice(tiny, "a", {}, {"--sign-key", "my.key"});
  const std::string key = line_of(tiny, "my.pub");
  const Finished verified = tiny.leat({"checkpoint", "verify", "a"});
  check_ok(verified);
  const Manifest last = manifest_of(tiny, "a", 12), middle = manifest_of(tiny, "a", 8);
  const std::string job_sha256 = hash_of_bytes(tiny.read("a/job.yaml"));
  const std::string graph = hash_of_bytes(tiny.read("a/net.onnxtxt"));
  CHECK_THAT(verified.out, Contains(cat("from graph ", graph, ", seed ", last.seed, ", shards 2")));
  CHECK_THAT(verified.out, Contains(cat("after step 8, manifest ", parent_of(middle).sha256)));
  CHECK_THAT(verified.out, Contains(cat("by job 'tiny', job file ", job_sha256, ", leat ",
                                        code_version(), "\n  signed by key ", key, "\n")));
  REQUIRE(last.provenance);
  CHECK(last.provenance->metrics_sha256 ==
        hash_of_bytes(tiny.read("a/metrics.jsonl").substr(0, last.metrics.value().bytes)));
  // The key may be named as text or by its file.
  check_ok(tiny.leat({"checkpoint", "verify", "a", "--key", key}));
  const Finished json = tiny.leat({"checkpoint", "verify", "a", "--key", "my.pub", "--json"});
  check_ok(json);
  CHECK_THAT(json.out, Contains("\"trust\": \"signed\", \"key\": \"" + key) &&
                           Contains("\"job_sha256\": \"" + job_sha256) &&
                           Contains("\"after\": {\"step\": 8, \"sha256\": \""));
  // Weights and their hash depend on no key.
  train_thrice(tiny, "b");
  CHECK(tiny.read("a/weights.safetensors") == tiny.read("b/weights.safetensors"));
  CHECK(manifest_of(tiny, "b", 12).parts == last.parts);
  const Finished plain = tiny.leat({"checkpoint", "verify", "b"});
  check_ok(plain);
  CHECK_THAT(plain.out, Contains("  not signed\n") && !Contains("signed by"));
  check_found(tiny.leat({"checkpoint", "verify", "b", "--key", key}),
              {"b/checkpoints/step-00000012/manifest.json",
               cat("expected a signature by key ", key, ", received none")});
}

TEST_CASE("leat checkpoint verify finds what was changed, exchanged or taken away") {
  const TinyJob tiny;
  train_thrice(tiny, "a", {}, {"--sign-key", "my.key"});
  train_thrice(tiny, "b", {{"learning_rate: 0.1", "learning_rate: 0.2"}}, {"--sign-key", "my.key"});
  const std::string key = line_of(tiny, "my.pub");
  const auto verify = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"checkpoint", "verify", "a"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tiny.leat(arguments);
  };
  check_ok(verify());
  const std::string middle = manifest_in("a", 8), last = manifest_in("a", 12);
  SECTION("a byte of the weights") {
    const std::string part = checkpoint_in("a", 8) + "/" + part_name(0, 2);
    tiny.write(part, flipped(tiny.read(part), 100));
    const Finished found = verify();
    check_found(found, {part, "expected SHA-256", "received"});
    CHECK_THAT(found.out, Contains("step-00000012: whole") && Contains("step-00000004: whole"));
  }
  SECTION("a manifest with a new hash of its own") {
    rewrite(tiny, "a", 12, [](Manifest& manifest) { manifest.seed = 5; });
    check_found(verify(), {last, "expected a signature of its text by key " + key});
  }
  SECTION("a manifest without its signature") {
    rewrite(tiny, "a", 12, [](Manifest& manifest) { manifest.signature.reset(); });
    check_found(verify(), {last, "expected a signature by key " + key, "received none"});
  }
  SECTION("a manifest without its provenance") {
    rewrite(tiny, "a", 12, [](Manifest& manifest) {
      manifest.signature.reset();
      manifest.provenance.reset();
    });
    check_found(verify(), {last, "received one without provenance"});
  }
  SECTION("a truncated signature") {
    rewrite(tiny, "a", 12, [](Manifest& manifest) { manifest.signature->value.resize(100); });
    check_found(verify(), {last, "expected a signature of 128 hexadecimal digits, received 100"});
  }
  SECTION("a signature of another key") {
    const auto other = must(SigningKey::open_or_make(tiny.folder() + "/other.key"));
    rewrite(tiny, "a", 12, [&](Manifest& manifest) {
      manifest.job += "!";
      must(sign(manifest, *other));
    });
    check_found(verify(), {last, "expected a signature by key " + key,
                           "received one by key " + other->public_key()});
    // The key that is asked for has signed the newest one, which vouches for the rest.
    const Finished vouched = verify({"--key", other->public_key()});
    check_ok(vouched);
    CHECK_THAT(vouched.out, Contains("vouched for by the next checkpoint, which is signed"));
  }
  SECTION("the key of somebody else") {
    const auto other = must(SigningKey::open_or_make(tiny.folder() + "/other.key"));
    check_found(
        verify({"--key", "other.pub"}),
        {last, "expected a signature by key " + other->public_key(), "received one by key " + key});
  }
  SECTION("a checkpoint of another job in the middle") {
    replace_folder(tiny, checkpoint_in("b", 8), checkpoint_in("a", 8));
    check_found(verify(), {middle, "step 12 came after a checkpoint of step 8 whose manifest"});
  }
  SECTION("all checkpoints of another job") {
    replace_folder(tiny, "b/checkpoints", "a/checkpoints");
    check_found(verify(), {last, "expected a checkpoint of the run's job file",
                           "received one of job 'tiny'"});
  }
  SECTION("a missing parent") {
    fs::remove_all(tiny.folder() + "/" + checkpoint_in("a", 8));
    check_found(verify(), {manifest_in("a", 4), "expected the checkpoint of step 8 before",
                           "received one of step 4: it is missing"});
    check_ok(verify({"--gaps"}));
  }
  SECTION("rows of the metrics") {
    tiny.write("a/metrics.jsonl", with(tiny.read("a/metrics.jsonl"), "\"loss\": ", "\"loss\": 1"));
    check_found(verify(), {"metrics.jsonl", "expected SHA-256", "up to step 12, received"});
  }
  SECTION("metrics that end too early") {
    tiny.write("a/metrics.jsonl", half(tiny.read("a/metrics.jsonl")));
    check_found(verify(), {"the metrics up to step 12: expected", "received"});
  }
}

TEST_CASE("a checkpoint of an older version has no provenance, and is as good as it was") {
  const TinyJob tiny;
  train_thrice(tiny, "a");
  // As older versions left the folder; each manifest names the one before.
  fs::remove(tiny.folder() + "/a/" + kProvenanceFileName);
  std::optional<CheckpointParent> before;
  for (const int64_t step : {4, 8, 12}) {
    rewrite(tiny, "a", step, [&](Manifest& manifest) {
      manifest.provenance.reset();
      manifest.previous = before;
      before = parent_of(manifest);
    });
  }
  const Finished verified = tiny.leat({"checkpoint", "verify", "a"});
  check_ok(verified);
  CHECK_THAT(verified.out, Contains("no provenance: an older version of Leat wrote it"));
  CHECK_THAT(tiny.leat({"checkpoint", "verify", "a", "--json"}).out,
             Contains("\"provenance\": null"));
  // A run that goes on from it says so, and vouches for it.
  check_ok(tiny.leat({"train", "--resume", "a", "--set", "steps=16", "--sign-key", "my.key"}));
  const Finished resumed = tiny.leat({"checkpoint", "verify", "a"});
  check_ok(resumed);
  CHECK_THAT(resumed.out, Contains("its run went on from step 12 of job 'tiny', manifest ") &&
                              Contains("  signed by key ") &&
                              Contains("no provenance: an older version of Leat wrote it"));
}

TEST_CASE("checkpoints tell the weights that their run began from, also when it goes on") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  const std::string hash = hash_of_bytes(tiny.read("a/weights.safetensors"));
  check_ok(tiny.train("b", {}, {"--set", "model.weights=a/weights.safetensors"}));
  check_ok(tiny.leat({"train", "--resume", "b", "--set", "steps=16"}));
  for (const int64_t step : {8, 16}) {
    const Manifest manifest = manifest_of(tiny, "b", step);
    REQUIRE(manifest.provenance);
    CHECK(manifest.provenance->weights == FirstWeights{"weights.safetensors", hash});
    CHECK(manifest.provenance->lineage.empty());
  }
  CHECK(manifest_of(tiny, "b", 8).provenance->job_sha256 !=
        manifest_of(tiny, "b", 16).provenance->job_sha256);
  const Finished verified = tiny.leat({"checkpoint", "verify", "b"});
  check_ok(verified);
  CHECK_THAT(verified.out,
             Contains("its run began from the weights of weights.safetensors, SHA-256 " + hash));
}

TEST_CASE("a master signs the checkpoints of its jobs, and no other process has its key") {
  JobScene scene(3);
  ProcessCluster& cluster = scene.cluster();
  const std::string first = scene.submit(scene.job(100));
  CHECK(scene.await_end(first).condition.state == JobState::succeeded);
  const std::string state = cluster.folder() / "master";
  const std::string key = must(read_public_key(state + "/checkpoints.pub"));
  const Finished verified = cluster.leat("checkpoint", {"verify", first, "--key", key});
  INFO(verified.out << verified.err);
  CHECK(verified.exit_code == 0);
  CHECK_THAT(verified.out, Contains(cat("run ", first, ", job file ")) &&
                               Contains("signed by key " + key) && !Contains("not signed"));
  // The folder of the job names the key, and the master has sent it.
  const auto identity = must(read_provenance_file(real_files(), cat(state, "/jobs/", first)));
  REQUIRE(identity);
  CHECK(identity->key == key);
  CHECK(identity->run == first);
  // The key is in the master's folder alone.
  const Bytes bytes = must(read_file(real_files(), state + "/checkpoints.key", 4096));
  const std::string secret(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string body = secret.substr(secret.find('\n') + 1, 32);
  size_t read = 0;
  for (const auto& each : fs::recursive_directory_iterator(cluster.folder().path())) {
    if (!each.is_regular_file() || each.path().filename() == "checkpoints.key") continue;
    const auto content = read_file(real_files(), each.path().string(), 64 << 20);
    if (!content.ok()) continue;
    ++read;
    const std::string_view text(reinterpret_cast<const char*>(content->data()), content->size());
    INFO(each.path());
    CHECK(text.find(body) == std::string_view::npos);
  }
  CHECK(read > 10);

  // A job that goes on from it tells where it comes from, and is signed after a restart, too.
  cluster.restart_master(SIGKILL);
  REQUIRE(cluster.await_ready(3));
  const Finished resumed =
      cluster.leat("submit", {"--resume", first, "--set", "steps=160", "--wait"});
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  const std::string second = resumed.out.substr(0, resumed.out.find('\n'));
  REQUIRE(second != first);
  const Finished both = cluster.leat("checkpoint", {"verify", second});
  INFO(both.out << both.err);
  CHECK(both.exit_code == 0);
  CHECK_THAT(both.out, Contains("its run went on from step 100 of job ") &&
                           Contains(cat(", run ", first, ", manifest ")) &&
                           Contains("signed by key " + key));
  // A checkpoint of one job in the place of another's.
  const std::string place = cat(state, "/jobs/", second, "/checkpoints");
  fs::remove_all(place);
  fs::copy(cat(state, "/jobs/", first, "/checkpoints"), place, fs::copy_options::recursive);
  fs::remove_all(place + "/step-00000100");
  const Finished swapped = cluster.leat("checkpoint", {"verify", second});
  INFO(swapped.out << swapped.err);
  CHECK(swapped.exit_code == kExitInvalid);
  CHECK_THAT(swapped.err, Contains(cat("expected a checkpoint of run '", second, "'")) &&
                              Contains(cat("received one of run '", first, "'")));
}

}  // namespace
}  // namespace leat
