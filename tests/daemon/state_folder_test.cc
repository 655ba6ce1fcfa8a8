// Files that daemons write belong to their user alone, whatever the umask and the files that were
// there before.
#include "daemon/process/state_folder.h"

#include <sys/stat.h>

#include <filesystem>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr auto kOfOthers = fs::perms::group_all | fs::perms::others_all;

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }

 private:
  const mode_t before_;
};

// Returns the paths in the folder, and the folder itself, that other users have any access to.
std::string open_to_others(const fs::path& folder) {
  std::string found;
  const auto look = [&](const fs::path& path) {
    const auto status = fs::symlink_status(path);
    if (fs::is_symlink(status) || (status.permissions() & kOfOthers) == fs::perms::none) return;
    found += path.string() + "\n";
  };
  look(folder);
  for (const auto& each : fs::recursive_directory_iterator(folder)) look(each.path());
  return found;
}

TEST_CASE("only their user can read files of daemons and runners, whatever the umask") {
  const Umask open(0);
  JobScene scene(3);
  const std::string id = scene.submit(scene.job(120));
  const JobView end = scene.await_end(id);
  CHECK(end.condition.state == JobState::succeeded);
  const fs::path master = scene.cluster().folder() / "master";
  CHECK(fs::exists(master / "jobs" / id / "checkpoints/step-00000120/manifest.json"));
  CHECK(open_to_others(master) == "");
  for (int i = 0; i < 3; ++i) CHECK(open_to_others(scene.cluster().folder() / cat("w", i)) == "");
}

TEST_CASE("a folder that was open to others is taken from them, and the log says so") {
  TemporaryDirectory folder;
  const std::string old = folder / "old";
  fs::create_directory(old);
  fs::permissions(old, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  CHECK(must(take_state_folder(old)) ==
        cat("state_dir '", old, "' was open to others, mode 0744; it is 0700 now"));
  CHECK(fs::status(old).permissions() == fs::perms::owner_all);
  CHECK(must(take_state_folder(old)).empty());
  const Umask open(0);
  CHECK(must(take_state_folder(folder / "a/new")).empty());
  CHECK(fs::status(folder / "a/new").permissions() == fs::perms::owner_all);
  CHECK(take_state_folder("/proc/version/state").status().code() == Code::failed_precondition);
}

TEST_CASE("a master and a worker take their old folders from others as they start") {
  TemporaryDirectory folder;
  for (const char* name : {"master", "worker"}) {
    fs::create_directory(folder / name);
    fs::permissions(folder / name, fs::perms::all);
  }
  LeatdProcess master(
      {"master", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir", folder / "master"});
  LeatdProcess worker({"worker", "--master", master.ready().listen, "--http", "off", "--data",
                       "127.0.0.1:0", "--state-dir", folder / "worker"});
  (void)worker.ready();
  for (const LeatdProcess* each : {&master, &worker})
    CHECK_THAT(each->log(), Catch::Contains("was open to others, mode 0777; it is 0700 now"));
  CHECK(open_to_others(folder / "master") == "");
  CHECK(open_to_others(folder / "worker") == "");
}

}  // namespace
}  // namespace leat
