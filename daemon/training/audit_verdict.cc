#include "daemon/training/audit_verdict.h"

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/strategies/strategy.h"

namespace leat {
namespace {

// A digest, and the host that it was taken on in a run.
struct Witness {
  int64_t digest = 0;
  size_t host = 0;
  size_t run = 0;
};

bool all_agree(const std::vector<Witness>& witnesses) {
  return std::all_of(witnesses.begin(), witnesses.end(),
                     [&](const Witness& each) { return each.digest == witnesses[0].digest; });
}

// The digest of more than half of them; nothing if none has so many.
std::optional<int64_t> most_common(const std::vector<Witness>& witnesses) {
  std::map<int64_t, size_t> counts;
  for (const Witness& each : witnesses) {
    if (2 * ++counts[each.digest] > witnesses.size()) return each.digest;
  }
  return std::nullopt;
}

std::vector<size_t> list_of(const std::set<size_t>& hosts) { return {hosts.begin(), hosts.end()}; }

// Adds those that contradict the most common digest to `wrong`, or all of them to `suspects`.
void judge(const std::vector<Witness>& witnesses, std::set<size_t>& wrong,
           std::set<size_t>& suspects) {
  const auto right = most_common(witnesses);
  for (const Witness& each : witnesses) {
    if (!right)
      suspects.insert(each.host);
    else if (each.digest != *right)
      wrong.insert(each.host);
  }
}

// A run whose hosts all have another sum than most got it from the one that added it up, or that
// sent its part of it.
void judge_sum(const std::vector<Witness>& witnesses, size_t runs, std::set<size_t>& wrong,
               std::set<size_t>& suspects) {
  const auto right = most_common(witnesses);
  std::set<size_t> right_runs;
  for (const Witness& each : witnesses) {
    if (right && each.digest == *right) right_runs.insert(each.run);
  }
  if (!right || right_runs.size() < runs) {
    for (const Witness& each : witnesses) suspects.insert(each.host);
    return;
  }
  judge(witnesses, wrong, suspects);
}

AuditFinding finding_of(size_t value, int64_t shard, const std::set<size_t>& wrong,
                        const std::set<size_t>& suspects) {
  // If some cannot be told, none is named.
  if (!suspects.empty()) {
    std::set<size_t> all = suspects;
    all.insert(wrong.begin(), wrong.end());
    return {value, shard, {}, list_of(all)};
  }
  return {value, shard, list_of(wrong), {}};
}

}  // namespace

size_t host_of_shard(int64_t shard, size_t rotation, int64_t shards, size_t hosts) {
  size_t block = 0;
  while (block + 1 < hosts && first_shard(static_cast<int>(block) + 1, static_cast<int>(hosts),
                                          static_cast<int>(shards)) <= shard)
    ++block;
  return (block + rotation) % hosts;
}

std::optional<AuditFinding> compare_computations(const std::vector<AuditedValue>& values,
                                                 const std::vector<AuditedRun>& runs,
                                                 int64_t shards, size_t hosts) {
  const auto witness = [&](size_t run, size_t value, int64_t shard) -> Witness {
    return {runs[run].digests[static_cast<size_t>(shard) * values.size() + value],
            host_of_shard(shard, runs[run].rotation, shards, hosts), run};
  };
  for (size_t value = 0; value < values.size(); ++value) {
    std::set<size_t> wrong, suspects;
    int64_t first = -1;
    std::vector<Witness> of_sum;
    for (int64_t shard = 0; shard < shards; ++shard) {
      std::vector<Witness> of_shard;
      for (size_t run = 0; run < runs.size(); ++run) of_shard.push_back(witness(run, value, shard));
      if (values[value].sum) {
        of_sum.insert(of_sum.end(), of_shard.begin(), of_shard.end());
      } else if (!all_agree(of_shard)) {
        if (first < 0) first = shard;
        judge(of_shard, wrong, suspects);
      }
    }
    if (first >= 0) return finding_of(value, first, wrong, suspects);
    if (of_sum.empty() || all_agree(of_sum)) continue;
    judge_sum(of_sum, runs.size(), wrong, suspects);
    return finding_of(value, -1, wrong, suspects);
  }
  return std::nullopt;
}

std::optional<AuditFinding> compare_holdings(const std::vector<int64_t>& digests, size_t values,
                                             size_t hosts) {
  std::set<size_t> wrong, suspects;
  std::optional<size_t> first;
  for (size_t value = 0; value < values; ++value) {
    std::vector<Witness> witnesses;
    for (size_t host = 0; host < hosts; ++host)
      witnesses.push_back({digests[host * values + value], host, 0});
    if (all_agree(witnesses)) continue;
    if (!first) first = value;
    judge(witnesses, wrong, suspects);
  }
  if (!first) return std::nullopt;
  return finding_of(*first, -1, wrong, suspects);
}

}  // namespace leat
