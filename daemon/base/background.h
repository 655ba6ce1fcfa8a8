// Low priority for threads that work beside steps, because steps have the first claim on the cores.
#pragma once

namespace leat {

// Lowers the priority of this thread, and of those that it starts from now on: they get the time
// that other threads leave, and about a thirtieth of a core if those leave none. Without privileges
// this cannot be undone, so never call it on a thread that runs steps.
void work_in_background();

}  // namespace leat
