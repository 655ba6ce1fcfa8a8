#include "daemon/worker/process_usage.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace leat {

WorkerUsage usage_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  // The name of the program, in parentheses, may have any characters: the rest is counted from its
  // end. See proc(5): utime and stime are fields 14 and 15, rss is field 24.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  uint64_t user = 0, system = 0, pages = 0;
  fields >> user >> system;
  for (int field = 16; field < 24; ++field) fields >> skipped;
  fields >> pages;
  if (!fields) return {};
  static const auto ticks = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {(user + system) * 1000 / ticks, pages * page};
}

}  // namespace leat
