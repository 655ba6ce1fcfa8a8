#include "daemon/worker/machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "devices/base/text.h"

namespace leat {
namespace {

uint64_t namespace_number(const char* path) {
  struct stat found {};
  return stat(path, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return cat(boot, "/", namespace_number("/proc/self/ns/net"), "/",
             namespace_number("/proc/self/ns/mnt"));
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

}  // namespace leat
