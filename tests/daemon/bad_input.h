// What the tests of bad input share: a good job to spoil, and what every refusal looks like.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/leat_process.h"
#include "tests/gzip.h"
#include "tests/temporary_directory.h"

namespace leat {

// A folder with job.yaml, net.onnxtxt (float[N,4] x) => (float[N,3] y), and the IDX files x and y
// of 32 records; it trains 8 steps, checkpoints after 4 and 8, in milliseconds.
class TinyJob {
 public:
  using Swaps = std::vector<std::pair<std::string, std::string>>;

  TinyJob();
  const std::string& folder() const { return folder_.path(); }
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& bytes) const;
  // Files below `name` with their bytes.
  std::map<std::string, std::string> snapshot(const std::string& name) const;

  Finished leat(const std::vector<std::string>& arguments,
                const std::string& failpoints = "") const;
  // `leat train` of the job with parts of its text swapped, into the folder `out`.
  Finished train(const std::string& out, const Swaps& swaps = {},
                 const std::vector<std::string>& more = {},
                 const std::string& failpoints = "") const;
  // The same into a folder that must not be there afterwards.
  Finished train_in_vain(const Swaps& swaps, const std::vector<std::string>& more = {}) const;

 private:
  TemporaryDirectory folder_;
};

// An IDX file.
std::string idx(char type, const std::vector<uint32_t>& sizes, const std::string& elements);
// `text` with the first `from` made `to`; it must be there.
std::string with(std::string text, const std::string& from, const std::string& to);
std::string flipped(std::string bytes, size_t at);
std::string half(const std::string& bytes);

// One error line, which has all of `parts`, the exit code, and nothing of a sanitizer.
void check_refused(const Finished& finished, int exit_code, const std::vector<std::string>& parts);
void check_ok(const Finished& finished);

}  // namespace leat
