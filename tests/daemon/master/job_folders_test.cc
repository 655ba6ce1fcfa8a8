// The lists of the files of jobs that a master gives to clients.
#include "daemon/master/job_folders.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

// Counts how often a folder is opened to be listed.
class WatchedFolder {
 public:
  explicit WatchedFolder(const std::string& path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(::inotify_add_watch(fd_, path.c_str(), IN_OPEN | IN_ONLYDIR) >= 0);
  }
  ~WatchedFolder() { ::close(fd_); }
  WatchedFolder(const WatchedFolder&) = delete;
  WatchedFolder& operator=(const WatchedFolder&) = delete;

  // Since the last call.
  int lists() {
    int count = 0;
    alignas(inotify_event) std::array<char, 65536> buffer;
    for (ssize_t got; (got = ::read(fd_, buffer.data(), buffer.size())) > 0;) {
      for (ssize_t at = 0; at < got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if ((event->mask & IN_ISDIR) != 0 && event->len == 0) ++count;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    REQUIRE(errno == EAGAIN);
    return count;
  }

 private:
  const int fd_;
};

TEST_CASE("a list of a job's files walks its folder once, however many are encrypted") {
  const TemporaryDirectory dir;
  const JobFolders folders(dir / "jobs");
  const std::vector<std::string> secret = {std::string(32, 'k')};
  SealedFiles files(real_files(), must(make_checkpoint_keys(secret)),
                    RunFolders::of_jobs(folders.path()));
  const std::string saved = folders.saved_of("a-0001");
  must(files.make_directories(saved));
  constexpr int kFiles = 30;
  for (int i = 0; i < kFiles; ++i)
    must(write_file_atomically(files, cat(saved, "/v", i), Bytes(1000)));
  must(write_file_atomically(real_files(), saved + "/plain", Bytes(1000)));
  must(write_file_atomically(files, folders.path_of("a-0001") + "/job.yaml", Bytes(7)));
  WatchedFolder watched(folders.path_of("a-0001")), below(saved);
  const auto list = folders.fetched_files("a-0001", files);
  CHECK(watched.lists() == 1);
  CHECK(below.lists() == 1);
  REQUIRE(list.size() == kFiles + 2);
  // The sizes that clients fetch.
  for (const JobFile& each : list) CHECK(each.size == (each.name == "job.yaml" ? 7 : 1000));
  for (const JobFile& each : folders.files("a-0001"))
    CHECK((each.size > 1000) == each.name.starts_with("saved/v"));
}

}  // namespace
}  // namespace leat
