#include "daemon/cli/run_files.h"

#include <cstdlib>

#include "daemon/checkpoint/provenance.h"
#include "daemon/process/secret_file.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

std::shared_ptr<const CheckpointKeys>& keys_in_use() {
  static std::shared_ptr<const CheckpointKeys> keys = std::make_shared<CheckpointKeys>();
  return keys;
}

}  // namespace

Status use_checkpoint_keys(const std::vector<std::string>& files) {
  std::vector<std::string> paths = files;
  const char* const variable = std::getenv("LEAT_CHECKPOINT_KEY_FILE");
  if (paths.empty() && variable != nullptr && *variable != '\0') paths.emplace_back(variable);
  const char* const credentials = std::getenv("CREDENTIALS_DIRECTORY");
  std::vector<std::string> secrets;
  for (const std::string& path : paths) {
    LEAT_ASSIGN_OR_RETURN(
        secrets.emplace_back(),
        read_secret_file(path, credentials != nullptr ? credentials : std::string()));
  }
  LEAT_ASSIGN_OR_RETURN(keys_in_use(), make_checkpoint_keys(secrets));
  return {};
}

SealedFiles& run_files() {
  static SealedFiles files(store_files(), keys_in_use());
  return files;
}

std::unique_ptr<SealedFiles> files_of_runs(RunFolders runs) {
  return std::make_unique<SealedFiles>(store_files(), keys_in_use(), std::move(runs));
}

Result<RunFolder> run_folder(const std::string& path) {
  const auto provenance = read_provenance_file(store_files(), path);
  const bool is_malformed = provenance.status().code() == Code::invalid_argument;
  if (!provenance.ok() && !is_malformed) return provenance.status();
  const bool is_there = provenance.ok() && *provenance;
  return RunFolder{path, is_there ? (*provenance)->run : std::string(), true};
}

std::shared_ptr<const CheckpointKeys> checkpoint_keys() { return keys_in_use(); }

}  // namespace leat
