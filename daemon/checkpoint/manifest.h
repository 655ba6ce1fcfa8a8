// What a checkpoint says of itself: manifest.json in its folder, written last.
//
// It names every part with its size and SHA-256, what the variables are the state of, and the
// checkpoint before, so that the history of a job is one chain. Its last line is the SHA-256 of all
// that stands above it: no byte of a checkpoint changes unseen.
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

// What decides, with the step, the seed and the shards, which records each step reads.
struct DataOrder {
  int64_t global_batch_size = 0;
  bool shuffle = true;
  int64_t rows = 0;              // of the training data
  std::string features, labels;  // fingerprint() of its files
  bool operator==(const DataOrder&) const = default;
};

struct CheckpointParent {
  int64_t step = 0;
  std::string sha256;  // of its manifest
  bool operator==(const CheckpointParent&) const = default;
};

struct Manifest {
  int64_t step = 0;   // steps of the job that are done
  std::string job;    // its name
  std::string graph;  // SHA-256 of the model's file
  uint64_t seed = 0;
  int64_t shards = 1;
  DataOrder data;
  // Who wrote it. Another strategy on other workers goes on from it as well.
  std::string strategy;
  int64_t workers = 1;
  std::optional<CheckpointParent> previous;
  std::vector<CheckpointPart> parts;
  // The model is an .onnx file of which every float is trained: see OnnxOptions. Checkpoints that
  // were written before there was another rule do not say whether they are of such a file.
  bool every_float = true;
  std::optional<MetricsDigest> metrics;  // of the job's log, with the row of `step` as its last
  bool operator==(const Manifest&) const = default;
};

// The rule of an .onnx model whose parameters alone are trained, as files name it.
inline constexpr const char* kTrainsParameters = "parameters";

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr uint64_t kManifestBytes = 1 << 20;

// Equal manifests give equal bytes.
std::string print_manifest(const Manifest& manifest);

// What the next checkpoint says of this one.
CheckpointParent parent_of(const Manifest& manifest);

// invalid_argument says what is damaged; `subject` begins the messages: the file's path.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes, std::string_view subject);

}  // namespace leat
