#include "daemon/worker/process_usage.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace leat {
namespace {

// The fields of /proc/PID/stat from the third one on, the state: see proc(5). The second one, the
// name of the program in parentheses, may have any characters. Empty if there is no such process.
std::istringstream fields_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : line.substr(name_end + 1));
}

}  // namespace

// utime and stime are fields 14 and 15, rss is field 24.
WorkerUsage usage_of(pid_t pid) {
  std::istringstream fields = fields_of(pid);
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

char state_of(pid_t pid) {
  char state = '?';
  fields_of(pid) >> state;
  return state;
}

}  // namespace leat
