#include "daemon/base/private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "devices/base/files.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

Status failed_to(const std::string& path, const char* what) {
  const std::string text = cat("'", path, "': ", what, ": ", std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT ? resource_exhausted(text) : unavailable(text);
}

Status write_whole(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed_to(path, "write");
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return ::fsync(fd) == 0 ? Status() : failed_to(path, "fsync");
}

// Gives the file a name that no file has. False, with errno, if one has it (EEXIST) or it fails.
bool name_anew(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // Not every file system can do that.
  return errno == EINVAL && ::link(from.c_str(), to.c_str()) == 0;
}

// Gives the finished file its name.
Status publish(const std::string& from, const std::string& path, IfThere there) {
  if (there == IfThere::replace) {
    LEAT_RETURN_IF_ERROR(real_files().rename(from, path));
  } else if (!name_anew(from, path)) {
    if (errno != EEXIST) return failed_to(path, "create");
    if (there == IfThere::refuse)
      return invalid_argument(cat("'", path, "': expected a file that does not exist yet"));
  }
  return real_files().sync_directory(directory_of(path));
}

}  // namespace

Status write_private_file(const std::string& path, std::string_view bytes, IfThere there) {
  std::string temporary = path + ".tmp.XXXXXX";
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failed_to(temporary, "create");
  Status written = write_whole(file.get(), bytes, temporary);
  if (written.ok()) written = publish(temporary, path, there);
  // It is gone if it has the other name now.
  (void)::unlink(temporary.c_str());
  return written;
}

}  // namespace leat
