#include "daemon/training/run_weights.h"

#include <charconv>
#include <utility>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/training/initial_weights.h"
#include "daemon/training/model.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

constexpr const char* kStepKey = "leat.step";

std::optional<int64_t> step_of(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kStepKey);
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return step;
}

}  // namespace

std::string weights_path(const std::string& run) { return run + "/weights.safetensors"; }

std::string checkpoints_path(const Job& job, const std::string& run) {
  return job.checkpoint.path.empty() ? run + "/checkpoints" : job.checkpoint.path;
}

Result<RunWeights> read_weights_of_file(Files& files, const std::string& path) {
  RunWeights out;
  out.path = path;
  if (!path.ends_with(".npz") && !path.ends_with(".onnx")) {
    LEAT_ASSIGN_OR_RETURN(SafeTensors content, read_safetensors(files, path));
    out.values = std::move(content.tensors);
    out.step = step_of(content.metadata);
    out.every_float = !content.metadata.contains(kTrainsKey);
    return out;
  }
  LEAT_ASSIGN_OR_RETURN(out.values, read_weights_file(files, path));
  return out;
}

Result<std::optional<int64_t>> step_of_weights(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  LEAT_ASSIGN_OR_RETURN(const SafeTensorsIndex index, read_safetensors_index(*file));
  return step_of(index.metadata);
}

Result<RunWeights> read_weights_of_checkpoint(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(Checkpoint checkpoint, read_checkpoint(files, path));
  return RunWeights{std::move(checkpoint.variables), path, checkpoint.manifest.step,
                    checkpoint.manifest.every_float};
}

}  // namespace leat
