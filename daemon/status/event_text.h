// The text form of server-sent events, as the HTML standard defines it: `text/event-stream`.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// Returns an event. `name` and `id` have one line and may be empty: such a field is left out. Each
// line of `data` becomes a field of its own; a newline at its end is left out.
std::string event_text(std::string_view name, std::string_view id, std::string_view data);

}  // namespace leat
