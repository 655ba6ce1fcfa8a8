// A job begins with a checkpoint of another one. The checkpoint must be copied whole or not at all,
// whatever happens to the first job and to the disk.
#include "daemon/master/resumed_job.h"

#include <filesystem>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/master/submitted_job.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

Manifest write(Files& files, const std::string& folder, int64_t step, size_t parts) {
  auto writer = must(CheckpointWriter::begin(files, folder, step, parts));
  for (size_t p = 0; p < parts; ++p) {
    Tensor value = must(Tensor::create(DType::f32, {100}));
    std::fill_n(value.data<float>(), 100, static_cast<float>(step + static_cast<int64_t>(p)));
    Variables own;
    own.emplace(cat("layer", p, "/w"), std::move(value));
    must(writer->write_part(p, own));
  }
  Manifest manifest;
  manifest.job = "first";
  manifest.graph = std::string(64, 'a');
  return must(writer->commit(manifest));
}

void write_text(Files& files, const std::string& path, const std::string& text) {
  must(files.make_directories(directory_of(path)));
  must(write_file_atomically(files, path, std::as_bytes(std::span(text))));
}

std::string text_of(Files& files, const std::string& path) {
  const Bytes bytes = must(read_file(files, path, 1 << 20));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A disk without hard links.
class NoLinks final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  Status link(const std::string&, const std::string& to) override {
    return failed_precondition("no link " + to);
  }
};

// The first job removes its older checkpoint when the first of its files is about to be kept.
class Pruned final : public ForwardingFiles {
 public:
  Pruned(Files& files, std::string folder) : ForwardingFiles(files), folder_(std::move(folder)) {}
  Status link(const std::string& from, const std::string& to) override {
    if (!std::exchange(pruned_, true)) {
      must(files_.remove_all(folder_ + "/step-00000005"));
      write(files_, folder_, 10, 3);
    }
    return files_.link(from, to);
  }

 private:
  const std::string folder_;
  bool pruned_ = false;
};

struct Scene {
  TemporaryDirectory folder;
  const std::string first = folder / "first", checkpoints = first + "/checkpoints";
  const std::string second = folder / "second";

  Result<KeptCheckpoint> keep(Files& files) {
    Blobs blobs(files, folder / "blobs");
    return keep_checkpoint(files, blobs, "first-7f3a", first);
  }
  // Returns the checkpoint that the other job has in the end.
  Manifest taken(Files& files, const KeptCheckpoint& kept) {
    Submission submission;
    submission.files = kept.files;
    must(unpack(submission, Blobs(files, folder / "blobs"), second + "/submitted"));
    CHECK(must(take_checkpoint(files, second + "/submitted", second)));
    const auto paths = must(list_checkpoints(files, second + "/checkpoints"));
    REQUIRE(paths.size() == 1);
    return must(verify_checkpoint(files, paths[0]));
  }
};

}  // namespace

TEST_CASE("a job goes on from the newest checkpoint of another, of many parts") {
  Scene scene;
  write(real_files(), scene.checkpoints, 5, 1);
  const Manifest newest = write(real_files(), scene.checkpoints, 10, 20);
  write_text(real_files(), scene.first + "/metrics.jsonl", "{\"step\":10}\n");
  NoLinks no_links(real_files());
  Files& files = GENERATE(false, true) ? real_files() : no_links;
  const auto kept = must(scene.keep(files));
  CHECK(kept.passed_over.empty());
  CHECK(kept.files.size() == 22);
  // Removes the first job. The kept checkpoint must stay.
  std::filesystem::remove_all(scene.first);
  CHECK(scene.taken(files, kept) == newest);
  CHECK(text_of(files, scene.second + "/metrics.jsonl") == "{\"step\":10}\n");
  CHECK(must(files.list(scene.folder / "blobs")).size() == 22);
  // A repetition changes nothing, and a checkpoint of the job itself is not replaced.
  write(real_files(), scene.second + "/checkpoints", 15, 1);
  CHECK(must(take_checkpoint(files, scene.second + "/submitted", scene.second)));
  CHECK(must(list_checkpoints(files, scene.second + "/checkpoints")).size() == 2);
}

TEST_CASE("a damaged checkpoint is passed over by name, and none that is whole is refused") {
  Scene scene;
  CHECK(scene.keep(real_files()).status().message() ==
        "job 'first-7f3a': expected a checkpoint, it has left none yet");
  const Manifest older = write(real_files(), scene.checkpoints, 5, 2);
  write(real_files(), scene.checkpoints, 10, 2);
  std::filesystem::resize_file(scene.checkpoints + "/step-00000010/" + part_name(1, 2), 10);
  const auto kept = must(scene.keep(real_files()));
  REQUIRE(kept.passed_over.size() == 1);
  CHECK_THAT(kept.passed_over[0], Catch::Contains("step-00000010/part-00001-of-00002") &&
                                      Catch::Contains("as in the manifest, received 10"));
  CHECK(scene.taken(real_files(), kept) == older);
  std::filesystem::remove(scene.checkpoints + "/step-00000005/manifest.json");
  const Status none = scene.keep(real_files()).status();
  CHECK(none.code() == Code::failed_precondition);
  CHECK_THAT(none.message(), Catch::Contains("expected a checkpoint that is whole, found ") &&
                                 Catch::Contains("step-00000010") &&
                                 Catch::Contains("step-00000005"));
}

TEST_CASE("a checkpoint that is removed while it is kept gives way to a newer one") {
  Scene scene;
  write(real_files(), scene.checkpoints, 5, 2);
  Pruned files(real_files(), scene.checkpoints);
  const auto kept = must(scene.keep(files));
  CHECK(scene.taken(files, kept).step == 10);
}

TEST_CASE("a job does not go on from a checkpoint that arrived damaged") {
  Scene scene;
  write(real_files(), scene.checkpoints, 5, 2);
  const auto kept = must(scene.keep(real_files()));
  Submission submission;
  submission.files = kept.files;
  must(
      unpack(submission, Blobs(real_files(), scene.folder / "blobs"), scene.second + "/submitted"));
  std::filesystem::resize_file(scene.folder / ("blobs/" + to_hex(kept.files[0].sha256)), 3);
  const auto taken = take_checkpoint(real_files(), scene.second + "/submitted", scene.second);
  CHECK(taken.status().code() == Code::invalid_argument);
  CHECK(must(list_checkpoints(real_files(), scene.second + "/checkpoints")).empty());
}

TEST_CASE("a power failure while a checkpoint is kept and taken leaves it whole or not there") {
  CrashFiles disk;
  const Manifest manifest = write(disk, "disk/first/checkpoints", 5, 2);
  Blobs blobs(disk, "disk/blobs");
  const auto kept = must(keep_checkpoint(disk, blobs, "first", "disk/first"));
  const size_t kept_at = disk.operations();
  const std::string came = "disk/second/submitted/resume/checkpoints/step-00000005/";
  must(disk.make_directories(came));
  for (const AttachedFile& file : kept.files)  // as unpack() does
    must(disk.link(blobs.path(file.sha256), came + file.name.substr(file.name.rfind('/') + 1)));
  must(disk.sync_directory(came));
  CHECK(must(take_checkpoint(disk, "disk/second/submitted", "disk/second")));
  const size_t taken_at = disk.operations();
  for (uint64_t state = 0; state < 400; ++state) {
    const size_t operations = state % (taken_at + 1);
    CrashFiles left = disk.after_crash(operations, state);
    INFO("after " << operations << " of " << taken_at << " operations, seed " << state);
    if (operations >= kept_at) {
      for (const AttachedFile& file : kept.files) {
        const auto blob = must(left.open(Blobs(left, "disk/blobs").path(file.sha256)));
        REQUIRE(must(sha256_of(*blob)) == to_hex(file.sha256));
      }
    }
    const auto own = must(list_checkpoints(left, "disk/second/checkpoints"));
    for (const std::string& path : own) REQUIRE(must(verify_checkpoint(left, path)) == manifest);
    if (operations == taken_at) REQUIRE(own.size() == 1);
  }
}

}  // namespace leat
