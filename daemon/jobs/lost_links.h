// Links between the workers of one job that failed by themselves, as the runners at their ends
// said, and what to make of it: who goes, so that the others can go on.
//
// * A link on which nothing came through is lost. One of its two workers goes: who is left with the
//   fewest links, and of those that have as many the one of the higher name. The other keeps what
//   it has in memory.
// * A link that was closed, or whose bytes arrived damaged, is nobody's fault: all stay and connect
//   anew. The third time within ten minutes it counts as lost.
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
  // What was said so long before a run failed, or after, has nothing to do with it.
  static constexpr std::chrono::seconds kRelevant{5};

  struct Verdict {
    std::vector<std::string> go;  // workers, the first decided on first; may be empty
    std::string text;             // "'w2' goes; the link between 'w1' and 'w2' was lost: why"
  };

  void add(const std::string& worker, const std::string& peer, LinkFault fault, std::string how,
           Clock::Steady now);
  // Nothing if none of those that were said lately is between two of `workers`. What it was made of
  // is used up. `known`: what the text need not say once more.
  std::optional<Verdict> judge(const std::vector<std::string>& workers, std::string_view known,
                               Clock::Steady now);
  // One of those that were said lately was lost or damaged: more than what the end of a process at
  // its other end would do to it.
  bool are_at_fault(Clock::Steady now) const;
  // Another assembly, with other links. How often each was broken stays known.
  void renew() { said_.clear(); }

 private:
  using Pair = std::pair<std::string, std::string>;  // ascending
  struct Said {
    LinkFault fault = LinkFault::lost;
    std::string how;
    Clock::Steady at;
  };

  bool counts_as_lost(const Pair& pair, const Said& said);

  std::map<Pair, Said> said_;  // the worst of each
  std::map<Pair, std::deque<Clock::Steady>> broken_;
};

// The workers to remove so that no link of `lost` is left between two that stay; by the rule above.
std::vector<std::string> workers_to_leave(std::set<std::pair<std::string, std::string>> lost);

}  // namespace leat
