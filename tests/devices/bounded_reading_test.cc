// Tests reads of files that do not answer, or answer slowly.
#include "devices/base/bounded_reading.h"

#include <condition_variable>
#include <mutex>

#include "devices/base/forwarding_files.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAnswer{60};
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Blocks reads from `held_from` on until the test releases them, and delays every read by `pace`.
class SlowFiles final : public ForwardingFiles {
 public:
  SlowFiles(std::optional<uint64_t> held_from, milliseconds pace)
      : ForwardingFiles(real_files()), held_from_(held_from), pace_(pace) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
    return std::unique_ptr<ReadableFile>(new File(*this, std::move(file)));
  }
  // Releases the reader and waits until it has left. Returns the number of its reads.
  int let_go() {
    std::unique_lock lock(mutex_);
    held_from_.reset();
    changed_.notify_all();
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return inside_ == 0; }));
    return reads_;
  }

 private:
  class File final : public ReadableFile {
   public:
    File(SlowFiles& of, std::unique_ptr<ReadableFile> file) : of_(of), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      const Status status = file_->read(offset, out);
      std::unique_lock lock(of_.mutex_);
      ++of_.reads_, ++of_.inside_;
      of_.changed_.wait_for(lock, of_.pace_, [] { return false; });
      of_.changed_.wait(lock, [&] { return !of_.held_from_ || offset < *of_.held_from_; });
      --of_.inside_;
      of_.changed_.notify_all();
      return status;
    }

   private:
    SlowFiles& of_;
    const std::unique_ptr<ReadableFile> file_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<uint64_t> held_from_;
  const milliseconds pace_;
  int inside_ = 0, reads_ = 0;
};

struct Scene {
  Scene() {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
    must(write_file_atomically(real_files(), path, bytes));
  }
  Result<Bytes> read(Files& files) {
    return read_within<Bytes>(files, limits, [path = path](Files& bounded) {
      return read_file(bounded, path, uint64_t{1} << 30);
    });
  }
  bool says(const Status& status, const std::string& text) const {
    INFO(status);
    CHECK(status.code() == Code::unavailable);
    CHECK(status.message().find("'" + path + "': " + text) == 0);
    CHECK(told == status.message());
    return status.message().find("'" + path + "': " + text) == 0;
  }

  TemporaryDirectory directory;
  std::string path = directory / "data";
  Bytes bytes = Bytes(5 * kMiB + 7);
  std::string told;
  milliseconds waited{0};
  ReadingLimits limits{kAnswer, std::chrono::steady_clock::time_point::max(),
                       [this](const std::string& how, milliseconds time) {
                         told = how;
                         waited = time;
                       }};
};

}  // namespace

TEST_CASE("a read within the limits returns the bytes of the file, and errors stay what they are") {
  Scene scene;
  const auto read = scene.read(real_files());
  CHECK(must(read) == scene.bytes);
  scene.path = scene.directory / "none";
  CHECK(scene.read(real_files()).status().code() == Code::failed_precondition);
  CHECK(scene.told == "");
}

TEST_CASE("a file that does not answer is given up, with the byte at which it was") {
  Scene scene;
  SlowFiles files(2 * kMiB, milliseconds(0));
  const auto read = scene.read(files);
  CHECK(scene.says(read.status(),
                   "expected its file system to answer within 0.1 s, received nothing at byte "
                   "2097152 of 5242887, after "));
  CHECK(scene.waited >= kAnswer);
  CHECK(files.let_go() == 3);  // no further reads
}

TEST_CASE("a file that is slow, but answers, is read to its end") {
  Scene scene;
  constexpr milliseconds kPace{120};
  SlowFiles files({}, kPace);
  scene.limits.answer = 5 * kPace;
  CHECK(must(scene.read(files)) == scene.bytes);  // 6 reads, together longer than the limit of one
  CHECK(files.let_go() == 6);
}

TEST_CASE("a file that is too slow in all is given up at the deadline") {
  Scene scene;
  SlowFiles files(kMiB, milliseconds(0));
  scene.limits.answer = std::chrono::hours(1);
  scene.limits.deadline = std::chrono::steady_clock::now() + kAnswer;
  CHECK(scene.says(scene.read(files).status(), "expected to be read within 0"));
  CHECK(scene.told.ends_with(" s, was at byte 1048576 of 5242887"));
  CHECK(files.let_go() == 2);
}

}  // namespace leat
