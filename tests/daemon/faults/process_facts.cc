#include "tests/daemon/faults/process_facts.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "devices/base/text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// The content of a file of /proc; "" if its process has ended, which it may also do between the
// opening and the reading. Other ways to read a stream throw then.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

// Returns the letter after the name in parentheses; 'Z' also for a process that has ended.
char state_of(pid_t process) {
  const std::string stat = text_of(cat("/proc/", process, "/stat"));
  const size_t at = stat.rfind(')');
  return at == std::string::npos || at + 2 >= stat.size() ? 'Z' : stat[at + 2];
}

}  // namespace

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(cat("/proc/", parent, "/task"), gone)) {
    std::istringstream words(text_of(task.path() / "children"));
    for (pid_t child; words >> child;) {
      if (state_of(child) != 'Z') children.push_back(child);
    }
  }
  return children;
}

size_t open_descriptors(pid_t process) {
  size_t count = 0;
  std::error_code gone;
  for ([[maybe_unused]] const auto& each :
       fs::directory_iterator(cat("/proc/", process, "/fd"), gone)) {
    ++count;
  }
  return count;
}

size_t resident_bytes(pid_t process) {
  std::istringstream words(text_of(cat("/proc/", process, "/statm")));
  size_t all = 0, resident = 0;
  words >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

double processor_seconds(pid_t process) {
  const std::string stat = text_of(cat("/proc/", process, "/stat"));
  const size_t at = stat.rfind(')');
  if (at == std::string::npos) return 0;
  std::istringstream words(stat.substr(at + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;  // state to cmajflt
  double user = 0, system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string describe_descriptors(pid_t process) {
  std::string text;
  std::error_code gone;
  for (const auto& each : fs::directory_iterator(cat("/proc/", process, "/fd"), gone)) {
    std::error_code closed;
    text +=
        cat(each.path().filename().string(), " ", fs::read_symlink(each, closed).string(), "\n");
  }
  return text;
}

}  // namespace leat
