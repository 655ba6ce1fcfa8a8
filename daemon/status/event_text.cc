#include "daemon/status/event_text.h"

namespace leat {

std::string event_text(std::string_view name, std::string_view id, std::string_view data) {
  std::string text;
  const auto add = [&text](std::string_view field, std::string_view value) {
    text.append(field).append(": ").append(value) += '\n';
  };
  if (!name.empty()) add("event", name);
  if (!id.empty()) add("id", id);
  if (data.ends_with('\n')) data.remove_suffix(1);
  for (;;) {
    const size_t end = data.find('\n');
    add("data", data.substr(0, end));
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + 1);
  }
  return text += '\n';
}

}  // namespace leat
