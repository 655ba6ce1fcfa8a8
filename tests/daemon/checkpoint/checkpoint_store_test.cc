// Tests checkpoints as files. A written one must be read back, a damaged one refused by name, and a
// power failure at any moment must lose nothing that was committed, in each state that it may leave
// on the disk. LEAT_CRASH_STATES and LEAT_BIT_FLIPS set the numbers of trials, and LEAT_SEED the
// seed.
#include "daemon/checkpoint/checkpoint_store.h"

#include <functional>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/formats/elements.h"
#include "tests/catch.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr const char* kFolder = "disk/run/checkpoints";

// Returns the state of a job after `step`. It differs between runs.
Variables state_after(int64_t step, int run = 0) {
  Variables out;
  for (int v = 0; v < 3; ++v) {
    Tensor value = must(Tensor::create(DType::f32, {v + 1, 97}));
    float* elements = value.data<float>();
    for (int64_t i = 0; i < value.elements(); ++i)
      elements[i] = static_cast<float>(step * 1000 + run * 100 + v * 10) + static_cast<float>(i);
    out.emplace(cat("layer", v, "/w"), std::move(value));
  }
  return out;
}

bool same(const Variables& a, const Variables& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype() == y.second.dtype() &&
           x.second.shape() == y.second.shape() &&
           std::ranges::equal(bytes_of(x.second), bytes_of(y.second));
  });
}

Manifest manifest_of(int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.job = "crash \"test\"";
  manifest.graph = std::string(64, 'a');
  manifest.seed = 7;
  manifest.shards = 4;
  manifest.data = {
      128, true, 60000, {{"features", "47040016 bytes, crc32c 01020304"}, {"labels", "x"}}};
  manifest.strategy = "mirrored";
  manifest.workers = 2;
  return manifest;
}

// Writes one of several parts.
Result<Manifest> write_parts(Files& files, int64_t step, size_t parts, int run = 0) {
  LEAT_ASSIGN_OR_RETURN(auto writer, CheckpointWriter::begin(files, kFolder, step, parts));
  std::vector<Variables> own(parts);
  size_t next = 0;
  for (auto& [name, value] : state_after(step, run)) own[next++ % parts].emplace(name, value);
  for (size_t p = parts; p-- > 0;) LEAT_RETURN_IF_ERROR(writer->write_part(p, own[p]));
  return writer->commit(manifest_of(step));
}

// A checkpoint that the store acknowledged, and the disk's number of operations then.
struct Acknowledged {
  size_t operations;
  int64_t step;
  int run;
};

// Trains: writes checkpoints, prunes them, and writes one of them again. Records each
// acknowledgement. Stops at the first error.
std::vector<Acknowledged> train(Files& files, const std::function<size_t()>& operations) {
  std::vector<Acknowledged> acknowledged;
  for (const auto& [step, run] : {std::pair{10, 0}, {20, 0}, {30, 0}, {30, 1}, {40, 0}}) {
    if (!write_parts(files, step, step / 10 == 2 ? 1 : 2, run).ok()) break;
    acknowledged.push_back({operations(), step, run});
    if (!prune_checkpoints(files, kFolder, 2).ok()) break;
  }
  return acknowledged;
}

// Checks the disk after a crash. Returns the first error, "" if there is none.
std::string what_is_wrong(CrashFiles& left, size_t operations,
                          const std::vector<Acknowledged>& acknowledged) {
  const auto paths = list_checkpoints(left, kFolder);
  if (!paths.ok()) return paths.status().message();
  for (const std::string& path : *paths) {
    const auto verified = verify_checkpoint(left, path);
    if (!verified.ok()) return verified.status().message();
  }
  int64_t least = 0, least_run = 0;
  for (const Acknowledged& each : acknowledged)
    if (each.operations <= operations) least = each.step, least_run = each.run;
  std::vector<std::string> refused;
  const auto from = read_latest_checkpoint(left, kFolder, refused);
  if (!from.ok()) return least == 0 ? "" : from.status().message();
  const int64_t step = from->manifest.step;
  if (step < least) return cat("expected step ", least, " or later, received ", step);
  for (int run = static_cast<int>(step == least ? least_run : 0); run < 2; ++run)
    if (same(from->variables, state_after(step, run))) return "";
  return cat("the variables of step ", step, " are not what was written");
}

// Crashes after every operation, in `states` states in all. Returns the first error.
std::string crash_everywhere(const CrashFiles& disk, const std::vector<Acknowledged>& acknowledged,
                             uint64_t states, uint64_t seed) {
  for (uint64_t i = 0; i < states; ++i) {
    const size_t operations = i % (disk.operations() + 1);
    CrashFiles left = disk.after_crash(operations, seed + i);
    const std::string wrong = what_is_wrong(left, operations, acknowledged);
    if (!wrong.empty())
      return cat("after ", operations, " of ", disk.operations(), " operations, seed ", seed + i,
                 ": ", wrong);
  }
  return "";
}

// Files that omit the steps of a mutation, as a writer with that bug would.
class Careless final : public ForwardingFiles {
 public:
  enum class Omits { part_syncs, manifest_syncs, folder_syncs, inner_syncs, exchange };
  Careless(CrashFiles& disk, Omits omits) : ForwardingFiles(disk), omits_(omits) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
    const bool manifest = path.ends_with(kManifestName);
    if (omits_ != (manifest ? Omits::manifest_syncs : Omits::part_syncs)) return file;
    return std::unique_ptr<WritableFile>(std::make_unique<Unsynced>(std::move(file)));
  }
  Status exchange(const std::string& a, const std::string& b) override {
    if (omits_ != Omits::exchange) return files_.exchange(a, b);
    LEAT_RETURN_IF_ERROR(files_.remove_all(b));
    LEAT_RETURN_IF_ERROR(files_.rename(a, b));
    return files_.make_directories(a);
  }
  Status sync_directory(const std::string& path) override {
    const Omits kind = path == kFolder ? Omits::folder_syncs : Omits::inner_syncs;
    return omits_ == kind ? Status() : files_.sync_directory(path);
  }

 private:
  class Unsynced final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    Status sync() override { return {}; }
  };

  const Omits omits_;
};

}  // namespace

TEST_CASE("a manifest is read back as it was written, and no byte of it changes unseen") {
  Manifest manifest = manifest_of(12);
  manifest.previous = CheckpointParent{8, std::string(64, 'b')};
  manifest.parts = {{100, std::string(64, '0')}, {0, std::string(64, 'f')}};
  const std::string text = print_manifest(manifest);
  const auto parse = [](const std::string& t) {
    return parse_manifest(std::as_bytes(std::span(t)), "it");
  };
  CHECK(must(parse(text)) == manifest);
  for (size_t at = 0; at < text.size(); ++at) {
    for (const int bit : {0, 5, 7}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      INFO("bit " << bit << " of byte " << at);
      CHECK(parse(damaged).status().code() == Code::invalid_argument);
    }
    INFO("cut at " << at);
    CHECK_FALSE(parse(text.substr(0, at)).ok());
  }
}

TEST_CASE("a checkpoint of several parts is read back, and any tool finds its variables") {
  const TemporaryDirectory dir;
  auto writer = must(CheckpointWriter::begin(real_files(), dir / "c", 5, 2));
  Variables all = state_after(5), one, other;
  one.insert(*all.begin());
  other.insert(std::next(all.begin()), all.end());
  must(writer->write_part(1, other));
  must(writer->write_part(0, one));
  const Manifest written = must(writer->commit(manifest_of(5)));
  const Checkpoint read = must(read_checkpoint(real_files(), dir / "c/step-00000005"));
  CHECK(read.manifest == written);
  CHECK(same(read.variables, all));
  CHECK(must(verify_checkpoint(real_files(), writer->path())) == written);
  CHECK(must(real_files().list(writer->path())) ==
        std::vector<std::string>{"manifest.json", part_name(0, 2), part_name(1, 2)});
}

TEST_CASE("a part may be written by a process that sees the very folder, and by no other") {
  const TemporaryDirectory dir;
  auto writer = must(CheckpointWriter::begin(real_files(), dir / "c", 5, 2, "5eed"));
  const Variables all = state_after(5);
  const PartPlace place = writer->place(1);
  const auto write = [&](const PartPlace& where) {
    return write_part_at(real_files(), where, all, 5);
  };
  CHECK(write({place.folder + "x", 1, 2}).status().code() == Code::failed_precondition);
  CHECK(write({dir / "c", 1, 2}).status().code() == Code::invalid_argument);
  CHECK(write({"c/.tmp-step-00000005-5eed", 1, 2}).status().code() == Code::invalid_argument);
  CHECK(write({dir / "../.tmp-step-1", 1, 2}).status().code() == Code::invalid_argument);
  CHECK(write({place.folder, 2, 2}).status().code() == Code::invalid_argument);
  CHECK(write({place.folder, 0, kMaxCheckpointParts + 1}).status().code() ==
        Code::invalid_argument);
  const CheckpointPart part = must(write(place));
  CHECK(write(place).status().code() == Code::failed_precondition);  // it exists already
  must(writer->write_part(0, Variables()));
  CHECK(writer->wrote_part(1, {part.bytes + 1, part.sha256}).code() == Code::unavailable);
  CHECK(writer->wrote_part(1, {part.bytes, "x"}).code() == Code::invalid_argument);
  must(writer->wrote_part(1, part));
  must(writer->commit(manifest_of(5)));
  CHECK(same(must(read_checkpoint(real_files(), writer->path())).variables, all));
  CHECK(write(place).status().code() == Code::failed_precondition);  // too late
}

TEST_CASE("a checkpoint that is not committed leaves nothing") {
  const TemporaryDirectory dir;
  must(must(CheckpointWriter::begin(real_files(), dir.path(), 5, 2))->write_part(0, {}));
  CHECK(must(real_files().list(dir.path())).empty());
}

TEST_CASE("the newest of two checkpoints is that of the higher step, however many digits it has") {
  const TemporaryDirectory dir;
  for (const int64_t step : {99'999'999, 100'000'000})
    must(write_checkpoint(real_files(), dir.path(), {manifest_of(step), state_after(1)}));
  std::vector<std::string> refused;
  CHECK(must(read_latest_checkpoint(real_files(), dir.path(), refused)).manifest.step ==
        100'000'000);
}

TEST_CASE("a checkpoint of an element type that is not known gives way to an older one") {
  const TemporaryDirectory dir;
  must(write_checkpoint(real_files(), dir.path(), {manifest_of(5), state_after(5)}));
  const std::string header = R"({"w":{"dtype":"F4_E2M1","shape":[8],"data_offsets":[0,4]}})";
  std::string part(8, '\0');
  part[0] = static_cast<char>(header.size());
  part += header + "1234";
  const auto writer = must(CheckpointWriter::begin(real_files(), dir.path(), 7, 1));
  must(writer->fill_part(
      0, [&](const TakeBytes& take) { return take(std::as_bytes(std::span(part))); }));
  must(writer->commit(manifest_of(7)));
  // It is no file whose key is missing.
  CHECK_FALSE(lacks_key(read_checkpoint(real_files(), writer->path()).status()));
  std::vector<std::string> refused;
  CHECK(must(read_latest_checkpoint(real_files(), dir.path(), refused)).manifest.step == 5);
  REQUIRE(refused.size() == 1);
  CHECK_THAT(refused[0], Catch::Contains("expected an element type such as F32"));
}

TEST_CASE("each checkpoint of a job names the one before, which may be gone") {
  const TemporaryDirectory dir;
  ManualClock clock;
  JobCheckpoints first(real_files(), clock, dir.path(), {10, {}, 2});
  for (const int64_t step : {10, 20, 30}) must(first.write(manifest_of(step), state_after(step)));
  JobCheckpoints second(real_files(), clock, dir.path(), {10, {}, 2});
  std::vector<std::string> refused;
  CHECK(must(second.resume(refused)).manifest.step == 30);
  must(second.write(manifest_of(40), state_after(40)));
  const auto parent = [&](int step) {
    return must(verify_checkpoint(real_files(), dir / checkpoint_name(step))).previous;
  };
  CHECK(parent(40) == parent_of(must(verify_checkpoint(real_files(), dir / checkpoint_name(30)))));
  CHECK(parent(30)->step == 20);
  CHECK(second.expect_none().code() == Code::failed_precondition);

  // A checkpoint that replaced its parent would be refused at its reading.
  CHECK(second.write(manifest_of(40), state_after(40)).code() == Code::failed_precondition);
  CHECK(parent(40)->step == 30);
}

TEST_CASE("a checkpoint is due by steps and by time") {
  const TemporaryDirectory dir;
  ManualClock clock;
  JobCheckpoints checkpoints(real_files(), clock, dir.path(), {10, std::chrono::seconds(60), 2});
  CHECK(checkpoints.next(0) == 10);
  CHECK(checkpoints.next(10) == 20);
  checkpoints.start();
  CHECK_FALSE(checkpoints.is_overdue());
  clock.advance(std::chrono::seconds(60));
  CHECK(checkpoints.is_overdue());
  must(checkpoints.write(manifest_of(3), state_after(3)));
  CHECK_FALSE(checkpoints.is_overdue());
  CHECK_FALSE(JobCheckpoints(real_files(), clock, "x", {}).next(5));
}

TEST_CASE("a crash at any moment, whatever it leaves, loses no checkpoint and damages none") {
  CrashFiles disk;
  const auto acknowledged = train(disk, [&] { return disk.operations(); });
  REQUIRE(acknowledged.size() == 5);
  const uint64_t seed = environment_number("LEAT_SEED", 1),
                 states = environment_number("LEAT_CRASH_STATES", 20'000 / kSlowness);
  CHECK(crash_everywhere(disk, acknowledged, states, seed) == "");
}

TEST_CASE("a training goes on after a crash, and crashes again") {
  CrashFiles disk;
  const auto acknowledged = train(disk, [&] { return disk.operations(); });
  for (size_t operations = 0; operations <= disk.operations(); ++operations) {
    INFO("crash after " << operations << " operations");
    CrashFiles left = disk.after_crash(operations, operations);
    const auto again = train(left, [&] { return left.operations(); });
    REQUIRE(again.size() == 5);
    CHECK(what_is_wrong(left, left.operations(), again) == "");
    for (const auto& [name, size] : left.sizes()) CHECK(name.find(".tmp") == std::string::npos);
    CHECK(crash_everywhere(left, again, 50, operations) == "");
  }
}

TEST_CASE("a writer that forgets a sync, or replaces in two steps, is found out") {
  using Omits = Careless::Omits;
  for (const Omits omits : {Omits::part_syncs, Omits::manifest_syncs, Omits::folder_syncs,
                            Omits::inner_syncs, Omits::exchange}) {
    INFO("leaves out " << static_cast<int>(omits));
    CrashFiles disk;
    Careless careless(disk, omits);
    const auto acknowledged = train(careless, [&] { return disk.operations(); });
    REQUIRE(acknowledged.size() == 5);
    CHECK(crash_everywhere(disk, acknowledged, 20'000, 1) != "");
  }
}

TEST_CASE("a flipped bit anywhere in a checkpoint is found, and the one before is used") {
  CrashFiles disk;
  must(write_parts(disk, 10, 2));
  must(write_parts(disk, 20, 2));
  std::vector<std::pair<std::string, uint64_t>> files;
  for (const auto& [name, size] : disk.sizes())
    if (name.find(checkpoint_name(20)) != std::string::npos) files.emplace_back(name, size);
  REQUIRE(files.size() == 3);
  uint64_t random = environment_number("LEAT_SEED", 1);
  for (uint64_t i = 0, flips = environment_number("LEAT_BIT_FLIPS", 20'000 / kSlowness); i < flips;
       ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const auto& [name, size] = files[(random >> 60) % files.size()];
    const uint64_t byte = (random >> 8) % size;
    const int bit = static_cast<int>((random >> 4) % 8);
    disk.flip(name, byte, bit);
    std::vector<std::string> refused;
    const auto from = read_latest_checkpoint(disk, kFolder, refused);
    disk.flip(name, byte, bit);
    if (from.ok() && from->manifest.step == 10 && refused.size() == 1 &&
        refused[0].find(name.substr(name.rfind('/'))) != std::string::npos)
      continue;
    FAIL("bit " << bit << " of byte " << byte << " of " << name << " was not seen");
  }
  std::vector<std::string> refused;
  CHECK(must(read_latest_checkpoint(disk, kFolder, refused)).manifest.step == 20);
}

}  // namespace leat
