#include "daemon/training/run_provenance.h"

#include "daemon/base/version.h"
#include "devices/base/sha256.h"

namespace leat {
namespace {

// A training that goes on from the memory of its workers does without the file.
std::string hash_of_weights(Files& files, const std::string& path) {
  const auto file = files.open(path);
  if (!file.ok()) return "";
  const auto hash = sha256_of(**file);
  return hash.ok() ? *hash : "";
}

}  // namespace

Result<Provenance> keep_provenance(const TrainingParts& parts, const JobCheckpoints& checkpoints,
                                   const std::string& job_sha256) {
  const TrainOptions& options = parts.options;
  Provenance provenance;
  provenance.code = code_version();
  provenance.run = options.run;
  provenance.job_sha256 = job_sha256;
  const std::string& weights = parts.job.model.weights;
  // A checkpoint with a parent has the first weights of that one.
  if (checkpoints.is_first() && !weights.empty()) {
    provenance.weights = {weights.substr(weights.rfind('/') + 1),
                          hash_of_weights(parts.files, weights)};
  }
  ProvenanceFile identity{options.run,
                          options.key ? options.key->public_key() : "",
                          {job_sha256},
                          checkpoints.foreign_parent(options.run)};
  LEAT_RETURN_IF_ERROR(
      keep_provenance_file(parts.files, options.folder, std::move(identity), options.resume));
  return provenance;
}

}  // namespace leat
