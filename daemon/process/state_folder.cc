#include "daemon/process/state_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The mode of the folder, and the bits that count as its mode.
constexpr mode_t kOwn = 0700, kAll = 07777;

}  // namespace

Result<std::string> take_state_folder(const std::string& path) {
  struct stat info {};
  // The folder gets its mode when it is made, so it is never open to others.
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (!there) {
    LEAT_RETURN_IF_ERROR(real_files().make_directories(directory_of(path)));
    (void)::mkdir(path.c_str(), kOwn);
  }
  LEAT_RETURN_IF_ERROR(real_files().make_directories(path));  // its error names the obstacle
  if (::stat(path.c_str(), &info) != 0 || (info.st_mode & kAll) == kOwn) return std::string();
  const std::string was =
      cat("state_dir '", path, "' was open to others, mode ", permission_text(info.st_mode));
  // A daemon that cannot narrow the folder still starts: the text goes to its log as a warning.
  if (::chmod(path.c_str(), kOwn) == 0) return there ? cat(was, "; it is 0700 now") : std::string();
  return cat(was, ", and still is: ", std::strerror(errno));
}

std::string permission_text(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & kAll));
  return text;
}

}  // namespace leat
