// How a link between two runners can fail by itself, for who has nothing else to do with links.
#pragma once

#include <cstdint>
#include <string_view>

namespace leat {

// The run was aborted on neither side.
enum class LinkFault : uint8_t {
  none,
  closed,   // by the peer's end, which did not say why
  lost,     // nothing came through in time
  damaged,  // bytes arrived that are not those that were sent
};
std::string_view name_of(LinkFault fault);  // "lost"

}  // namespace leat
