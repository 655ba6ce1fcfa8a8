// Copies of runs with files that their graphs saved (leat.Save): of every name, encrypted or not.
#include "daemon/checkpoint/run_copier.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "daemon/base/sealed_magic.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/run_files.h"
#include "daemon/jobs/blobs.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/data/saved_files.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/s3_store.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// A run with a checkpoint, and what its graph saves through leat.Save's own class.
class SavingRun {
 public:
  explicit SavingRun(std::string id = "", bool has_key = true)
      : id_(std::move(id)),
        keys_(must(make_checkpoint_keys(secrets(has_key)))),
        files_(real_files(), keys_, RunFolders({{run(), id_}, {to(), id_}, {back(), id_}})),
        place_(saved_files_in(files_, run() + "/saved")) {
    fs::create_directories(run());
    std::ofstream(run() + "/job.yaml") << "version: 1\n";
    Checkpoint checkpoint;
    checkpoint.manifest.step = 5;
    checkpoint.manifest.job = "a";
    checkpoint.manifest.graph = std::string(64, '0');
    checkpoint.variables.emplace("w", Tensor::of(Shape{8}, std::vector<float>(8, 0.37f)));
    must(write_checkpoint(files_, run() + "/checkpoints", checkpoint));
  }

  std::string run() const { return directory_ / "run"; }
  std::string to() const { return directory_ / "copy"; }
  std::string back() const { return directory_ / "back"; }
  SealedFiles& files() { return files_; }
  const std::shared_ptr<const CheckpointKeys>& keys() const { return keys_; }
  // Saves a file whose value no other file has.
  Status save(const std::string& path) {
    SafeTensors content;
    content.tensors.emplace("v", Tensor::of(Shape{1}, std::vector<float>{float(++saved_)}));
    Status status;
    place_->write(path, content, [&](Status done) { status = std::move(done); });
    return status;
  }
  // Copies the run by a copier, and brings the copy back. Returns the warnings.
  std::vector<std::string> copy() {
    const auto copier = must(
        RunCopier::create(real_files(), {run(), to(), 3, keys_, id_}, RunCopier::Start::recovers));
    finished_ = copier->finish(std::chrono::seconds(60), [] { return false; });
    return copier->take_warnings();
  }
  const Status& finished() const { return finished_; }
  Result<int64_t> bring() { return bring_with(files_); }
  Result<int64_t> bring_with(Files& files) {
    refused_.clear();
    return bring_run(files, to(), back(), refused_);
  }
  // Of the last bring().
  const std::vector<std::string>& refused() const { return refused_; }
  Bytes read(const std::string& path) { return must(read_file(files_, path, UINT64_MAX)); }
  static Bytes raw(const std::string& path) {
    return must(read_file(real_files(), path, UINT64_MAX));
  }

 private:
  static std::vector<std::string> secrets(bool has_key) {
    if (!has_key) return {};
    return {std::string(32, 'k')};
  }
  TemporaryDirectory directory_;
  const std::string id_;
  const std::shared_ptr<const CheckpointKeys> keys_;
  SealedFiles files_;
  const std::shared_ptr<SavedFiles> place_;
  int saved_ = 0;
  Status finished_;
  std::vector<std::string> refused_;
};

// Asks before a file is opened or created; an error is the answer of the disk.
class FaultyDisk final : public ForwardingFiles {
 public:
  using Ask = std::function<Status(const std::string& path)>;
  FaultyDisk(Files& files, Ask opens, Ask creates)
      : ForwardingFiles(files), opens_(std::move(opens)), creates_(std::move(creates)) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(opens_(path));
    return files_.open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(creates_(path));
    return files_.create(path);
  }
  static Status works(const std::string&) { return {}; }

 private:
  const Ask opens_, creates_;
};

// Names that leat.Save takes.
std::vector<std::string> many_names() {
  std::string nested;
  for (int i = 0; i < 30; ++i) nested += cat("folder-", i, "/");
  std::string longest;  // beyond what fits into a role
  for (int i = 0; i < 5; ++i) longest += std::string(200, 'd') + "/";
  return {"v",
          "deep/v.safetensors",
          "./relative/./v",
          "weights.safetensors",
          "export/model.onnx",
          "step-00000005/part-00000-of-00001.safetensors",
          "checkpoints/v",
          "damaged-v",
          "submitted",
          "job.yaml",
          ".hidden/.v",
          ".tmp-step-7",
          "a\nb",
          "v.7",
          "saved/v",
          nested + "v",
          std::string(230, 'l'),
          longest + "v"};
}

}  // namespace

TEST_CASE("a file of every name that leat.Save writes is copied and brought back, encrypted") {
  const bool has_key = GENERATE(true, false);
  SavingRun one(has_key ? "a-0001" : "", has_key);
  std::vector<std::string> saved;
  for (const std::string& name : many_names()) {
    INFO(name);
    must(one.save(name));
    saved.push_back(fs::path(name).lexically_normal().string());
  }
  CHECK(one.copy().empty());
  REQUIRE(one.finished().message() == "");
  REQUIRE(must(one.bring()) == 5);
  for (const std::string& name : saved) {
    INFO(name);
    const Bytes bytes = one.read(one.run() + "/saved/" + name);
    for (const std::string& each : {one.to(), one.back()}) {
      const std::string path = each + "/saved/" + name;
      CHECK(begins_sealed(SavingRun::raw(path)) == has_key);
      CHECK(one.read(path) == bytes);
    }
  }
  // Nothing else is there, such as temporary folders of long names.
  for (const std::string& each : {one.to(), one.back()}) {
    size_t count = 0;
    for (const auto& found : fs::recursive_directory_iterator(each + "/saved"))
      count += found.is_regular_file() ? 1 : 0;
    CHECK(count == saved.size());
    CHECK(list_run_files(each, RunNames::all).size() == saved.size() + 3);
  }
}

TEST_CASE("a name as long as a master writes one is copied beside its checkpoints") {
  SavingRun one("a-0001");
  // The temporary file of a master has six bytes more, and that of a copy has 9 or more.
  const std::string name(249, 'n'), path = one.run() + "/saved/" + name;
  const Bytes bytes(1000);
  fs::create_directories(one.run() + "/saved");
  const auto blob =
      must(ArrivingBlob::begin(one.files(), path, path + ".0.tmp", sha256(bytes), bytes.size()));
  must(blob->append(bytes));
  must(blob->finish());
  CHECK(one.copy().empty());
  CHECK(one.finished().message() == "");
  CHECK(must(one.bring()) == 5);
  CHECK(one.read(one.to() + "/saved/" + name) == bytes);
  CHECK(one.read(one.back() + "/saved/" + name) == bytes);
}

TEST_CASE("plain saved files and encrypted ones of one run are copied, and are encrypted there") {
  SavingRun one("a-0001");
  must(one.save("sealed"));
  must(write_file_atomically(real_files(), one.run() + "/saved/plain", Bytes(100)));
  CHECK(one.copy().empty());
  CHECK(must(one.bring()) == 5);
  for (const char* name : {"/saved/sealed", "/saved/plain"}) {
    CHECK(one.read(one.back() + name) == one.read(one.run() + name));
    CHECK(begins_sealed(SavingRun::raw(one.to() + name)));
    CHECK(begins_sealed(SavingRun::raw(one.back() + name)));
  }
}

TEST_CASE("saved files of a run are encrypted in a store, and are brought back from there") {
  SavingRun one("a-0001");
  const std::vector<std::string> names = {"v", ".hidden/v", "export/v", std::string(230, 'l')};
  for (const std::string& name : names) must(one.save(name));
  S3Store store;
  StoreOptions options;
  options.variable = store.variable();
  const std::string to = "s3://bucket/x";
  const auto copier = must(RunCopier::create(real_files(), {one.run(), to, 3, one.keys(), "a-0001"},
                                             RunCopier::Start::recovers, options));
  must(copier->finish(std::chrono::seconds(60), [] { return false; }));
  const auto reading = make_store_files(real_files(), options);
  SealedFiles files(*reading, one.keys(), RunFolders({{to, "a-0001"}, {one.back(), "a-0001"}}));
  std::vector<std::string> refused;
  CHECK(must(bring_run(files, to, one.back(), refused)) == 5);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(store.objects().at("x/saved/" + name).starts_with(kSealedMagic));
    CHECK(one.read(one.back() + "/saved/" + name) == one.read(one.run() + "/saved/" + name));
  }
}

TEST_CASE("a saved file that cannot be copied is named, and keeps no checkpoint back") {
  SavingRun one("a-0001"), other("b-0001");
  for (const char* name : {"a", "v", "w"}) must(one.save(name));
  must(other.save("v"));
  fs::copy_file(other.run() + "/saved/v", one.run() + "/saved/v",
                fs::copy_options::overwrite_existing);
  const auto warnings = one.copy();
  REQUIRE(!warnings.empty());
  CHECK_THAT(warnings[0], Catch::StartsWith("not all files of the run are copied: '") &&
                              Catch::Contains("/run/saved/v': expected the encrypted file "
                                              "'saved/a-0001/v' of a run, received "
                                              "'saved/b-0001/v'"));
  CHECK(one.finished().code() == Code::invalid_argument);
  CHECK(must(verify_checkpoint(one.files(), one.to() + "/checkpoints/step-00000005")).step == 5);
  CHECK(fs::exists(one.to() + "/saved/a"));
  CHECK(fs::exists(one.to() + "/saved/w"));
  CHECK_FALSE(fs::exists(one.to() + "/saved/v"));
}

TEST_CASE("a saved file that cannot be copied ends no retries of the last checkpoint") {
  SavingRun one("a-0001"), other("b-0001");
  must(one.save("v"));
  must(other.save("v"));
  fs::copy_file(other.run() + "/saved/v", one.run() + "/saved/v",
                fs::copy_options::overwrite_existing);
  std::atomic<int> failures = 0;
  FaultyDisk disk(real_files(), FaultyDisk::works, [&](const std::string& path) {
    const bool is_part = path.starts_with(one.to() + "/checkpoints/step-00000005/part-");
    return is_part && ++failures <= 2 ? unavailable(cat("'", path, "': no answer")) : Status();
  });
  const auto copier = must(RunCopier::create(disk, {one.run(), one.to(), 3, one.keys(), "a-0001"},
                                             RunCopier::Start::recovers));
  const Status finished = copier->finish(std::chrono::seconds(60), [] { return false; });
  CHECK(failures == 3);
  CHECK(finished.code() == Code::invalid_argument);
  CHECK_THAT(finished.message(), Catch::Contains("/run/saved/v': expected the encrypted file"));
  CHECK(must(verify_checkpoint(one.files(), one.to() + "/checkpoints/step-00000005")).step == 5);
}

TEST_CASE("a saved file that a disk fails to read or to take keeps no checkpoint back") {
  SavingRun one("a-0001");
  for (const char* name : {"a", "v", "w"}) must(one.save(name));
  const bool reads = GENERATE(true, false);
  int asked = 0;
  bool is_broken = true;
  const auto fault = [&](const std::string& begin) -> FaultyDisk::Ask {
    return [&, begin](const std::string& path) {
      if (!is_broken || !path.starts_with(begin)) return Status();
      ++asked;
      return unavailable(cat("'", path, "': cannot use it: Input/output error"));
    };
  };
  const FaultyDisk::Ask works = FaultyDisk::works;
  FaultyDisk disk(one.files(), reads ? fault(one.run() + "/saved/v") : works,
                  reads ? works : fault(one.to() + "/saved/"));
  RunCopy copy(disk, {one.run(), one.to(), 3});
  must(copy.copy(5));
  CHECK(copy.left_out().code() == Code::unavailable);
  CHECK(must(verify_checkpoint(one.files(), one.to() + "/checkpoints/step-00000005")).step == 5);
  // A place that takes no saved file now is not asked once for each of them.
  CHECK(asked == 1);
  for (const char* name : {"/saved/a", "/saved/w"}) CHECK(fs::exists(one.to() + name) == reads);
  CHECK(copy.copy_files().code() == Code::unavailable);
  is_broken = false;
  must(copy.copy_files());
  for (const char* name : {"/saved/a", "/saved/v", "/saved/w"}) CHECK(fs::exists(one.to() + name));
}

TEST_CASE("a saved file for which the copy lacks room keeps back no other one") {
  SavingRun one("a-0001");
  for (const char* name : {"a", "v"}) must(one.save(name));
  FaultyDisk disk(one.files(), FaultyDisk::works, [&](const std::string& path) {
    const bool is_large = path.starts_with(one.to() + "/saved/a");
    return is_large ? resource_exhausted(cat("'", path, "': no space left")) : Status();
  });
  RunCopy copy(disk, {one.run(), one.to(), 3});
  must(copy.copy(5));
  CHECK(copy.left_out().code() == Code::resource_exhausted);
  CHECK_FALSE(fs::exists(one.to() + "/saved/a"));
  CHECK(fs::exists(one.to() + "/saved/v"));
}

TEST_CASE("an export of a long name is copied, and is encrypted there") {
  SavingRun one("a-0001");
  const std::string name = "/export/" + std::string(230, 'e');
  fs::create_directories(one.run() + "/export");
  must(write_file_atomically(one.files(), one.run() + name, Bytes(100)));
  CHECK(one.copy().empty());
  CHECK(one.finished().message() == "");
  CHECK(must(one.bring()) == 5);
  for (const std::string& each : {one.to() + name, one.back() + name}) {
    CHECK(begins_sealed(SavingRun::raw(each)));
    CHECK(one.read(each) == Bytes(100));
  }
}

TEST_CASE("a saved file of a copy that is exchanged, cut off or changed is not brought back") {
  SavingRun one("a-0001");
  for (const char* name : {"v", "w"}) must(one.save(name));
  CHECK(one.copy().empty());
  const std::string path = one.to() + "/saved/v";
  const Bytes good = SavingRun::raw(path);
  Bytes cut(good.begin(), good.end() - 1), changed = good;
  changed.back() ^= std::byte{1};
  for (const Bytes& bad : {cut, changed, SavingRun::raw(one.to() + "/saved/w")}) {
    must(write_file_atomically(real_files(), path, bad));
    CHECK(must(one.bring()) == 5);
    REQUIRE(one.refused().size() == 1);
    CHECK_THAT(one.refused()[0], Catch::Contains("'" + path + "': expected "));
    CHECK_FALSE(fs::exists(one.back() + "/saved/v"));
    for (const char* name : {"/saved/w", "/job.yaml"}) CHECK(fs::exists(one.back() + name));
    fs::remove_all(one.back());
  }
  must(write_file_atomically(real_files(), path, good));
  CHECK(must(one.bring()) == 5);
  CHECK(one.refused().empty());
}

TEST_CASE("a copy that a disk reads in part is brought without the saved files that it lacks") {
  SavingRun one("a-0001");
  for (const char* name : {"v", "w"}) must(one.save(name));
  CHECK(one.copy().empty());
  std::string broken = one.to() + "/saved/v";
  FaultyDisk disk(
      one.files(),
      [&](const std::string& path) {
        return path == broken ? unavailable(cat("'", path, "': Input/output error")) : Status();
      },
      FaultyDisk::works);
  CHECK(must(one.bring_with(disk)) == 5);
  REQUIRE(one.refused().size() == 1);
  CHECK_THAT(one.refused()[0], Catch::Contains(broken));
  CHECK(fs::exists(one.back() + "/saved/w"));
  CHECK_FALSE(fs::exists(one.back() + "/saved/v"));
  fs::remove_all(one.back());
  broken = one.to() + "/job.yaml";  // no run is without it
  CHECK(one.bring_with(disk).status().code() == Code::unavailable);
  fs::remove_all(one.back());
  // Nor is a file left out whose key is not here.
  SealedFiles none(real_files(), must(make_checkpoint_keys(std::vector<std::string>())));
  for (const auto& each : fs::directory_iterator(one.to() + "/checkpoints/step-00000005")) {
    const Bytes plain = one.read(each.path());
    must(write_file_atomically(real_files(), each.path(), plain));
  }
  CHECK(lacks_key(one.bring_with(none).status()));
}

TEST_CASE("a copy that an older version made, with the names of other files, is brought back") {
  SavingRun one("a-0001");
  const std::vector<std::string> names = {"export/model.onnx", "weights.safetensors",
                                          "deep/best_weights.safetensors",
                                          "step-00000005/part-00000-of-00001.safetensors"};
  for (const std::string& name : names) must(one.save(name));
  CHECK(one.copy().empty());
  SealedFiles older(real_files(), one.keys());
  for (const std::string& name : names) {
    const std::string path = one.to() + "/saved/" + name;
    must(write_file_atomically(older, path, one.read(path)));
    CHECK_FALSE(read_file(one.files(), path, UINT64_MAX).ok());
  }
  SealedFiles reading(real_files(), one.keys(),
                      RunFolders({{one.to(), "a-0001", true}, {one.back(), "a-0001"}}));
  CHECK(must(one.bring_with(reading)) == 5);
  CHECK(one.refused().empty());
  for (const std::string& name : names) {
    INFO(name);
    CHECK(one.read(one.back() + "/saved/" + name) == one.read(one.run() + "/saved/" + name));
  }
}

}  // namespace leat
