// The helpers that the tests of bad input share: a good job to spoil, and the checks of every
// refusal.
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
  // Returns the files below `name`, each with its bytes.
  std::map<std::string, std::string> snapshot(const std::string& name) const;

  Finished leat(const std::vector<std::string>& arguments,
                const std::string& failpoints = "") const;
  // Runs `leat train` on the job with parts of its text replaced, into the folder `out`.
  Finished train(const std::string& out, const Swaps& swaps = {},
                 const std::vector<std::string>& more = {},
                 const std::string& failpoints = "") const;
  // The same for a training that must fail and must not leave its folder behind.
  Finished train_in_vain(const Swaps& swaps, const std::vector<std::string>& more = {}) const;

 private:
  TemporaryDirectory folder_;
};

// Returns an IDX file.
std::string idx(char type, const std::vector<uint32_t>& sizes, const std::string& elements);
// Returns `text` with the first `from` replaced by `to`. REQUIRES: `text` contains `from`.
std::string with(std::string text, const std::string& from, const std::string& to);
std::string flipped(std::string bytes, size_t at);
std::string half(const std::string& bytes);

// Checks that the program wrote one error line that has all of `parts`, ended with the exit code,
// and wrote nothing of a sanitizer.
void check_refused(const Finished& finished, int exit_code, const std::vector<std::string>& parts);
void check_ok(const Finished& finished);

}  // namespace leat
