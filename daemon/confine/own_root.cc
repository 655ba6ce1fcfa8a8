#include "daemon/confine/own_root.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>

#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

// A mount that is nowhere yet, and whether it is a folder.
struct LooseMount {
  Descriptor mount;
  bool is_folder = false;
};

// A user namespace in which the worker's user is `user`: file systems that are mounted with it show
// the files of the one as those of the other.
Result<Descriptor> users_map(const std::string& proc, uint32_t user) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return system_error("a pipe", errno);
  const Descriptor end(pipe[0]);
  Descriptor begin(pipe[1]);
  // A namespace lives as long as a process in it or a descriptor of it. This process has one
  // thread, so its copy may do all.
  const auto child = static_cast<pid_t>(
      ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) return system_error("a user namespace", errno);
  if (child == 0) {
    begin = Descriptor();
    char byte;
    (void)!::read(end.get(), &byte, 1);
    ::_exit(0);
  }
  const std::string folder = cat(proc, "/", child, "/");
  const auto write_map = [&](const char* name, uint32_t from) {
    std::ofstream(folder + name) << from << " " << user << " 1\n";
  };
  write_map("uid_map", ::geteuid());
  write_map("gid_map", ::getegid());
  Descriptor found(::open((folder + "ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  begin = Descriptor();
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!found) return system_error("a user namespace", error);
  return found;
}

// Copies the mounts at and below `path`.
Result<LooseMount> copy_mount(const std::string& path) {
  LooseMount loose;
  loose.mount = Descriptor(
      ::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  struct stat about {};
  if (!loose.mount || ::fstat(loose.mount.get(), &about) != 0)
    return system_error(cat("mounting '", path, "'"), errno);
  loose.is_folder = S_ISDIR(about.st_mode);
  return loose;
}

bool set_attributes(const LooseMount& loose, mount_attr attributes) {
  return ::mount_setattr(loose.mount.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                         sizeof attributes) == 0;
}

Status close_down(const LooseMount& loose, const ShownPath& path, const Descriptor& users) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_NOSUID;
  if (path.as != Shown::device) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if (path.as != Shown::programs && path.as != Shown::system)
    attributes.attr_set |= MOUNT_ATTR_NOEXEC;
  if (path.as != Shown::device && path.as != Shown::room) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if (!set_attributes(loose, attributes))
    return system_error(cat("closing '", path.path, "'"), errno);
  if (!users || (path.as != Shown::data && path.as != Shown::programs)) return {};
  mount_attr mapped{};
  mapped.attr_set = MOUNT_ATTR_IDMAP;
  mapped.userns_fd = static_cast<uint64_t>(users.get());
  // Some file systems cannot: there the runner reads what any user may read.
  (void)set_attributes(loose, mapped);
  return {};
}

// Makes the folders above `path`.
Status make_parents(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (::mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST)
      return system_error(cat("making '", path.substr(0, at), "'"), errno);
  }
  return {};
}

Status place(const LooseMount& loose, const std::string& at) {
  LEAT_RETURN_IF_ERROR(make_parents(at));
  struct stat there {};
  if (::stat(at.c_str(), &there) == 0) {
    // Below a path that was placed before.
  } else if (loose.is_folder) {
    if (::mkdir(at.c_str(), 0755) != 0) return system_error(cat("making '", at, "'"), errno);
  } else {
    const Descriptor file(::open(at.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    if (!file) return system_error(cat("making '", at, "'"), errno);
  }
  if (::move_mount(loose.mount.get(), "", AT_FDCWD, at.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return system_error(cat("mounting '", at, "'"), errno);
  return {};
}

// The target of a symbolic link; empty if the path is none.
std::string target_of(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

Status mount_proc(const std::string& at) {
  (void)::mkdir(at.c_str(), 0555);
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  // Processes of other users are hidden, too; older kernels know the number alone.
  for (const char* options : {"hidepid=invisible", "hidepid=2", ""}) {
    if (::mount("proc", at.c_str(), "proc", kFlags, options) == 0) return {};
  }
  return system_error("mounting /proc", errno);
}

// No change here shows outside, nor one of outside here.
Status part_mounts() {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) return {};
  return system_error("parting mounts from the machine's", errno);
}

// Fills the new root at `root`, and makes it the root.
Status fill_and_enter(const std::vector<ShownPath>& paths, const std::string& root, uint32_t user,
                      std::vector<std::pair<ShownPath, LooseMount>>& mounts) {
  LEAT_RETURN_IF_ERROR(mount_proc(root + "/proc"));
  Descriptor users;
  if (user != 0) {
    LEAT_ASSIGN_OR_RETURN(users, users_map(root + "/proc", user));
  }
  for (const auto& [path, loose] : mounts) {
    LEAT_RETURN_IF_ERROR(close_down(loose, path, users));
    LEAT_RETURN_IF_ERROR(place(loose, root + path.path));
  }
  for (const ShownPath& path : paths) {
    const std::string target = target_of(path.path);
    if (target.empty() || path.as == Shown::data) continue;
    LEAT_RETURN_IF_ERROR(make_parents(root + path.path));
    if (::symlink(target.c_str(), (root + path.path).c_str()) != 0 && errno != EEXIST)
      return system_error(cat("linking '", path.path, "'"), errno);
  }
  mount_attr closed{};
  closed.attr_set = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(AT_FDCWD, root.c_str(), 0, &closed, sizeof closed) != 0)
    return system_error("closing the new root", errno);
  if (::chdir(root.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0)
    return system_error("entering the new root", errno);
  // The old root now lies on top of the new one.
  if (::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
    return system_error("leaving the old root", errno);
  return {};
}

}  // namespace

Status enter_own_root(const std::vector<ShownPath>& paths, const std::string& staging,
                      uint32_t user) {
  LEAT_RETURN_IF_ERROR(part_mounts());
  // The copies come first: the staging folder may hide one of the paths.
  std::vector<std::pair<ShownPath, LooseMount>> mounts;
  for (const ShownPath& path : paths) {
    if (!target_of(path.path).empty() && path.as != Shown::data) continue;
    Result<LooseMount> loose = copy_mount(path.path);
    if (loose.ok()) mounts.emplace_back(path, std::move(*loose));
  }
  if (::mount("leat-runner", staging.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "mode=0755,size=1m") != 0)
    return system_error("mounting a new root", errno);
  // The folders of the new root are for its user, too.
  const mode_t before = ::umask(022);
  const Status entered = fill_and_enter(paths, staging, user, mounts);
  ::umask(before);
  if (!entered.ok()) (void)::umount2(staging.c_str(), MNT_DETACH);
  return entered;
}

Status hide_in_root(const std::vector<std::string>& hidden) {
  LEAT_RETURN_IF_ERROR(part_mounts());
  LEAT_RETURN_IF_ERROR(mount_proc("/proc"));
  for (const std::string& path : hidden) {
    struct stat about {};
    if (::stat(path.c_str(), &about) != 0) continue;
    const bool hides = S_ISDIR(about.st_mode)
                           ? ::mount("none", path.c_str(), "tmpfs", MS_RDONLY | MS_NOSUID,
                                     "mode=0755,size=4k") == 0
                           : ::mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) == 0;
    if (!hides) return system_error(cat("hiding '", path, "'"), errno);
  }
  return {};
}

}  // namespace leat
