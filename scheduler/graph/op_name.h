// Asks for ops by name without making a string for each node.
#pragma once

#include <string_view>

#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// True if `op` is the op that catalogues know by that full name, "Relu" or "leat.Read".
inline bool is_op(const OpDef& op, std::string_view full_name) {
  if (op.domain.empty()) return full_name == op.name;
  return full_name.size() == op.domain.size() + 1 + op.name.size() &&
         full_name.starts_with(op.domain) && full_name[op.domain.size()] == '.' &&
         full_name.ends_with(op.name);
}
inline bool is_op(const Node& node, std::string_view full_name) {
  return is_op(*node.op, full_name);
}

}  // namespace leat
