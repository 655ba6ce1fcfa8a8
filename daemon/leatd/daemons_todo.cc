// Stands for the daemons until they are written: each definition goes when its own file comes.
#include "daemon/leatd/daemons.h"

namespace leat {

Status run_master(const MasterConfig&, Lifetime&, Logger) {
  return unimplemented("the master is not built yet");
}

Status run_dev(const DevConfig&, Lifetime&, Logger) {
  return unimplemented("dev is not built yet");
}

}  // namespace leat
