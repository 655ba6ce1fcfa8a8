#include "devices/base/cuda_architectures.h"

#include <algorithm>
#include <cctype>

#include "devices/base/text.h"

namespace leat {
namespace {

bool one_runs_on(std::string_view name, int capability) {
  const std::string_view kind = name.substr(std::min(name.find('-'), name.size()));
  name = name.substr(0, name.size() - kind.size());
  int built_for = 0;
  size_t digits = 0;
  for (; digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits])); ++digits)
    built_for = 10 * built_for + (name[digits] - '0');
  if (digits < name.size()) return capability == built_for;  // a letter binds it to one model
  // Code for one architecture runs on the newer ones of its major number; code that the driver
  // compiles runs on all newer ones.
  return capability >= built_for && (kind != "-real" || capability / 10 == built_for / 10);
}

}  // namespace

bool runs_on(std::string_view architectures, int capability) {
  if (architectures.empty()) return true;
  while (!architectures.empty()) {
    const size_t end = std::min(architectures.find(','), architectures.size());
    if (one_runs_on(architectures.substr(0, end), capability)) return true;
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
  }
  return false;
}

std::string capability_text(int capability) { return cat(capability / 10, ".", capability % 10); }

}  // namespace leat
