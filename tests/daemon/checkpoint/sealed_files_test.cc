// Tests the encryption of files with weights: what is written comes back, and nothing else does.
#include "daemon/checkpoint/sealed_files.h"

#include <algorithm>
#include <atomic>

#include "daemon/base/sealed_magic.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/run_copier.h"
#include "daemon/checkpoint/sealed_chunks.h"
#include "daemon/jobs/blobs.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr size_t kChunk = kSealedChunk;

std::shared_ptr<const CheckpointKeys> keys_of(const std::vector<std::string>& secrets) {
  return must(make_checkpoint_keys(secrets));
}
std::string secret(char each) { return std::string(32, each); }

// Bytes in which no two chunks are equal.
Bytes pattern(size_t size, uint32_t seed = 1) {
  Bytes bytes(size);
  uint32_t state = seed;
  for (std::byte& each : bytes) {
    state = state * 1664525 + 1013904223;
    each = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Folders of a run, with files that are encrypted with a key.
struct SealedScene {
  explicit SealedScene(const std::vector<std::string>& secrets = {secret('k')})
      : files(real_files(), keys_of(secrets)) {
    for (const char* each : {"step-00000005", "step-00000006", "export"})
      must(real_files().make_directories(dir / each));
  }
  void write(const std::string& path, const Bytes& bytes) {
    must(write_file_atomically(files, path, bytes));
  }
  Bytes raw(const std::string& path) { return must(read_file(real_files(), path, UINT64_MAX)); }
  void write_raw(const std::string& path, const Bytes& bytes) {
    must(write_file_atomically(real_files(), path, bytes));
  }
  Result<Bytes> read(const std::string& path) { return read_file(files, path, UINT64_MAX); }
  std::string part(int step, int index) {
    return dir / cat("step-0000000", step, "/part-0000", index, "-of-00002.safetensors");
  }

  TemporaryDirectory dir;
  SealedFiles files;
};

bool contains(const Bytes& bytes, const Bytes& wanted) {
  return std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end()) != bytes.end();
}

// Notes the largest number of bytes of one read or append.
class WatchedFiles final : public ForwardingFiles {
 public:
  WatchedFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
    return std::unique_ptr<ReadableFile>(std::make_unique<Read>(std::move(file), most));
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
    return std::unique_ptr<WritableFile>(std::make_unique<Written>(std::move(file), most));
  }
  size_t most = 0;

 private:
  class Read final : public ReadableFile {
   public:
    Read(std::unique_ptr<ReadableFile> file, size_t& most) : file_(std::move(file)), most_(most) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      most_ = std::max(most_, out.size());
      return file_->read(offset, out);
    }

   private:
    const std::unique_ptr<ReadableFile> file_;
    size_t& most_;
  };
  class Written final : public ForwardingFile {
   public:
    Written(std::unique_ptr<WritableFile> file, size_t& most)
        : ForwardingFile(std::move(file)), most_(most) {}
    Status append(std::span<const std::byte> bytes) override {
      most_ = std::max(most_, bytes.size());
      return file_->append(bytes);
    }

   private:
    size_t& most_;
  };
};

// A disk that keeps no bytes, and counts those that are not synced.
class CountedFiles final : public ForwardingFiles {
 public:
  CountedFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string&) override {
    return std::unique_ptr<WritableFile>(std::make_unique<Written>(*this));
  }
  Status rename(const std::string&, const std::string&) override { return {}; }
  Status sync_directory(const std::string&) override { return {}; }
  uint64_t unsynced = 0, most = 0;
  int syncs = 0;

 private:
  class Written final : public WritableFile {
   public:
    explicit Written(CountedFiles& files) : files_(files) {}
    Status append(std::span<const std::byte> bytes) override {
      files_.unsynced += bytes.size();
      files_.most = std::max(files_.most, files_.unsynced);
      return {};
    }
    Status sync() override {
      files_.unsynced = 0;
      ++files_.syncs;
      return {};
    }
    Status close() override { return {}; }

   private:
    CountedFiles& files_;
  };
};

// A disk without links.
class NoLinks final : public ForwardingFiles {
 public:
  NoLinks() : ForwardingFiles(real_files()) {}
  Status link(const std::string& from, const std::string& to) override {
    return Files::link(from, to);
  }
};

}  // namespace

TEST_CASE("files of all sizes around the borders of chunks come back as they were written") {
  SealedScene scene;
  const std::string path = scene.part(5, 0);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, kChunk - 17,
                            kChunk - 16, kChunk - 1, kChunk, kChunk + 1, kChunk + 16,
                            2 * kChunk - 1, 2 * kChunk, 2 * kChunk + 1, 5 * kChunk + 4711}) {
    INFO(size);
    const Bytes bytes = pattern(size);
    scene.write(path, bytes);
    CHECK(must(scene.read(path)) == bytes);
    const auto file = must(scene.files.open(path));
    REQUIRE(file->size() == size);
    // Pieces from and to any place, and one byte more than there is.
    for (const size_t from : {size_t{0}, size / 3, size - std::min<size_t>(size, 1), size}) {
      for (const size_t count : {size_t{0}, size_t{1}, (size - from) / 2, size - from}) {
        if (count > size - from) continue;
        Bytes piece(count);
        must(file->read(from, piece));
        CHECK(std::equal(piece.begin(), piece.end(), bytes.begin() + static_cast<long>(from)));
      }
      Bytes more(size - from + 1);
      CHECK_FALSE(file->read(from, more).ok());
    }
    const Bytes sealed = scene.raw(path);
    const size_t chunks = std::max<size_t>(1, (size + kChunk - 1) / kChunk);
    CHECK(sealed.size() == SealedHeader::kFixedBytes +
                               std::string("step-00000005/part-00000-of-00002.safetensors").size() +
                               size + chunks * kSealedTag);
    if (size >= 16) {
      CHECK_FALSE(contains(sealed, Bytes(bytes.begin(), bytes.begin() + 16)));
      CHECK_FALSE(contains(sealed, Bytes(bytes.end() - 16, bytes.end())));
    }
  }
}

TEST_CASE("bytes that are appended in odd pieces make the same file of chunks") {
  SealedScene scene;
  const Bytes bytes = pattern(3 * kChunk + 5);
  const std::string path = scene.dir / "weights.safetensors";
  auto file = must(scene.files.create(path));
  for (size_t at = 0, count = 1; at < bytes.size(); at += count, count = count * 3 + 1) {
    count = std::min(count, bytes.size() - at);
    must(file->append(std::span(bytes).subspan(at, count)));
  }
  must(file->sync());
  must(file->append(bytes));
  must(file->close());
  CHECK(file->append(bytes).code() == Code::failed_precondition);
  Bytes twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK(must(scene.read(path)) == twice);
}

TEST_CASE(
    "a plain file is appended to if it has no role or there is no key, an encrypted one never") {
  SealedScene scene;
  SealedFiles none(real_files(), keys_of({}));
  const std::string weights = scene.dir / "weights.safetensors", log = scene.dir / "log.txt";
  const auto append = [](SealedFiles& files, const std::string& path, uint64_t size) -> Status {
    LEAT_ASSIGN_OR_RETURN(const auto file, files.append_to(path, size));
    LEAT_RETURN_IF_ERROR(file->append(pattern(1)));
    return file->close();
  };
  for (const std::string& path : {weights, log}) scene.write_raw(path, pattern(5));
  CHECK(append(none, weights, 5).ok());
  CHECK(scene.raw(weights).size() == 6);
  CHECK(append(scene.files, weights, 6).code() == Code::unimplemented);
  CHECK(append(scene.files, log, 5).ok());
  CHECK_FALSE(append(none, scene.dir / "gone.txt", 0).ok());
  // Under any name.
  scene.write(weights, pattern(100));
  const Bytes sealed = scene.raw(weights);
  scene.write_raw(log, sealed);
  for (const std::string& path : {weights, log}) {
    CHECK(append(none, path, sealed.size()).code() == Code::unimplemented);
    CHECK(append(scene.files, path, sealed.size()).code() == Code::unimplemented);
    CHECK(scene.raw(path) == sealed);
  }
}

TEST_CASE("equal files are encrypted differently each time") {
  SealedScene scene;
  const Bytes bytes = pattern(100);
  scene.write(scene.part(5, 0), bytes);
  const Bytes first = scene.raw(scene.part(5, 0));
  scene.write(scene.part(5, 0), bytes);
  CHECK(scene.raw(scene.part(5, 0)) != first);
}

TEST_CASE("a flip of any byte of an encrypted file is refused") {
  SealedScene scene;
  const std::string path = scene.part(5, 0);
  const Bytes bytes = pattern(kChunk + 100);
  scene.write(path, bytes);
  const Bytes sealed = scene.raw(path);
  const size_t header = sealed.size() - bytes.size() - 2 * kSealedTag;
  std::vector<size_t> places;
  for (size_t at = 0; at < header + 40; ++at) places.push_back(at);
  for (size_t at = header + kChunk - 4; at < header + kChunk + kSealedTag + 4; ++at)
    places.push_back(at);
  for (size_t at = sealed.size() - 40; at < sealed.size(); ++at) places.push_back(at);
  for (const size_t at : places) {
    Bytes damaged = sealed;
    damaged[at] ^= std::byte{0x10};
    scene.write_raw(path, damaged);
    const auto read = scene.read(path);
    INFO(at);
    // Without the magic it is a file like any other, and its manifest refuses it.
    if (at < 8) {
      CHECK(must(read) == damaged);
    } else {
      CHECK_FALSE(read.ok());
      CHECK_THAT(read.status().message(), Catch::Contains("'" + path + "'"));
    }
  }
}

TEST_CASE("an encrypted file that is cut off anywhere or goes on is refused") {
  SealedScene scene;
  const std::string path = scene.part(5, 0);
  const Bytes bytes = pattern(2 * kChunk);
  scene.write(path, bytes);
  const Bytes sealed = scene.raw(path);
  const size_t header = sealed.size() - bytes.size() - 2 * kSealedTag, full = kChunk + kSealedTag;
  const auto refused = [&](const Bytes& damaged) {
    scene.write_raw(path, damaged);
    const auto read = scene.read(path);
    return !read.ok() && read.status().code() == Code::invalid_argument;
  };
  for (const size_t size :
       {size_t{8}, size_t{9}, SealedHeader::kFixedBytes, header - 1, header, header + 1,
        header + 15, header + 16, header + 17, header + full - 1, header + full, header + full + 1,
        header + full + 16, sealed.size() - 17, sealed.size() - 16, sealed.size() - 1}) {
    INFO(size);
    CHECK(refused(Bytes(sealed.begin(), sealed.begin() + static_cast<long>(size))));
  }
  Bytes longer = sealed;
  longer.push_back(std::byte{0});
  CHECK(refused(longer));
  longer.insert(longer.end(), sealed.begin() + static_cast<long>(header), sealed.end());
  CHECK(refused(longer));
}

TEST_CASE("chunks that are exchanged, repeated or of another file are refused") {
  SealedScene scene;
  const std::string path = scene.part(5, 0);
  const Bytes bytes = pattern(3 * kChunk);
  scene.write(scene.part(5, 1), pattern(3 * kChunk, 2));
  scene.write(path, bytes);
  const Bytes sealed = scene.raw(path), other = scene.raw(scene.part(5, 1));
  const size_t full = kChunk + kSealedTag, header = sealed.size() - 3 * full;
  const auto chunk = [&](const Bytes& of, size_t i) {
    return std::span(of).subspan(header + i * full, full);
  };
  const auto refused = [&](size_t at, std::span<const std::byte> with) {
    Bytes damaged = sealed;
    std::copy(with.begin(), with.end(), damaged.begin() + static_cast<long>(header + at * full));
    scene.write_raw(path, damaged);
    const auto read = scene.read(path);
    return read.status().code() == Code::invalid_argument &&
           read.status().message().find("changed, moved or cut off") != std::string::npos;
  };
  CHECK(refused(0, chunk(sealed, 1)));
  CHECK(refused(1, chunk(sealed, 0)));
  CHECK(refused(1, chunk(sealed, 2)));
  CHECK(refused(2, chunk(sealed, 1)));
  for (size_t i = 0; i < 3; ++i) CHECK(refused(i, chunk(other, i)));
  // The last one left out, so that the one before would be the last.
  scene.write_raw(path, Bytes(sealed.begin(), sealed.end() - static_cast<long>(full)));
  CHECK_FALSE(scene.read(path).ok());
}

TEST_CASE("a file in the place of another one is refused by its role") {
  SealedScene scene;
  scene.write(scene.part(5, 0), pattern(100));
  scene.write(scene.part(5, 1), pattern(100, 2));
  scene.write(scene.part(6, 0), pattern(100, 3));
  const auto refused = [&](const std::string& from, const std::string& to) {
    const Bytes before = scene.raw(to);
    scene.write_raw(to, scene.raw(from));
    const Status read = scene.read(to).status();
    scene.write_raw(to, before);
    return read.code() == Code::invalid_argument ? read.message() : "";
  };
  CHECK(refused(scene.part(5, 1), scene.part(5, 0)) ==
        cat("'", scene.part(5, 0), "': expected the encrypted file ",
            "'step-00000005/part-00000-of-00002.safetensors' of a run, received ",
            "'step-00000005/part-00001-of-00002.safetensors'"));
  CHECK(refused(scene.part(6, 0), scene.part(5, 0)) != "");
  // Also if the name in the header is changed with it.
  Bytes forged = scene.raw(scene.part(5, 1));
  const size_t at = SealedHeader::kFixedBytes + std::string("step-00000005/part-0000").size();
  REQUIRE(forged[at] == std::byte{'1'});
  forged[at] = std::byte{'0'};
  scene.write_raw(scene.part(5, 0), forged);
  CHECK(scene.read(scene.part(5, 0)).status().code() == Code::invalid_argument);
}

TEST_CASE("the role of a file is that of its place when it is whole") {
  const std::string part = "part-00000-of-00001.safetensors";
  const std::string role = "step-00000005/" + part;
  CHECK(sealed_role("/run/checkpoints/step-00000005/" + part) == role);
  CHECK(sealed_role("/run/checkpoints/.tmp-step-00000005-1f2e/" + part) == role);
  CHECK(sealed_role("/run/checkpoints/damaged-step-00000005/" + part) == role);
  CHECK(sealed_role("/run/checkpoints/damaged-step-00000005-2/" + part) == role);
  CHECK(sealed_role("s3://b/run/checkpoints/step-00000005/" + part) == role);
  CHECK(sealed_role("step-00000005/" + part + ".4711-0.tmp") == role);
  CHECK(sealed_role("run/weights.safetensors.4711-12.tmp") == "weights.safetensors");
  CHECK(sealed_role("best_weights.safetensors") == "best_weights.safetensors");
  CHECK(sealed_role("run/export/model.onnx.data") == "export/model.onnx.data");
  CHECK(sealed_role("run/export/4711-0.tmp/model.onnx") == "export/model.onnx");
  for (const char* plain :
       {"run/job.yaml", "run/metrics.jsonl", "run/checkpoints/step-00000005/manifest.json",
        "run/graph/model.onnx", "state/blobs/0123", "run/log.txt", "step-5/weights.npz"})
    CHECK(sealed_role(plain) == "");
}

TEST_CASE("what graphs save is encrypted under its own name, and refused in any other place") {
  const TemporaryDirectory dir;
  const std::string jobs = dir / "jobs", saved = jobs + "/a-0001/saved";
  for (const char* folder : {"/a-0001/saved/deep", "/a-0001/export", "/b-0001/saved/deep"})
    must(real_files().make_directories(jobs + folder));
  SealedFiles files(real_files(), keys_of({secret('k')}), RunFolders::of_jobs(jobs));
  const Bytes bytes = pattern(200'000), others = pattern(3'000);
  const auto raw = [](const std::string& path) {
    return must(read_file(real_files(), path, UINT64_MAX));
  };
  const auto read = [&](const std::string& path) { return read_file(files, path, UINT64_MAX); };
  const std::string v = saved + "/deep/v", weights = saved + "/weights.safetensors",
                    other = saved + "/w", run = jobs + "/a-0001/weights.safetensors",
                    foreign = jobs + "/b-0001/saved/deep/v";
  for (const std::string& path : {v, run, foreign}) must(write_file_atomically(files, path, bytes));
  for (const std::string& path : {weights, other}) must(write_file_atomically(files, path, others));
  for (const std::string& path : {v, weights, other, run, foreign}) {
    CHECK(begins_sealed(raw(path)));
    const Bytes expected = must(read(path));
    CHECK(must(files.plain_size(path)) == expected.size());
  }
  CHECK(must(read(v)) == bytes);
  // One that was written before there was a key.
  must(write_file_atomically(real_files(), saved + "/plain", others));
  CHECK(must(read(saved + "/plain")) == others);
  const auto refused = [&](const std::string& path, const Bytes& content) {
    const Bytes good = raw(path);
    must(write_file_atomically(real_files(), path, content));
    const Status status = read(path).status();
    must(write_file_atomically(real_files(), path, good));
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::Contains("'" + path + "': expected "));
  };
  // Another saved file, that of another run, and files of the run in both directions.
  refused(v, raw(other));
  refused(other, raw(weights));
  refused(v, raw(foreign));
  refused(weights, raw(run));
  refused(other, raw(run));
  refused(run, raw(weights));
  refused(run, raw(v));
  // One that is cut off or flipped anywhere behind the magic.
  const Bytes good = raw(v);
  for (const size_t at : {size_t{8}, size_t{9}, size_t{40}, good.size() / 2, good.size() - 1}) {
    Bytes flipped = good;
    flipped[at] ^= std::byte{1};
    refused(v, flipped);
    refused(v, Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(at)));
  }
  CHECK(must(read(v)) == bytes);
}

TEST_CASE("a large encrypted file is synced on its way, as its writer asks, and at its end") {
  CountedFiles disk;
  SealedFiles files(disk, keys_of({secret('k')}), RunFolders::of_jobs("/jobs"));
  const Bytes piece = pattern(1 << 20);
  constexpr size_t kPieces = 200, kEvery = size_t{64} << 20;
  Sha256 hash;
  for (size_t i = 0; i < kPieces; ++i) hash.update(piece);
  const auto blob = must(ArrivingBlob::begin(files, "/jobs/a/saved/v", "/jobs/a/saved/v.0.tmp",
                                             hash.finish(), kPieces * piece.size()));
  for (size_t i = 0; i < kPieces; ++i) must(blob->append(piece));
  CHECK(disk.syncs == 3);
  must(blob->finish());
  CHECK(disk.unsynced == 0);  // nor is the last chunk, which only close() writes
  CHECK(disk.most > kEvery);
  CHECK(disk.most < kEvery + (size_t{2} << 20));
}

TEST_CASE("an encrypted file names the key that it lacks") {
  SealedScene scene;
  const std::string path = scene.dir / "weights.safetensors";
  scene.write(path, pattern(100));
  const std::string id = CheckpointKey::text_of(keys_of({secret('k')})->front().id());
  const std::string other = CheckpointKey::text_of(keys_of({secret('o')})->front().id());
  const auto why = [&](const std::vector<std::string>& secrets) {
    SealedFiles files(real_files(), keys_of(secrets));
    const Status status = files.open(path).status();
    CHECK(lacks_key(status));
    return status.message();
  };
  const std::string begin = cat("'", path, "' is encrypted: expected its key ", id);
  CHECK_THAT(why({}), Catch::StartsWith(begin) && Catch::EndsWith("received none"));
  CHECK_THAT(why({secret('o')}), Catch::StartsWith(begin) && Catch::EndsWith("received " + other));
  // The id of the right key, put there by somebody else, opens nothing.
  Bytes forged = scene.raw(path);
  const auto wrong = keys_of({secret('o')})->front().id();
  std::copy(wrong.begin(), wrong.end(), forged.begin() + 10);
  scene.write_raw(path, forged);
  SealedFiles files(real_files(), keys_of({secret('o')}));
  CHECK(files.open(path).status().code() == Code::invalid_argument);
}

TEST_CASE("a folder may have files of a new key, of the one before, and in the clear") {
  SealedScene scene({secret('a')});
  const std::string oldest = scene.dir / "raw_weights.safetensors";
  const std::string older = scene.dir / "best_weights.safetensors";
  const std::string newer = scene.dir / "weights.safetensors";
  scene.write_raw(oldest, pattern(50, 1));
  scene.write(older, pattern(50, 2));
  SealedFiles rotated(real_files(), keys_of({secret('b'), secret('a')}));
  must(write_file_atomically(rotated, newer, pattern(50, 3)));
  CHECK(must(read_file(rotated, oldest, 100)) == pattern(50, 1));
  CHECK(must(read_file(rotated, older, 100)) == pattern(50, 2));
  CHECK(must(read_file(rotated, newer, 100)) == pattern(50, 3));
  CHECK_FALSE(scene.read(newer).ok());  // the old key does not open what the new one wrote
  // Without a key files are written as they are.
  SealedFiles none(real_files(), keys_of({}));
  must(write_file_atomically(none, newer, pattern(50, 4)));
  CHECK(scene.raw(newer) == pattern(50, 4));
}

TEST_CASE("no more than a chunk of a file is in memory at a time") {
  TemporaryDirectory dir;
  WatchedFiles watched;
  SealedFiles files(watched, keys_of({secret('k')}));
  const std::string path = dir / "weights.safetensors";
  const Bytes bytes = pattern(40 * kChunk + 1);
  must(write_file_atomically(files, path, bytes));
  CHECK(watched.most == kChunk + kSealedTag);
  const auto file = must(files.open(path));
  Sha256 hash;
  must(read_in_pieces(*file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    return Status();
  }));
  CHECK(hash.finish() == sha256(bytes));
  CHECK(watched.most == kChunk + kSealedTag);
}

TEST_CASE("a second name of an encrypted file is encrypted, on any disk") {
  SealedScene scene;
  NoLinks without;
  SealedFiles elsewhere(without, keys_of({secret('k')}));
  scene.write(scene.part(5, 0), pattern(1000));
  Files* const each[] = {&scene.files, &elsewhere};
  for (size_t i = 0; i < 2; ++i) {
    const std::string blob = scene.dir / cat("blob", i);
    must(each[i]->link(scene.part(5, 0), blob));
    CHECK(scene.raw(blob) == scene.raw(scene.part(5, 0)));
    CHECK(must(scene.read(blob)) == pattern(1000));
    // A plain file gets no role by a link: the caller copies it then.
    const std::string plain = scene.dir / "plain";
    if (i == 0) scene.write_raw(plain, pattern(10));
    CHECK_FALSE(each[i]->link(plain, scene.part(6, 0)).ok());
  }
}

TEST_CASE("a checkpoint is whole with its key, and lacks nothing but it without") {
  SealedScene scene;
  Checkpoint checkpoint;
  checkpoint.manifest.step = 7;
  checkpoint.manifest.job = "a";
  checkpoint.manifest.graph = std::string(64, '0');
  std::vector<float> values(50'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f;
  checkpoint.variables.emplace("w", Tensor::of(Shape{50'000}, values));
  const std::string folder = scene.dir / "checkpoints";
  const Manifest sealed = must(write_checkpoint(scene.files, folder, checkpoint));
  const Manifest plain = must(write_checkpoint(real_files(), scene.dir / "plain", checkpoint));
  CHECK(sealed.parts == plain.parts);  // sizes and hashes of the plain bytes
  const std::string path = cat(folder, "/", checkpoint_name(7));
  CHECK(must(verify_checkpoint(scene.files, path)).step == 7);
  std::vector<std::string> refused;
  CHECK(must(read_latest_checkpoint(scene.files, folder, refused)).variables.size() == 1);
  // No weight is in the folder in the clear.
  const auto bytes = std::as_bytes(std::span(values).subspan(100, 8));
  const std::string part = "/part-00000-of-00001.safetensors";
  const Bytes weights(bytes.begin(), bytes.end());
  CHECK(contains(scene.raw(cat(scene.dir / "plain", "/", checkpoint_name(7), part)), weights));
  CHECK_FALSE(contains(scene.raw(path + part), weights));
  // A reader without the key does not take it for damaged, or an older one in its place.
  SealedFiles none(real_files(), keys_of({}));
  checkpoint.manifest.step = 5;
  must(write_checkpoint(none, folder, checkpoint));
  CHECK(lacks_key(verify_checkpoint(none, path).status()));
  const auto latest = read_latest_checkpoint(none, folder, refused);
  CHECK(latest.status().code() == Code::invalid_argument);
  CHECK_THAT(latest.status().message(), Catch::Contains("is encrypted: expected its key"));
  CHECK(refused.empty());
}

TEST_CASE("the copy of a run is encrypted, and brought back it is whole") {
  SealedScene scene;
  const std::string run = scene.dir / "run", copy = scene.dir / "copy";
  Checkpoint checkpoint;
  checkpoint.manifest.step = 5;
  checkpoint.manifest.job = "a";
  checkpoint.manifest.graph = std::string(64, '0');
  checkpoint.variables.emplace("w", Tensor::of(Shape{8}, std::vector<float>(8, 0.37f)));
  must(write_checkpoint(scene.files, run + "/checkpoints", checkpoint));
  scene.write(run + "/weights.safetensors", pattern(1000));
  scene.write(run + "/job.yaml", pattern(10));
  {
    const auto copier = must(RunCopier::create(real_files(), {run, copy, 3, keys_of({secret('k')})},
                                               RunCopier::Start::recovers));
    must(copier->finish(std::chrono::seconds(60), [] { return false; }));
  }
  CHECK(begins_sealed(scene.raw(copy + "/weights.safetensors")));
  CHECK(begins_sealed(
      scene.raw(copy + "/checkpoints/step-00000005/part-00000-of-00001.safetensors")));
  CHECK(scene.raw(copy + "/job.yaml") == pattern(10));
  std::vector<std::string> refused;
  CHECK(must(bring_run(scene.files, copy, scene.dir / "back", refused)) == 5);
  CHECK(must(verify_checkpoint(scene.files, scene.dir / "back/checkpoints/step-00000005")).step ==
        5);
  // Without the key it is not damaged, and no older one is brought.
  SealedFiles none(real_files(), keys_of({}));
  const auto lacking = bring_run(none, copy, scene.dir / "none", refused);
  CHECK(lacks_key(lacking.status()));
  CHECK_THAT(lacking.status().message(), Catch::Contains("is encrypted"));
  CHECK(refused.empty());
}

}  // namespace leat
