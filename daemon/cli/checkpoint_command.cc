// Checkpoints as files: what there is, whether it is whole, in what two differ, and their weights
// for other tools.
#include <cstdio>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/compare_checkpoints.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/table.h"
#include "daemon/json_line.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "scheduler/train_graph.h"

namespace leat {
namespace {

// Of the folder of a run, of its checkpoints, or of one of them: the newest first.
Result<std::vector<std::string>> find_checkpoints(const std::string& path) {
  Files& files = real_files();
  const std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
  LEAT_ASSIGN_OR_RETURN(const bool is_one, files.exists(folder + "/" + kManifestName));
  if (is_one) return std::vector<std::string>{folder};
  LEAT_ASSIGN_OR_RETURN(const bool is_run, files.exists(folder + "/checkpoints"));
  LEAT_ASSIGN_OR_RETURN(auto paths,
                        list_checkpoints(files, is_run ? folder + "/checkpoints" : folder));
  if (!paths.empty()) return paths;
  return failed_precondition(cat("'", path,
                                 "': expected the folder of a run or a checkpoint, "
                                 "found no checkpoint in it"));
}

// The newest of `path` that verifies; says on stderr which were passed over.
Result<Checkpoint> newest(const std::string& path, ColorMode color) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, find_checkpoints(path));
  Status first;
  for (const std::string& each : paths) {
    auto checkpoint = read_checkpoint(real_files(), each);
    if (checkpoint.ok()) return checkpoint;
    if (first.ok()) first = checkpoint.status();
    if (paths.size() > 1) report(checkpoint.status(), color);
  }
  return first;
}

uint64_t bytes_of(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const CheckpointPart& part : manifest.parts) bytes += part.bytes;
  return bytes;
}

void print_json(const std::string& path, const Result<Manifest>& manifest, bool verified) {
  JsonLine line;
  line.add("path", path).add("ok", manifest.ok());
  if (manifest.ok()) {
    line.add("step", manifest->step).add("job", manifest->job).add("bytes", bytes_of(*manifest));
    line.add("parts", static_cast<uint64_t>(manifest->parts.size()));
    line.add("strategy", manifest->strategy).add("workers", manifest->workers);
    line.add("shards", manifest->shards).add("seed", manifest->seed);
    line.add("verified", verified).add("sha256", parent_of(*manifest).sha256);
  } else {
    line.add("error", manifest.status().message());
  }
  std::fputs(line.text().c_str(), stdout);
}

std::vector<std::string> row_of(const std::string& path, const Manifest& manifest) {
  return {std::to_string(manifest.step),
          human_bytes(bytes_of(manifest)),
          std::to_string(manifest.parts.size()),
          manifest.strategy,
          std::to_string(manifest.workers),
          manifest.previous ? std::to_string(manifest.previous->step) : "-",
          path};
}

// What a checkpoint says of the one before it, which is there: "" if that is true.
std::string broken_chain(const Manifest& manifest, const Manifest& before) {
  if (!manifest.previous || manifest.previous->step != before.step) return "";
  const std::string received = parent_of(before).sha256;
  if (manifest.previous->sha256 == received) return "";
  return cat("step ", manifest.step, " came after a checkpoint of step ", before.step,
             " whose manifest has SHA-256 ", manifest.previous->sha256, ", not after this one, ",
             received);
}

bool is_weight(const std::string& name) { return !name.starts_with(kOptimizerPrefix); }

}  // namespace

int run_checkpoint_ls(const CheckpointLsCommand& command) {
  if (report_missing("run or checkpoint", command.path, command.color)) return kExitNoSuch;
  const auto paths = find_checkpoints(command.path);
  if (!paths.ok()) return report(paths.status(), command.color);
  std::vector<std::vector<std::string>> rows;
  int code = kExitOk;
  for (const std::string& path : *paths) {
    const auto manifest = read_manifest(real_files(), path);
    if (command.json) {
      print_json(path, manifest, false);
    } else if (manifest.ok()) {
      rows.push_back(row_of(path, *manifest));
    } else {
      code = report(manifest.status(), command.color);
    }
  }
  if (command.json) return code;
  std::fputs(
      format_table({"STEP", "SIZE", "PARTS", "STRATEGY", "WORKERS", "AFTER", "PATH"}, rows, true)
          .c_str(),
      stdout);
  return code;
}

int run_checkpoint_verify(const CheckpointVerifyCommand& command) {
  if (report_missing("run or checkpoint", command.path, command.color)) return kExitNoSuch;
  const auto paths = find_checkpoints(command.path);
  if (!paths.ok()) return report(paths.status(), command.color);
  int code = kExitOk;
  std::optional<Manifest> after;
  for (const std::string& path : *paths) {
    const auto manifest = verify_checkpoint(real_files(), path);
    if (command.json) print_json(path, manifest, true);
    if (!manifest.ok()) {
      code =
          command.json ? exit_code_of(manifest.status()) : report(manifest.status(), command.color);
      continue;
    }
    const std::string broken = after ? broken_chain(*after, *manifest) : "";
    if (!broken.empty())
      code = report(invalid_argument(cat("'", path, "': ", broken)), command.color);
    if (!command.json && broken.empty())
      std::printf("%s: whole, %zu part%s of %s\n", path.c_str(), manifest->parts.size(),
                  manifest->parts.size() == 1 ? "" : "s", human_bytes(bytes_of(*manifest)).c_str());
    after = *manifest;
  }
  return code;
}

int run_checkpoint_diff(const CheckpointDiffCommand& command) {
  for (const std::string* path : {&command.first, &command.second})
    if (report_missing("run or checkpoint", *path, command.color)) return kExitNoSuch;
  const auto first = newest(command.first, command.color);
  if (!first.ok()) return report(first.status(), command.color);
  const auto second = newest(command.second, command.color);
  if (!second.ok()) return report(second.status(), command.color);
  const auto differences = compare(first->variables, second->variables);
  for (const VariableDifference& each : differences) std::printf("%s\n", describe(each).c_str());
  std::fprintf(stderr, "step %lld and step %lld: %zu of %zu variables differ\n",
               static_cast<long long>(first->manifest.step),
               static_cast<long long>(second->manifest.step), differences.size(),
               std::max(first->variables.size(), second->variables.size()));
  return differences.empty() ? kExitOk : kExitFailed;
}

int run_checkpoint_export(const CheckpointExportCommand& command) {
  if (report_missing("run or checkpoint", command.path, command.color)) return kExitNoSuch;
  auto from = newest(command.path, command.color);
  if (!from.ok()) return report(from.status(), command.color);
  SafeTensors content;
  for (auto& [name, value] : from->variables)
    if (command.all || is_weight(name)) content.tensors.emplace(name, std::move(value));
  content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(from->manifest.step)}};
  const Status written = write_safetensors(real_files(), command.output, content);
  if (!written.ok()) return report(written, command.color);
  std::fprintf(stderr, "%s: %zu variables after step %lld\n", command.output.c_str(),
               content.tensors.size(), static_cast<long long>(from->manifest.step));
  return kExitOk;
}

}  // namespace leat
