// The findings of `leat doctor` about a machine, a cluster or a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace leat {

enum class FindingVerdict {
  fine,
  note,     // jobs run, but slower than they could, or without something that they may want
  problem,  // stops jobs
};

// "ok", "note" or "problem".
std::string_view name_of(FindingVerdict verdict);

struct Finding {
  std::string subject;  // one or two words: "memory"
  FindingVerdict verdict = FindingVerdict::fine;
  std::string found = {};   // what is there, with units
  std::string advice = {};  // what to do about it; empty if there is nothing to do
};

using Findings = std::vector<Finding>;

}  // namespace leat
