// The attributes of leat.Save and leat.Restore, for their definitions and their kernels.
#pragma once

#include <string>
#include <vector>

#include "ops/graph/attrs.h"

namespace leat {

// The names of the tensors in the file, one for each operand.
inline std::vector<std::string> saved_names(const Attrs& attrs) {
  const auto found = attrs.find("names");
  const auto* names =
      found == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
  return names ? *names : std::vector<std::string>();
}

}  // namespace leat
