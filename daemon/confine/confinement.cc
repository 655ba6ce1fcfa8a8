#include "daemon/confine/confinement.h"

#include "devices/base/text.h"

namespace leat {

std::string_view name_of(ConfineLayer layer) {
  switch (layer) {
    case ConfineLayer::user:
      return "own user";
    case ConfineLayer::calls:
      return "system calls";
    case ConfineLayer::limits:
      return "limits";
    case ConfineLayer::files:
      return "files";
    case ConfineLayer::root:
      return "own root";
    case ConfineLayer::processes:
      return "own processes";
    case ConfineLayer::ipc:
      return "own ipc";
    case ConfineLayer::network:
      return "own network";
    case ConfineLayer::cgroup:
      return "cgroup";
  }
  return "";
}

bool is_mandatory(ConfineLayer layer) {
  return layer == ConfineLayer::user || layer == ConfineLayer::calls ||
         layer == ConfineLayer::limits;
}

std::string layers_text(const std::vector<LayerState>& layers) {
  std::string with, without;
  for (const LayerState& each : layers) {
    std::string& text = each.active ? with : without;
    text += cat(text.empty() ? "" : ", ", name_of(each.layer));
    if (!each.how.empty()) text += cat(" (", each.how, ")");
  }
  if (with.empty()) with = "nothing";
  return cat("confined by ", with, without.empty() ? "" : cat("; without ", without));
}

}  // namespace leat
