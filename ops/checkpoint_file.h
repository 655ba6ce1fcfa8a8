// A checkpoint on disk: the variables of a job after a step.
//
//   step-00000500/variables.safetensors   every variable, optimizer state included
//   step-00000500/manifest.json           written last; names the files with size and SHA-256
//
// The folder is written under a temporary name, synced, and renamed: under its own name it is
// whole, or it was damaged later, which the hashes show.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/tensor.h"

namespace leat {

// What decides, with the seed and the shards, which records each step reads.
struct DataOrder {
  int64_t global_batch_size = 0;
  bool shuffle = true;
  int64_t rows = 0;              // of the training data
  std::string features, labels;  // fingerprint() of its files
  bool operator==(const DataOrder&) const = default;
};

struct Checkpoint {
  int64_t step = 0;  // steps of the job that are done
  uint64_t seed = 0;
  int64_t shards = 1;
  std::string job;                // its name
  std::optional<DataOrder> data;  // none in a checkpoint that an early version wrote
  std::map<std::string, Tensor> variables;
};

// "step-00000500".
std::string checkpoint_name(int64_t step);

// Writes `folder`/step-N and returns its path. A checkpoint of that step that is there already is
// replaced. On failure nothing that was whole before is damaged.
Result<std::string> write_checkpoint(Files& files, const std::string& folder,
                                     const Checkpoint& checkpoint);

// Reads and verifies one. invalid_argument says what is damaged.
Result<Checkpoint> read_checkpoint(Files& files, const std::string& path);

// The newest checkpoint in `folder` that verifies; the reasons why newer ones were passed over are
// appended to `refused`. failed_precondition if there is none.
Result<Checkpoint> read_latest_checkpoint(Files& files, const std::string& folder,
                                          std::vector<std::string>& refused);

// Removes all but the newest `keep`, and what interrupted writers left behind.
Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep);

}  // namespace leat
