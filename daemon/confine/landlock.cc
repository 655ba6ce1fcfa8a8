#include "daemon/confine/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

// Debian 12's header ends at version 2; these are those of later versions.
constexpr uint64_t kTruncate = uint64_t{1} << 14, kIoctlDevice = uint64_t{1} << 15;
constexpr uint64_t kBindTcp = uint64_t{1} << 0;
constexpr uint64_t kScopeAbstractSockets = uint64_t{1} << 0, kScopeSignals = uint64_t{1} << 1;

// The attributes of a ruleset up to version 6.
struct RulesetAttributes {
  uint64_t files, network, scoped;
};

uint64_t handled_files(int version) {
  uint64_t handled = (uint64_t{1} << 13) - 1;  // those of version 1
  if (version >= 2) handled |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) handled |= kTruncate;
  if (version >= 5) handled |= kIoctlDevice;
  return handled;
}

uint64_t rights_of(FileRight right, bool is_folder) {
  const uint64_t list = is_folder ? LANDLOCK_ACCESS_FS_READ_DIR : 0;
  switch (right) {
    case FileRight::read:
      return LANDLOCK_ACCESS_FS_READ_FILE | list;
    case FileRight::device:
      return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kIoctlDevice | list;
    case FileRight::room:
      return LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE | list;
  }
  return 0;
}

}  // namespace

Result<int> landlock_version() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  if (version > 0) return static_cast<int>(version);
  if (errno == ENOSYS) return unavailable("the kernel has no Landlock");
  if (errno == EOPNOTSUPP) return unavailable("Landlock is not in the kernel's list 'lsm='");
  return unavailable(cat("Landlock: ", std::strerror(errno)));
}

Result<std::vector<std::string>> restrict_files(const std::vector<FileRule>& rules) {
  LEAT_ASSIGN_OR_RETURN(const int version, landlock_version());
  RulesetAttributes attributes{handled_files(version), 0, 0};
  size_t size = sizeof attributes.files;
  if (version >= 4) attributes.network = kBindTcp, size = 2 * sizeof(uint64_t);
  if (version >= 6)
    attributes.scoped = kScopeAbstractSockets | kScopeSignals, size = sizeof attributes;
  const Descriptor ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return system_error("Landlock: making a ruleset", errno);
  std::vector<std::string> left_out;
  for (const FileRule& rule : rules) {
    const int fd = ::open(rule.path.c_str(), O_PATH | O_CLOEXEC);
    struct stat about {};
    if (fd < 0 || ::fstat(fd, &about) != 0) {
      if (fd >= 0) ::close(fd);
      left_out.push_back(cat("'", rule.path, "': ", std::strerror(errno)));
      continue;
    }
    const uint64_t rights = rights_of(rule.right, S_ISDIR(about.st_mode)) & attributes.files;
    landlock_path_beneath_attr beneath{rights, fd};
    const long added =
        ::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    const int error = errno;
    // A rule is about an inode. Those of /proc are made anew when the kernel drops their entry; an
    // open descriptor keeps it, so these stay open as long as the process.
    if (!rule.path.starts_with("/proc")) ::close(fd);
    if (added != 0) return system_error(cat("Landlock: adding '", rule.path, "'"), error);
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return system_error("Landlock: restricting this process", errno);
  return left_out;
}

}  // namespace leat
