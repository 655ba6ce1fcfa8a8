#include "scheduler/graph/device_name.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

std::vector<std::string> split_name(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (true) {
    const size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to == std::string::npos ? to : to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

std::string task_of(const std::string& device) { return device.substr(0, device.rfind('/')); }

std::string short_name(const std::string& device) { return device.substr(device.rfind('/') + 1); }

bool matches_device(const std::string& constraint, const std::string& device) {
  // Most constraints of a planned graph are full names, so the comparison saves the work below.
  if (constraint.empty() || constraint == device) return true;
  const auto have = split_name(device, '/');
  // Each part of the constraint must be met by some part of the device's name. A part without a
  // number, or with "*" for it, is met by any number.
  for (const std::string& want : split_name(constraint, '/')) {
    if (want.empty() || want == "*") continue;
    const auto wanted = split_name(want, ':');
    const bool found = std::any_of(have.begin(), have.end(), [&](const std::string& part) {
      const auto parts = split_name(part, ':');
      if (parts[0] != wanted[0]) return false;
      return wanted.size() < 2 || wanted[1] == "*" || (parts.size() > 1 && parts[1] == wanted[1]);
    });
    if (!found) return false;
  }
  return true;
}

}  // namespace leat
