// The links between the workers of one job that failed by themselves, as the runners at their ends
// reported, and the decision which workers must leave so that the others can continue.
//
// * A link that carried nothing is lost. One of its two workers leaves: the one that has fewer
// working
//   links, and among equals the one with the higher name. The other keeps its memory.
// * A link that was closed, or whose bytes arrived damaged, blames no worker: all stay and connect
//   again. The third time within ten minutes it counts as lost.
//
// Threads: one.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/clock.h"
#include "transport/link_fault.h"

namespace leat {

class LostLinks {
 public:
  static constexpr size_t kMostBroken = 3;
  static constexpr std::chrono::minutes kWindow{10};
  // Reports that are farther from the failure of a run than this, before or after, do not explain
  // it.
  static constexpr std::chrono::seconds kRelevant{5};

  struct Verdict {
    std::vector<std::string> go;  // workers that must leave, in the order of the decisions
    std::string text;             // "'w2' goes; the link between 'w1' and 'w2' was lost: why"
  };

  void add(const std::string& worker, const std::string& peer, LinkFault fault, std::string how,
           Clock::Steady now);
  // Decides on the recent reports of links between two of `workers`, and forgets them. Returns
  // nothing if there are none. `known`: facts that the text need not repeat.
  std::optional<Verdict> judge(const std::vector<std::string>& workers, std::string_view known,
                               Clock::Steady now);
  // True if a recent report says lost or damaged: the end of a process at the other end cannot
  // explain that.
  bool are_at_fault(Clock::Steady now) const;
  // Another assembly begins, with new links. The counts of broken links stay.
  void renew() { reports_.clear(); }

 private:
  using Pair = std::pair<std::string, std::string>;  // ascending
  struct LinkReport {
    LinkFault fault = LinkFault::lost;
    std::string how;
    Clock::Steady at;
  };

  bool counts_as_lost(const Pair& pair, const LinkReport& report);

  std::map<Pair, LinkReport> reports_;  // the worst report of each link
  std::map<Pair, std::deque<Clock::Steady>> broken_;
};

// The workers to remove so that no link of `lost` is left between two that stay; by the rule above.
std::vector<std::string> workers_to_leave(std::set<std::pair<std::string, std::string>> lost);

}  // namespace leat
