// Tests files that are named by their content: each is there whole, or not at all.
#include "daemon/jobs/blobs.h"

#include <algorithm>

#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

Bytes pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 2);
  return bytes;
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Files whose operations fail when the test says so.
class Failing final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  Status rename(const std::string& from, const std::string& to) override {
    if (fails) return unavailable("cannot rename");
    return files_.rename(from, to);
  }
  bool fails = true;
};

}  // namespace

TEST_CASE("a blob that arrives in pieces is there under its hash when it is finished") {
  const TemporaryDirectory dir;
  Blobs blobs(real_files(), dir / "blobs");
  const Bytes bytes = pattern(3'000);
  const Sha256Digest hash = sha256(bytes);
  auto blob = must(blobs.begin(hash, bytes.size()));
  for (size_t at = 0; at < bytes.size(); at += 1'000)
    must(blob->append(std::span(bytes).subspan(at, 1'000)));
  CHECK_FALSE(must(blobs.has(hash, bytes.size())));
  CHECK(blob->append(std::span(bytes).first(1)).message() ==
        "upload: expected 3000 bytes, received more");
  must(blob->finish());
  blob.reset();
  CHECK(must(blobs.names()) == std::vector<std::string>{to_hex(hash)});
  CHECK(must(read_file(real_files(), blobs.path(hash), 1 << 20)) == bytes);
  must(blobs.put(hash, bytes));  // the same bytes again
  CHECK(must(blobs.names()).size() == 1);
}

TEST_CASE("a blob of which bytes are missing is refused") {
  const TemporaryDirectory dir;
  Blobs blobs(real_files(), dir / "blobs");
  const Bytes bytes = pattern(3'000);
  const auto blob = must(blobs.begin(sha256(bytes), bytes.size()));
  must(blob->append(std::span(bytes).first(2'000)));
  CHECK(blob->finish().to_string() ==
        "invalid_argument: upload: expected 3000 bytes, received 2000");
  CHECK_FALSE(must(blobs.has(sha256(bytes), bytes.size())));
}

TEST_CASE("an upload that a master would decrypt with its key is refused, in pieces of any size") {
  const TemporaryDirectory dir;
  Blobs blobs(real_files(), dir / "blobs");
  const std::string text = "leatseal\x01 and a stolen ciphertext";
  const Bytes bytes = bytes_of(text);
  for (size_t piece = 1; piece <= 9; ++piece) {
    const auto blob = must(blobs.begin(sha256(bytes), bytes.size()));
    Status status;
    for (size_t at = 0; at < bytes.size() && status.ok(); at += piece)
      status = blob->append(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    INFO(piece);
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(),
               Catch::StartsWith("upload: expected a file that is not encrypted"));
  }
  CHECK(must(blobs.names()).empty());
  // A shorter start, or the word at another place, is a file like any other.
  for (const char* plain : {"leatsea", "a leatseal"}) {
    const Bytes other = bytes_of(plain);
    CHECK(blobs.put(sha256(other), other).ok());
  }
}

TEST_CASE("two that bring the same blob at once do not meet") {
  const TemporaryDirectory dir;
  Blobs blobs(real_files(), dir / "blobs");
  const Bytes bytes = pattern(100);
  const Sha256Digest hash = sha256(bytes);
  auto one = must(blobs.begin(hash, 100)), other = must(blobs.begin(hash, 100));
  must(one->append(bytes));
  must(other->append(bytes));
  must(one->finish());
  must(other->finish());
  CHECK(must(blobs.names()) == std::vector<std::string>{to_hex(hash)});
}

TEST_CASE("a blob that fails to get its name leaves nothing") {
  const TemporaryDirectory dir;
  Failing files(real_files());
  Blobs blobs(files, dir / "blobs");
  const Bytes bytes = pattern(100);
  must(files.make_directories(dir / "from"));
  must(must(files.create(dir / "from/a"))->append(bytes));
  const auto file = must(files.open(dir / "from/a"));
  CHECK(blobs.put(sha256(bytes), bytes).code() == Code::unavailable);
  CHECK(blobs.copy(*file, sha256(bytes)).code() == Code::unavailable);
  CHECK(blobs.share(*file, sha256(bytes)).code() == Code::unavailable);
  CHECK(must(blobs.names()).empty());
  files.fails = false;
  must(blobs.share(*file, sha256(bytes)));
  CHECK(must(blobs.has(sha256(bytes), 100)));
}

TEST_CASE("an encrypted blob counts with its bytes, also if its key is not here") {
  const TemporaryDirectory dir;
  const std::vector<std::string> secret = {std::string(32, 'k')}, none;
  SealedFiles with(real_files(), must(make_checkpoint_keys(secret)));
  SealedFiles without(real_files(), must(make_checkpoint_keys(none)));
  const Bytes bytes = pattern(1'000);
  const std::string name = to_hex(sha256(bytes));
  must(write_file_atomically(with, dir / "weights.safetensors", bytes));
  Blobs blobs(with, dir / "blobs");
  must(blobs.share(*must(with.open(dir / "weights.safetensors")), sha256(bytes)));
  CHECK(must(blobs.sizes()) == std::map<std::string, uint64_t>{{name, 1'000}});
  const uint64_t on_disk = must(real_files().open(blobs.path(sha256(bytes))))->size();
  CHECK(on_disk > 1'000);
  CHECK(must(Blobs(without, dir / "blobs").sizes()) ==
        std::map<std::string, uint64_t>{{name, on_disk}});
}

TEST_CASE("a copy of a file that is not what it was told to be is refused") {
  const TemporaryDirectory dir;
  Blobs blobs(real_files(), dir / "blobs");
  must(must(real_files().create(dir / "a"))->append(pattern(100)));
  const auto file = must(real_files().open(dir / "a"));
  CHECK(blobs.copy(*file, sha256(pattern(99))).code() == Code::invalid_argument);
  CHECK(must(blobs.names()).empty());
}

TEST_CASE("a blob that was finished survives a power failure, whole") {
  CrashFiles disk;
  Blobs blobs(disk, "disk/blobs");
  const Bytes bytes = pattern(5'000);
  const Sha256Digest hash = sha256(bytes);
  auto blob = must(blobs.begin(hash, bytes.size()));
  must(blob->append(std::span(bytes).first(2'000)));
  must(blob->append(std::span(bytes).subspan(2'000)));
  must(blob->finish());
  const size_t finished = disk.operations();
  for (uint64_t state = 0; state < 200; ++state) {
    const size_t operations = state % (finished + 1);
    CrashFiles left = disk.after_crash(operations, state);
    Blobs there(left, "disk/blobs");
    INFO("after " << operations << " of " << finished << " operations, seed " << state);
    const bool has = must(left.exists(there.path(hash)));
    if (operations == finished) REQUIRE(has);
    if (has) REQUIRE(must(read_file(left, there.path(hash), 1 << 20)) == bytes);
  }
}

}  // namespace leat
