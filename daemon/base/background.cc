#include "daemon/base/background.h"

#include <sys/resource.h>
#include <unistd.h>

namespace leat {
namespace {

// With 10, it takes a tenth of a core from steps that leave no more, and they wait for each other.
constexpr int kNice = 15;

}  // namespace

// On Linux a thread has a nice value of its own. That it stays as it was costs time alone.
void work_in_background() {
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace leat
