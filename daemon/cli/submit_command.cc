#include <iostream>

#include "daemon/chaos/chaos_fault.h"
#include "daemon/cli/attend.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/pack_job.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {

int run_submit(const SubmitCommand& command) {
  const ClusterOptions& options = command.cluster;
  if (report_missing("job file", command.job.file, options.color)) return kExitNoSuch;
  const auto job = load_job(command.job.file, command.job.overrides);
  if (!job.ok()) return report(job.status(), options.color);
  if (report_missing("graph file", job->model.graph, options.color)) return kExitNoSuch;
  if (!job->model.weights.empty() &&
      report_missing("weights file", job->model.weights, options.color)) {
    return kExitNoSuch;
  }
  for (const std::string& each : command.chaos) {
    const Status chaos = check_chaos(each, static_cast<uint32_t>(job->num_workers));
    if (!chaos.ok()) return report(chaos, options.color);
  }
  auto packed = pack_job(command.job, real_files());
  if (!packed.ok()) return report(packed.status(), options.color);
  packed->request.chaos = command.chaos;
  print_notes(packed->notes);

  ClusterConnection connection(options);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(); code != kExitOk) return code;
  auto view = connection.client().submit(packed->request);
  if (!view.ok()) {
    if (connection.over()) {
      std::cerr << "leat: given up before the master answered; 'leat ps' shows whether it took the "
                   "job\n";
    }
    return connection.report(view.status(), About::content);
  }
  if (!options.json) {
    std::cout << view->id << "\n" << std::flush;
  } else if (command.attend != Attend::follow) {
    std::cout << job_json(*view) << std::flush;
  }
  if (command.attend == Attend::no) return kExitOk;
  return attend_job(connection, std::move(view).value(), options, command.attend);
}

}  // namespace leat
