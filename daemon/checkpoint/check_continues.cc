#include "daemon/checkpoint/check_continues.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

std::string_view bool_text(bool value) { return value ? "true" : "false"; }

// Returns the steps of the job for data of `rows` rows. A damaged manifest may contain any number,
// so the sum must not overflow.
int64_t steps_of(const Job& job, int64_t rows) {
  if (job.steps > 0) return job.steps;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t each = job.rows_per_step();
  if (rows > (kMost - each) / job.epochs) return kMost;
  return (job.epochs * std::max<int64_t>(rows, 0) + each - 1) / each;
}

}  // namespace

Status check_continues(const Manifest& from, const Manifest& job, int64_t total_steps) {
  std::vector<std::string> expected, received;
  // All differences are collected, so that a user can repair them at once.
  const auto compare = [&](std::string_view key, const auto& was, const auto& is) {
    if (was == is) return;
    expected.push_back(cat(key, " ", was));
    received.push_back(cat(key, " ", is));
  };
  compare("name", from.job, job.job);
  compare("shards", from.shards, job.shards);
  compare("seed", from.seed, job.seed);
  compare("global_batch_size", from.data.global_batch_size, job.data.global_batch_size);
  compare("data.shuffle", bool_text(from.data.shuffle), bool_text(job.data.shuffle));
  compare("data.sharding", from.data.sharding, job.data.sharding);
  compare("rows", from.data.rows, job.data.rows);
  // Every file of either side, once.
  std::map<std::string, std::string> all = from.data.files;
  all.insert(job.data.files.begin(), job.data.files.end());
  const auto print_of = [](const DataOrder& data, const std::string& name) -> std::string {
    const auto found = data.files.find(name);
    return found == data.files.end() ? "no file" : found->second;
  };
  for (const auto& [name, print] : all)
    compare(name + " of", print_of(from.data, name), print_of(job.data, name));
  if (!expected.empty()) {
    return invalid_argument(cat("checkpoint of step ", from.step, ": expected ",
                                join(expected, ", "), " as when it was written, received ",
                                join(received, ", "), "; change back, or begin a new run"));
  }
  if (from.step <= total_steps) return {};
  return invalid_argument(cat("checkpoint of step ", from.step, ": expected at most ", total_steps,
                              ", the steps of the job; raise steps or epochs, or begin a new run"));
}

Status check_continues(const Manifest& from, const Job& job) {
  // The fields that are not known before the data is read come from the checkpoint, so they cannot
  // differ.
  Manifest own = from;
  own.job = job.name;
  own.seed = job.seed;
  own.shards = job.shards;
  own.data.global_batch_size = job.global_batch_size;
  own.data.shuffle = job.data.shuffle;
  own.data.sharding = sharding_name(job.data.sharding);
  return check_continues(from, own, steps_of(job, from.data.rows));
}

}  // namespace leat
