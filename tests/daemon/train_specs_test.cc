#include "daemon/training/train_specs.h"

#include "tests/catch.h"

using namespace leat;

namespace {

bool freezes(const std::string& pattern, const std::string& name) {
  Job job;
  job.model.freeze = {pattern};
  return train_spec(job, FoundDataset(), 1).frozen(name);
}

}  // namespace

TEST_CASE("a pattern freezes the variables that it matches") {
  for (const char* pattern :
       {"conv1.weight", "conv*", "*weight", "c*1*t", "conv?.weight", "*", "**"})
    CHECK(freezes(pattern, "conv1.weight"));
  for (const char* pattern : {"", "conv", "weight*", "conv??.weight", "*.bias", "conv1.weight?"})
    CHECK_FALSE(freezes(pattern, "conv1.weight"));
  CHECK(freezes("*ab", "aab"));
  CHECK(freezes("*", ""));
}

TEST_CASE("a pattern of many stars is soon found not to match") {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  CHECK_FALSE(freezes(pattern + "b", std::string(1000, 'a')));
}
