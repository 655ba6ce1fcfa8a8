// The kinds of wires between GPUs, as lists of words in messages. A word of a later version is left
// out: both ends only use a kind that each of them knows. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/list.h>

#include <vector>

#include "devices/core/device_wire.h"

namespace leat {

inline void write_wires(const std::vector<WireKind>& wires, capnp::List<capnp::Text>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, name_of(wires[i]).data());
}

inline std::vector<WireKind> read_wires(capnp::List<capnp::Text>::Reader in) {
  std::vector<WireKind> wires;
  for (const auto word : in) {
    if (const auto kind = find_wire_kind({word.cStr(), word.size()})) wires.push_back(*kind);
    if (wires.size() > 1) break;  // there are two kinds
  }
  return wires;
}

}  // namespace leat
