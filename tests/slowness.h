// The factor for promised times on slow builds. Deadlines that no test measures need no factor,
// because they are far longer than any event.
#pragma once

namespace leat {

#if defined(LEAT_SANITIZED)
inline constexpr int kSlowness = 10;
#else
inline constexpr int kSlowness = 1;
#endif

}  // namespace leat
