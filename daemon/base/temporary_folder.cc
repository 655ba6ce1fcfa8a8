#include "daemon/base/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "devices/base/text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLock = "/.lock";
// The lock that older versions held in the folder of `leatd dev`.
constexpr std::string_view kOlderLock = "/master/journal.lock";
// The letters that mkdtemp() puts in the place of the six X.
constexpr size_t kRandomLetters = 6;

// $TMPDIR if that is a folder, otherwise /tmp.
fs::path parent_folder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  return error ? "/tmp" : parent;
}

// True if the lock exists and no process holds it.
bool is_let_go(const std::string& lock) {
  const Descriptor file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// Anybody may make such a name in /tmp, also a link to a folder of this user, so the entry itself
// must be a folder of this user.
bool is_own_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

// Removes the folders of this user's killed processes. A folder without a lock stays, since its
// process may be about to take the lock.
void remove_left_folders(const fs::path& parent, const std::string& name) {
  const std::string start = name + "-";
  std::error_code gone;
  for (auto at = fs::directory_iterator(parent, gone); !gone && at != fs::directory_iterator();
       at.increment(gone)) {
    const std::string each = at->path().filename().string(), path = at->path().string();
    if (!each.starts_with(start) || each.size() != start.size() + kRandomLetters) continue;
    if (!is_own_folder(path)) continue;
    // A folder that cannot be removed stays for the next process.
    std::error_code ignored;
    if (is_let_go(cat(path, kLock)) || is_let_go(cat(path, kOlderLock)))
      fs::remove_all(path, ignored);
  }
}

}  // namespace

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::make(const std::string& name) {
  const fs::path parent = parent_folder();
  // A killed process cannot clean up, so the next one does it.
  remove_left_folders(parent, name);
  std::string path = (parent / (name + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return failed_precondition(cat("cannot make the folder '", path, "': ", std::strerror(errno)));
  // The object exists before the lock is taken, so that its destructor removes the folder if that
  // fails.
  std::unique_ptr<TemporaryFolder> folder(new TemporaryFolder(std::move(path)));
  LEAT_RETURN_IF_ERROR(folder->hold());
  return folder;
}

// Locks the file before it gets its name, so that other processes never see it unlocked.
Status TemporaryFolder::hold() {
  const std::string lock = cat(path_, kLock), fresh = lock + ".new";
  // The system drops the lock when the process ends, however it ends.
  lock_ = Descriptor(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool held = lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 &&
                    ::rename(fresh.c_str(), lock.c_str()) == 0;
  if (held) return {};
  return failed_precondition(cat("cannot lock '", lock, "': ", std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace leat
