#include "daemon/jobs/lost_links.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

std::string_view what_befell(LinkFault fault) {
  return fault == LinkFault::damaged  ? "carried damaged bytes"
         : fault == LinkFault::closed ? "was closed"
                                      : "was lost";
}

}  // namespace

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
  const auto [at, fresh] =
      reports_.try_emplace(std::minmax(worker, peer), LinkReport{fault, how, now});
  LinkReport& report = at->second;
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
  for (const auto& [pair, report] : std::exchange(reports_, {})) {
    if (now - report.at > kRelevant || !is_there(pair.first) || !is_there(pair.second)) continue;
    const bool is_lost = counts_as_lost(pair, report);
    if (is_lost) lost.insert(pair);
    const bool again = is_lost && report.fault != LinkFault::lost;
    texts.push_back(cat("the link between '", pair.first, "' and '", pair.second, "' ",
                        what_befell(report.fault), again ? " once more" : ""));
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
