#include <algorithm>
#include <iostream>
#include <thread>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/interrupt.h"
#include "daemon/cli/top_view.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kHomeAndClear = "\x1b[H\x1b[J";
constexpr std::chrono::milliseconds kLook{50};  // how soon Ctrl-C is noticed

Result<TopSample> take_sample(ClusterClient& client) {
  TopSample sample;
  LEAT_ASSIGN_OR_RETURN(sample.jobs, client.jobs());
  LEAT_ASSIGN_OR_RETURN(sample.nodes, client.nodes());
  LEAT_ASSIGN_OR_RETURN(sample.cluster, client.cluster());
  sample.at = std::chrono::steady_clock::now();
  return sample;
}

// Waits, unless Ctrl-C comes.
void rest(std::chrono::milliseconds time, const Interrupt& interrupt) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto now = end - time; now < end && !interrupt.requested();
       now = std::chrono::steady_clock::now())
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(end - now, kLook));
}

}  // namespace

int run_top(const TopCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const Interrupt interrupt;
  const bool redraws = !command.cluster.json && stdout_columns() > 0;
  auto before = take_sample(connection.client());
  if (!before.ok()) return connection.report(before.status(), About::cluster);
  for (uint64_t shown = 0;;) {
    rest(command.interval, interrupt);
    // Ctrl-C is the way to end it, and not a failure.
    if (interrupt.requested()) return kExitOk;
    auto after = take_sample(connection.client());
    if (!after.ok()) return connection.report(after.status(), About::cluster);
    if (redraws) std::cout << kHomeAndClear;
    std::cout << (command.cluster.json ? top_json(*before, *after)
                                       : top_text(*before, *after, stdout_columns()))
              << std::flush;
    if (++shown == command.count || (command.count == 0 && !redraws && !command.cluster.json))
      return kExitOk;
    before = std::move(after);
  }
}

}  // namespace leat
