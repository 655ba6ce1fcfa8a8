#include "daemon/base/file_stamp.h"

#include <sys/stat.h>

#include "devices/base/text.h"

namespace leat {

std::string file_stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "";
  return cat(info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

}  // namespace leat
