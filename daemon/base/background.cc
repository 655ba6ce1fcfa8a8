#include "daemon/base/background.h"

#include <sys/resource.h>
#include <unistd.h>

namespace leat {
namespace {

// With nice 10, such a thread takes a tenth of a core from steps that use all cores, and steps wait
// for their slowest part.
constexpr int kNice = 15;

}  // namespace

// On Linux, each thread has its own nice value. If the call fails, steps are only slower.
void work_in_background() {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace leat
