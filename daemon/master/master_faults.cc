#include "daemon/master/master_faults.h"

#include <unistd.h>

#include "daemon/chaos/commit_chaos.h"
#include "daemon/master/job_logs.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

MasterFaults::MasterFaults(const JobRunsParts& parts, const RunJob& action,
                           std::vector<ArmedFault> faults)
    : parts_(parts), action_(action), job_began_(SteadyClock::now() - action.ran) {
  for (ArmedFault& each : faults) {
    if (each.fault.target != ChaosTarget::master) continue;
    faults_.push_back({std::move(each), std::make_shared<std::atomic<bool>>(false)});
  }
}

void MasterFaults::on_step(uint64_t step) {
  if (faults_.empty()) return;
  const auto now = SteadyClock::now();
  for (const Armed& each : faults_) {
    const ChaosFault& fault = each.fault.fault;
    if (fault.step > 0 ? step < fault.step : now < job_began_ + fault.time) continue;
    if (each.asked->exchange(true)) continue;
    parts_.fault_due(
        {0, action_.job, action_.epoch, each.fault.index, to_string(fault)},
        [fault, asked = each.asked, job = action_.job, &logs = parts_.logs](const Status& status) {
          if (status.code() == Code::resource_exhausted) asked->store(false);
          if (!status.ok()) return;
          logs.add(job, "master", {cat("chaos: ", to_string(fault))}, [fault] {
            const pid_t self = ::getpid();
            commit_chaos(fault, {&self, 1});
          });
        });
  }
}

}  // namespace leat
