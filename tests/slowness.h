// What promised times are multiplied by where they are measured. Deadlines that nothing measures
// need no factor: those are so long that only what never happens misses them.
#pragma once

namespace leat {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlowness = 10;
#else
inline constexpr int kSlowness = 1;
#endif

}  // namespace leat
