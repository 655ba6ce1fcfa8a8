// The description of a checkpoint: manifest.json in its folder, which is written last.
//
// The manifest lists every part with its size and SHA-256, and says to which job and step the
// variables belong. It also names the previous checkpoint, so that the checkpoints of a job form a
// chain. Its last line is the SHA-256 of all lines above, so that any change of a byte is detected.
// A master signs the manifests of its jobs; the signature stands before that line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/checkpoint/provenance.h"
#include "daemon/metrics/metrics_log.h"
#include "devices/base/status.h"

namespace leat {

class SigningKey;

// The settings that decide, with the step, the seed and the shards, which records each step reads.
struct DataOrder {
  // Rows of a step over all shards.
  int64_t global_batch_size = 0;
  bool shuffle = true;
  // The rows that the steps of an epoch read: those of the training data, if shards share them.
  int64_t rows = 0;
  // fingerprint() of each of the data's files, by its name: the column's for a file of one column,
  // else the file's own.
  std::map<std::string, std::string> files;
  // How shards share the rows: a name of ops/data/sharding.h.
  std::string sharding = "data";
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
  // The steps of the job that are done; at least 0.
  int64_t step = 0;
  std::string job;  // its name
  // The SHA-256 of the model's file, in hexadecimal. A checkpoint of another graph can be resumed,
  // with a warning.
  std::string graph;
  uint64_t seed = 0;
  int64_t shards = 1;
  DataOrder data;
  // The plan that wrote it. Another strategy on other workers can continue from it, too.
  std::string strategy;
  int64_t workers = 1;
  // Of an earlier step. Nothing in the first checkpoint of a job.
  std::optional<CheckpointParent> previous;
  // 1 to kMaxCheckpointParts; part i has the name part_name(i, parts.size()).
  std::vector<CheckpointPart> parts;
  // True if the model is an .onnx file and all its floats are trained: see OnnxOptions. The
  // manifest of an older version, which had only this rule, also gives true.
  bool every_float = true;
  // The digest of the job's log, whose last row is that of `step`. Nothing in checkpoints that have
  // no log.
  std::optional<MetricsDigest> metrics;
  // Nothing in manifests of older versions.
  std::optional<Provenance> provenance;
  // Of all that stands above. Nothing if no key was given, as in `leat train`.
  std::optional<ManifestSignature> signature;
  bool operator==(const Manifest&) const = default;
};

// The name, in files, of the rule that only the parameters of an .onnx model are trained.
inline constexpr const char* kTrainsParameters = "parameters";

inline constexpr const char* kManifestName = "manifest.json";
// Readers refuse a larger file.
inline constexpr uint64_t kManifestBytes = 1 << 20;

// Returns the text of manifest.json. Equal manifests give equal bytes. JSON in format 2, with the
// keys in a fixed order.
std::string print_manifest(const Manifest& manifest);

// The text that a signature is of: that of the manifest before its signature.
std::string signed_text(const Manifest& manifest);
// Signs the manifest, whose parts are complete.
Status sign(Manifest& manifest, const SigningKey& key);
// Checks the signature with the key that it names. Ok without a signature. invalid_argument begins
// with `subject`. Whether that key is to be trusted is for the caller to decide.
Status check_signature(const Manifest& manifest, std::string_view subject);

// Returns the entry for this checkpoint in the manifest of the next one.
CheckpointParent parent_of(const Manifest& manifest);

// Reads manifest.json. invalid_argument describes the damage; its message begins with `subject`,
// the file's path. Damage is: a wrong hash of the text, another format, a missing key, a wrong name
// of a part, a number of parts out of range, or a parent that is not earlier. The parts are not
// looked at.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes, std::string_view subject);

}  // namespace leat
