// A master on a disk that is full, or read-only: see bad_disk.sh.
#include <fstream>

#include "daemon/spec/job.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

TEST_CASE("a master on a full or read-only disk serves what it can read, and says what it cannot") {
  const SmallJob small(kTinyDense);
  std::ofstream(small.path("job.yaml")) << print_job(small.job());
  const Finished done = run_program("/bin/bash", small.path(),
                                    {LEAT_BAD_DISK_SCRIPT, LEAT_BINARY_DIRECTORY, small.path()}, {},
                                    std::chrono::seconds(180));
  INFO(done.out << done.err);
  if (done.exit_code == 77) WARN("skipped: no mount namespace can be had");  // ctest reads it
  CHECK((done.exit_code == 0 || done.exit_code == 77));
}

}  // namespace
}  // namespace leat
