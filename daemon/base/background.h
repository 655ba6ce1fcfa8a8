// Work beside steps, which have the first claim on the cores.
#pragma once

namespace leat {

// From here on this thread, and those that it starts, get what others leave, and about a thirtieth
// of a core where nobody leaves anything. There is no way back without privileges: not for a thread
// that steps.
void work_in_background();

}  // namespace leat
