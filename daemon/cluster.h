// What a job runs on: a master that holds the job's workers.
#pragma once

#include "daemon/master.h"

namespace leat {

class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual Master& master() = 0;
};

}  // namespace leat
