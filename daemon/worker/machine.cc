#include "daemon/worker/machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "devices/base/text.h"

namespace leat {
namespace {

// The inode of a namespace tells it from others. A file that cannot be read counts as 0.
uint64_t namespace_number(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

std::string machine_id() {
  // Containers on one machine have the same boot id. In other namespaces they may see neither each
  // other's unix sockets nor each other's shared memory.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return cat(boot, "/", namespace_number("/proc/self/ns/net"), "/",
             namespace_number("/proc/self/ns/mnt"));
}

std::string host_name() {
  // The buffer stays terminated by zero, also when the kernel cuts a long name.
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

}  // namespace leat
