// How a link between two runners can fail by itself. Separate from link.h, for code that has
// nothing else to do with links.
#pragma once

#include <cstdint>
#include <string_view>

namespace leat {

// The first failure of a link, if neither side aborted the run.
enum class LinkFault : uint8_t {
  none,
  closed,   // the peer's end closed and did not say why
  lost,     // nothing came through in time
  damaged,  // bytes arrived other than they were sent
};
// "none", "closed", "lost", "damaged".
std::string_view name_of(LinkFault fault);

}  // namespace leat
