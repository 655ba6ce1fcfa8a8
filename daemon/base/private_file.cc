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

}  // namespace

// The file has a temporary name first. link() gives it its own name when it is whole, and fails if
// there is one. A process that dies before leaves a file that nothing uses.
Status make_private_file(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failed_to(temporary, "create");
  const auto publish = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(write_whole(file.get(), bytes, temporary));
    if (::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST)
      return failed_to(path, "create");
    return real_files().sync_directory(directory_of(path));
  };
  const Status published = publish();
  (void)real_files().remove_all(temporary);
  return published;
}

}  // namespace leat
