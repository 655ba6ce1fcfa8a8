#include "daemon/jobs/lost_links.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// The predicate of "the link between 'a' and 'b' ...".
std::string_view fault_text(LinkFault fault) {
  return fault == LinkFault::damaged  ? "carried damaged bytes"
         : fault == LinkFault::closed ? "was closed"
                                      : "was lost";
}

}  // namespace

// The greedy rule for a vertex cover: it removes the worker with the most lost links until no lost
// link is left. It need not be the smallest cover, but it is the same on every master.
std::vector<std::string> workers_to_leave(std::set<std::pair<std::string, std::string>> lost) {
  std::vector<std::string> go;
  while (!lost.empty()) {
    std::map<std::string, size_t> cut;  // peers that it does not reach
    for (const auto& [a, b] : lost) ++cut[a], ++cut[b];
    const auto worst = std::max_element(cut.begin(), cut.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first < b.first;
    });
    go.push_back(worst->first);
    std::erase_if(lost, [&](const auto& pair) {
      return pair.first == go.back() || pair.second == go.back();
    });
  }
  return go;
}

void LostLinks::add(const std::string& worker, const std::string& peer, LinkFault fault,
                    std::string how, Clock::Steady now) {
  if (worker == peer || fault == LinkFault::none) return;
  // Both ends of a link report. The pair is sorted, so they meet in one entry.
  const auto [at, fresh] =
      reports_.try_emplace(std::minmax(worker, peer), LinkReport{fault, how, now});
  LinkReport& report = at->second;
  // An old report belongs to an earlier failure, which the run survived.
  const bool old = now - report.at > kRelevant;
  // Of its two ends the one that was not told by the other knows more.
  const bool says_more = report.fault == LinkFault::closed && fault != LinkFault::closed;
  if (!fresh && (old || says_more)) report = {fault, std::move(how), now};
}

bool LostLinks::are_at_fault(Clock::Steady now) const {
  return std::any_of(reports_.begin(), reports_.end(), [&](const auto& each) {
    return each.second.fault != LinkFault::closed && now - each.second.at <= kRelevant;
  });
}

bool LostLinks::counts_as_lost(const Pair& pair, const LinkReport& report) {
  if (report.fault == LinkFault::lost) return true;
  // A closed or damaged link is forgiven twice within the window. The entry of this report is in
  // `times` already, so the queue is never empty below.
  std::deque<Clock::Steady>& times = broken_[pair];
  times.push_back(report.at);
  while (report.at - times.front() > kWindow) times.pop_front();
  return times.size() >= kMostBroken;
}

std::optional<LostLinks::Verdict> LostLinks::judge(const std::vector<std::string>& workers,
                                                   std::string_view known, Clock::Steady now) {
  const auto is_there = [&](const std::string& name) {
    return std::find(workers.begin(), workers.end(), name) != workers.end();
  };
  std::vector<std::string> texts;
  std::set<Pair> lost;
  // Reports are used once: what comes later belongs to the next failure. A link to a worker that
  // has no place any more explains nothing.
  for (const auto& [pair, report] : std::exchange(reports_, {})) {
    if (now - report.at > kRelevant || !is_there(pair.first) || !is_there(pair.second)) continue;
    const bool is_lost = counts_as_lost(pair, report);
    if (is_lost) lost.insert(pair);
    const bool again = is_lost && report.fault != LinkFault::lost;
    texts.push_back(cat("the link between '", pair.first, "' and '", pair.second, "' ",
                        fault_text(report.fault), again ? " once more" : ""));
    // The error of the run often repeats the report of one end word by word.
    if (known.find(report.how) == std::string_view::npos) texts.back() += ": " + report.how;
  }
  if (texts.empty()) return std::nullopt;
  Verdict verdict;
  verdict.go = workers_to_leave(std::move(lost));
  if (!verdict.go.empty()) {
    texts.insert(texts.begin(),
                 cat("'", join(verdict.go, "', '"), "'", verdict.go.size() == 1 ? " goes" : " go"));
  }
  verdict.text = join(texts, "; ");
  return verdict;
}

}  // namespace leat
