#include "daemon/base/timed_files.h"

#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

TEST_CASE("waits for a disk tell the oldest operation and since when") {
  ManualClock clock;
  DiskWaits waits(clock);
  CHECK(!waits.now());
  {
    const DiskWaits::Operation first(waits, "to sync 'a'");
    clock.advance(2s);
    const DiskWaits::Operation second(waits, "to write 'b'");
    REQUIRE(waits.now());
    CHECK(waits.now()->operation == "to sync 'a'");
    CHECK(waits.now()->seconds == 2);
  }
  clock.advance(10ms);  // another one may follow
  CHECK(waits.now());
  clock.advance(11ms);
  CHECK(!waits.now());
}

TEST_CASE("slow operations that follow each other are one wait") {
  ManualClock clock;
  DiskWaits waits(clock);
  for (int i = 0; i < 10; ++i) {
    {
      const DiskWaits::Operation each(waits, "to write 'a'");
      clock.advance(100ms);
    }
    clock.advance(5ms);
  }
  REQUIRE(waits.now());
  CHECK(waits.now()->operation == "to write 'a'");
  CHECK(waits.now()->seconds == Approx(1));  // without the time between them
  // After a pause another one begins.
  clock.advance(50ms);
  CHECK(!waits.now());
  const DiskWaits::Operation next(waits, "to sync 'a'");
  REQUIRE(waits.now());
  CHECK(waits.now()->seconds == 0);
}

TEST_CASE("quick operations are no long wait, however many they are") {
  ManualClock clock;
  DiskWaits waits(clock);
  for (int i = 0; i < 1000; ++i) {
    {
      const DiskWaits::Operation each(waits, "to write 'a'");
      clock.advance(1ms);
    }
    clock.advance(15ms);
    if (const auto wait = waits.now()) CHECK(wait->seconds < 0.01);
  }
}

// Stands still in each operation for half a second of a clock that a test advances, and asks what
// they wait for.
class SlowFiles final : public ForwardingFiles {
 public:
  SlowFiles(Files& files, ManualClock& clock) : ForwardingFiles(files), clock_(clock) {}
  void ask(const TimedFiles* timed) { timed_ = timed; }
  const std::vector<std::string>& seen() const { return seen_; }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    note();
    auto file = files_.create(path);
    LEAT_RETURN_IF_ERROR(file.status());
    return std::unique_ptr<WritableFile>(std::make_unique<Slow>(std::move(*file), *this));
  }
  Status rename(const std::string& from, const std::string& to) override {
    note();
    return files_.rename(from, to);
  }
  Status sync_directory(const std::string& path) override {
    note();
    return files_.sync_directory(path);
  }

 private:
  class Slow final : public ForwardingFile {
   public:
    Slow(std::unique_ptr<WritableFile> file, SlowFiles& files)
        : ForwardingFile(std::move(file)), files_(files) {}
    Status append(std::span<const std::byte> bytes) override {
      files_.note();
      return file_->append(bytes);
    }
    Status sync() override {
      files_.note();
      return file_->sync();
    }

   private:
    SlowFiles& files_;
  };

  void note() {
    clock_.advance(500ms);
    const auto wait = timed_->wait();
    seen_.push_back(wait ? wait->operation.substr(0, wait->operation.find(" '")) : "nothing");
  }

  ManualClock& clock_;
  const TimedFiles* timed_ = nullptr;
  std::vector<std::string> seen_;
};

TEST_CASE("files tell each operation of an atomic write while it lasts") {
  const TemporaryDirectory folder;
  ManualClock clock;
  SlowFiles slow(real_files(), clock);
  TimedFiles files(slow, clock);
  slow.ask(&files);
  const std::string path = folder / "a";
  const std::vector<std::byte> bytes(10);
  must(write_file_atomically(files, path, bytes));
  CHECK(slow.seen() ==
        std::vector<std::string>{"to create", "to write", "to sync", "to rename", "to sync"});
  CHECK(must(read_file(files, path, 100)).size() == 10);
  clock.advance(1s);
  CHECK(!files.wait());
}

}  // namespace
}  // namespace leat
