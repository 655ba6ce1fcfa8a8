#include "daemon/background.h"

#include <sys/resource.h>
#include <unistd.h>

namespace leat {
namespace {

constexpr int kNice = 10;

}  // namespace

// On Linux a thread has a nice value of its own. That it stays as it was costs time alone.
void work_in_background() {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace leat
