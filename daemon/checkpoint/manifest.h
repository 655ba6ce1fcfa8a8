// The description of a checkpoint: manifest.json in its folder, which is written last.
//
// The manifest lists every part with its size and SHA-256, and says to which job and step the
// variables belong. It also names the previous checkpoint, so that the checkpoints of a job form a
// chain. Its last line is the SHA-256 of all lines above, so that any change of a byte is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/metrics/metrics_log.h"
#include "devices/base/status.h"

namespace leat {

// The settings that decide, with the step, the seed and the shards, which records each step reads.
struct DataOrder {
  int64_t global_batch_size = 0;
  bool shuffle = true;
  int64_t rows = 0;              // of the training data
  std::string features, labels;  // fingerprint() of the data's files
  bool operator==(const DataOrder&) const = default;
};

// The checkpoint before this one.
struct CheckpointParent {
  int64_t step = 0;
  std::string sha256;  // of its manifest
  bool operator==(const CheckpointParent&) const = default;
};

// The content of manifest.json.
struct Manifest {
  int64_t step = 0;   // steps of the job that are done
  std::string job;    // its name
  std::string graph;  // SHA-256 of the model's file
  uint64_t seed = 0;
  int64_t shards = 1;
  DataOrder data;
  // The plan that wrote it. Another strategy on other workers can continue from it, too.
  std::string strategy;
  int64_t workers = 1;
  std::optional<CheckpointParent> previous;
  std::vector<CheckpointPart> parts;
  // True if the model is an .onnx file and all its floats are trained: see OnnxOptions. The
  // manifest of an older version, which had only this rule, also gives true.
  bool every_float = true;
  std::optional<MetricsDigest> metrics;  // of the job's log, whose last row is that of `step`
  bool operator==(const Manifest&) const = default;
};

// The name, in files, of the rule that only the parameters of an .onnx model are trained.
inline constexpr const char* kTrainsParameters = "parameters";

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr uint64_t kManifestBytes = 1 << 20;

// Returns the text of manifest.json. Equal manifests give equal bytes.
std::string print_manifest(const Manifest& manifest);

// Returns the entry for this checkpoint in the manifest of the next one.
CheckpointParent parent_of(const Manifest& manifest);

// Reads manifest.json. invalid_argument describes the damage; its message begins with `subject`,
// the file's path.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes, std::string_view subject);

}  // namespace leat
