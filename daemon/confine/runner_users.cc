#include "daemon/confine/runner_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "devices/base/text.h"

namespace leat {
namespace {

// Above the accounts of people and the users of systemd, below the ranges of /etc/subuid.
constexpr uint32_t kUsual = 70'000, kLow = 60'600, kCount = 1'000, kLowCount = 512;
constexpr mode_t kPassThrough = 0711;

// Makes a folder of this user that others can only pass through.
Status make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(cat("'", path, "'"), errno);
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) return system_error(cat("'", path, "'"), errno);
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid())
    return failed_precondition(cat("'", path, "': expected a folder of this user"));
  if ((about.st_mode & 07777) != kPassThrough && ::chmod(path.c_str(), kPassThrough) != 0)
    return system_error(cat("'", path, "'"), errno);
  return {};
}

// A file with an exclusive lock; unavailable if another process holds it.
Result<Descriptor> locked_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error(cat("'", path, "'"), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return system_error(cat("'", path, "'"), errno);
  return file;
}

// The same, but waits for a sweep() that looks at the file, and makes it anew if that removed it.
// Another worker of the same state folder is kept out by the lock of that folder.
Result<Descriptor> own_lock(const std::string& path) {
  while (true) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat held {
    }, there{};
    if (!file || ::flock(file.get(), LOCK_EX) != 0 || ::fstat(file.get(), &held) != 0)
      return system_error(cat("'", path, "'"), errno);
    if (::stat(path.c_str(), &there) == 0 && there.st_ino == held.st_ino) return file;
  }
}

// True if the namespace of this process has all numbers of the range.
bool has_numbers(const char* map, UserRange range) {
  std::ifstream in(map);
  for (uint64_t inside = 0, outside = 0, count = 0; in >> inside >> outside >> count;) {
    if (inside <= range.first && uint64_t{range.first} + range.count <= inside + count) return true;
  }
  return false;
}

// FNV-1a, for a name of fixed length that follows from the folder.
std::string name_for(const std::string& folder) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : folder) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// Removes the rooms of workers that live no more.
void sweep(const std::string& parent) {
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator(parent, ignored)) {
    if (!each.is_directory(ignored)) continue;
    const auto lock = locked_file(each.path().string() + ".lock");
    if (!lock.ok()) continue;
    std::filesystem::remove_all(each.path(), ignored);
    std::filesystem::remove(each.path().string() + ".lock", ignored);
  }
}

}  // namespace

Result<std::string> shared_path() {
  const char* given = std::getenv("RUNTIME_DIRECTORY");
  std::string folder = given ? given : "";
  folder = folder.substr(0, folder.find(':'));
  if (folder.empty() && ::geteuid() == 0) folder = "/run/leat";
  if (folder.empty())
    return failed_precondition("expected RuntimeDirectory= of the unit, or to run as root");
  return folder;
}

Result<std::string> shared_folder() {
  LEAT_ASSIGN_OR_RETURN(const std::string folder, shared_path());
  LEAT_RETURN_IF_ERROR(make_folder(folder));
  for (const char* below : {"/users", "/rooms"}) LEAT_RETURN_IF_ERROR(make_folder(folder + below));
  return folder;
}

std::string rooms_path(const std::string& shared, const std::string& state_folder) {
  return cat(shared, "/rooms/", name_for(state_folder));
}

Result<RunnerRooms> make_rooms(const std::string& shared, const std::string& state_folder) {
  sweep(shared + "/rooms");
  RunnerRooms rooms;
  rooms.path = rooms_path(shared, state_folder);
  LEAT_ASSIGN_OR_RETURN(rooms.lock, own_lock(rooms.path + ".lock"));
  std::error_code error;
  std::filesystem::remove_all(rooms.path, error);
  LEAT_RETURN_IF_ERROR(make_folder(rooms.path));
  return rooms;
}

Status may_change_users() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return system_error("capabilities", errno);
  const std::pair<int, const char*> needed[] = {{CAP_SETUID, "CAP_SETUID"},
                                                {CAP_SETGID, "CAP_SETGID"},
                                                {CAP_KILL, "CAP_KILL"},
                                                {CAP_CHOWN, "CAP_CHOWN"}};
  std::string missing;
  for (const auto& [bit, name] : needed) {
    if ((data[0].effective >> bit & 1) == 0) missing += cat(missing.empty() ? "" : ", ", name);
  }
  if (missing.empty()) return {};
  return failed_precondition(cat("the worker is not root and lacks ", missing));
}

Result<RunnerUsers> RunnerUsers::open(UserRange range, const std::string& shared) {
  LEAT_RETURN_IF_ERROR(may_change_users());
  const auto are_there = [](UserRange r) {
    return has_numbers("/proc/self/uid_map", r) && has_numbers("/proc/self/gid_map", r);
  };
  if (range.first == 0) {
    range = {kUsual, kCount};
    if (!are_there(range)) range = {kLow, kLowCount};
  }
  if (!are_there(range)) {
    return failed_precondition(cat("expected the users ", range.first, " to ",
                                   range.first + range.count - 1,
                                   " in the worker's user namespace"));
  }
  return RunnerUsers(range, shared + "/users");
}

Result<RunnerUser> RunnerUsers::take() {
  // Round, so that a number comes again late.
  for (uint32_t tried = 0; tried < range_.count; ++tried) {
    const uint32_t number = range_.first + next_++ % range_.count;
    Result<Descriptor> lock = locked_file(cat(folder_, "/", number));
    if (lock.ok()) return RunnerUser(number, std::move(*lock));
  }
  return resource_exhausted(cat("expected a free user from ", range_.first, " to ",
                                range_.first + range_.count - 1, ", all are in use"));
}

void end_user(uint32_t user, const std::string& directory) {
  // A copy of this process with that user's rights: kill() then reaches that user's processes
  // alone, and its folders can be opened. Only system calls are made in it, since this process has
  // threads.
  const pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    const auto id = static_cast<uid_t>(user);
    if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, id, id, id) != 0 ||
        ::syscall(SYS_setresuid, id, id, id) != 0)
      ::_exit(1);
    // A worker that is not root keeps its capabilities through the change, and with CAP_KILL every
    // process of the machine would be in reach.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    if (::syscall(SYS_capset, &header, none) != 0) ::_exit(1);
    const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder >= 0) (void)::unlinkat(folder, "peers", 0);
    ::kill(-1, SIGKILL);  // itself excepted
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace leat
