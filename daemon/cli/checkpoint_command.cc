// The commands for checkpoints: list them, verify them, compare two, and export their weights for
// other tools.
#include <cstdio>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/compare_checkpoints.h"
#include "daemon/checkpoint/run_copy.h"
#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/checkpoint_model.h"
#include "daemon/cli/checkpoint_source.h"
#include "daemon/cli/run_files.h"
#include "daemon/cli/table.h"
#include "daemon/training/export_model.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"

namespace leat {
namespace {

using Found = CheckpointSource::Found;
using Extent = CheckpointSource::Extent;

// The newest checkpoint of `source` that verifies. Prints to stderr which ones are damaged, or why
// there is none; `code` is the exit code then.
struct Newest {
  int code = kExitOk;
  std::optional<Checkpoint> checkpoint;
  Found found = {};
};
Newest newest(CheckpointSource& source) {
  int code = kExitOk;
  for (const Found& found : source.checkpoints()) {
    const Status here = source.bring(found, Extent::whole);
    auto checkpoint = here.ok() ? read_checkpoint(run_files(), found.path) : here;
    if (checkpoint.ok()) return {kExitOk, std::move(checkpoint).value(), found};
    const int of_this = source.report(found, checkpoint.status());
    // With its key it may be whole.
    if (lacks_key(checkpoint.status())) return {of_this, std::nullopt, {}};
    // If no checkpoint is whole, the newest one decides the exit code.
    if (code == kExitOk) code = of_this;
  }
  return {code, std::nullopt, {}};
}
Newest newest(const std::string& name, const ClusterOptions& options) {
  CheckpointSource source(options);
  if (const int code = source.open(name); code != kExitOk) return {code, std::nullopt, {}};
  return newest(source);
}

// One line of JSON for a checkpoint, or for the error of its manifest.
void print_json(const CheckpointSource& source, const Found& found,
                const Result<Manifest>& manifest) {
  JsonLine line;
  line.add("path", found.shown).add("ok", manifest.ok());
  if (manifest.ok()) {
    add_checkpoint(line, *manifest).add("verified", false);
    line.add("sha256", parent_of(*manifest).sha256);
  } else {
    line.add("error", source.message(found, manifest.status()));
  }
  std::fputs(line.text().c_str(), stdout);
}

// The cells of a checkpoint, in the order of the headers of `leat checkpoint ls`.
std::vector<std::string> row_of(const std::string& path, const Manifest& manifest) {
  return {std::to_string(manifest.step),
          human_bytes(bytes_of(manifest)),
          std::to_string(manifest.parts.size()),
          manifest.strategy,
          std::to_string(manifest.workers),
          manifest.previous ? std::to_string(manifest.previous->step) : "-",
          path};
}

// The format that the command names, or else the extension of its file.
Result<Job::ExportFormat> format_of(const CheckpointExportCommand& command) {
  const std::string name = command.format.empty() ? command.output : "." + command.format;
  const auto format = export_format_of(name);
  if (!format) {
    return unimplemented(
        cat("'", command.output, "': expected a name that ends in .onnx, .safetensors or .npz"));
  }
  const bool is_model = *format == Job::ExportFormat::onnx;
  if (is_model && command.all)
    return invalid_argument(
        "expected --all with safetensors or npz: an ONNX file has no optimizer");
  if (!is_model && command.opset)
    return invalid_argument(cat("expected --opset with onnx, received ", extension_of(*format)));
  return *format;
}

// Writes the file. Returns the opset of an ONNX file, "opset 20", or "".
Result<std::string> write_export(CheckpointSource& source, const Newest& from,
                                 const CheckpointExportCommand& command, Job::ExportFormat format,
                                 const std::string& path, Variables variables) {
  const Manifest& manifest = from.checkpoint->manifest;
  if (format != Job::ExportFormat::onnx) {
    LEAT_RETURN_IF_ERROR(
        export_variables(real_files(), path, format, std::move(variables), manifest.step));
    return std::string();
  }
  const Catalogue catalogue = standard_catalogue();
  LEAT_ASSIGN_OR_RETURN(const Model model,
                        model_of(source, from.found, manifest, command.run, catalogue));
  LEAT_ASSIGN_OR_RETURN(const int64_t opset,
                        export_onnx(real_files(), path, model, variables, command.opset));
  return cat(", opset ", opset);
}

}  // namespace

uint64_t bytes_of(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const CheckpointPart& part : manifest.parts) bytes += part.bytes;
  return bytes;
}

JsonLine& add_checkpoint(JsonLine& line, const Manifest& manifest) {
  line.add("step", manifest.step).add("job", manifest.job).add("bytes", bytes_of(manifest));
  line.add("parts", static_cast<uint64_t>(manifest.parts.size()));
  line.add("strategy", manifest.strategy).add("workers", manifest.workers);
  return line.add("shards", manifest.shards).add("seed", manifest.seed);
}

int run_checkpoint_copy(const CheckpointCopyCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  std::vector<std::string> refused;
  const auto from = run_folder(command.from);
  if (!from.ok()) return report(from.status(), command.cluster.color);
  const auto files = files_of_runs(RunFolders({*from, {command.to, from->id}}));
  const auto step = bring_run(*files, command.from, command.to, refused);
  for (const std::string& each : refused)
    std::fprintf(stderr, "warning: %s\n", printable(each).c_str());
  if (!step.ok()) return report(step.status(), command.cluster.color);
  if (command.cluster.json) {
    std::fputs(JsonLine().add("run", command.to).add("step", *step).text().c_str(), stdout);
  } else {
    std::printf("%s: step %lld\n", printable(command.to).c_str(), static_cast<long long>(*step));
  }
  return kExitOk;
}

int run_checkpoint_ls(const CheckpointLsCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  CheckpointSource source(command.cluster);
  if (const int code = source.open(command.name); code != kExitOk) return code;
  std::vector<std::vector<std::string>> rows;
  int code = kExitOk;
  for (const Found& found : source.checkpoints()) {
    // The manifest has all that the list shows, so the parts of a job's checkpoint stay where they
    // are.
    const Status here = source.bring(found, Extent::manifest);
    const auto manifest = here.ok() ? read_manifest(run_files(), found.path) : here;
    if (command.cluster.json) {
      print_json(source, found, manifest);
      if (!manifest.ok()) code = exit_code_of(manifest.status());
    } else if (manifest.ok()) {
      rows.push_back(row_of(found.shown, *manifest));
    } else {
      code = source.report(found, manifest.status());
    }
  }
  if (command.cluster.json) return code;
  std::fputs(
      format_table({"STEP", "SIZE", "PARTS", "STRATEGY", "WORKERS", "AFTER", "PATH"}, rows, true)
          .c_str(),
      stdout);
  return code;
}

int run_checkpoint_diff(const CheckpointDiffCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  // Both are read whole. The folder of a job's copy goes as soon as its variables are in memory.
  const Newest first = newest(command.first, command.cluster);
  if (!first.checkpoint) return first.code;
  const Newest second = newest(command.second, command.cluster);
  if (!second.checkpoint) return second.code;
  const Checkpoint &a = *first.checkpoint, &b = *second.checkpoint;
  const auto differences = compare(a.variables, b.variables);
  for (const VariableDifference& each : differences)
    std::printf("%s\n", printable(describe(each)).c_str());
  std::fprintf(stderr, "step %lld and step %lld: %zu of %zu variables differ\n",
               static_cast<long long>(a.manifest.step), static_cast<long long>(b.manifest.step),
               differences.size(), std::max(a.variables.size(), b.variables.size()));
  return differences.empty() ? kExitOk : kExitFailed;
}

int run_checkpoint_export(const CheckpointExportCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  // The format is checked first, because reading a checkpoint may take long.
  const auto format = format_of(command);
  if (!format.ok()) return report(format.status(), command.cluster.color);
  CheckpointSource source(command.cluster);
  const int opened = command.of_cluster ? source.open_job(command.name) : source.open(command.name);
  if (opened != kExitOk) return opened;
  Newest from = newest(source);
  if (!from.checkpoint) return from.code;
  const int64_t step = from.checkpoint->manifest.step;
  // The values are moved, not copied: a checkpoint may be as large as the memory allows.
  Variables chosen;
  for (auto& [name, value] : from.checkpoint->variables)
    if (command.all || is_weight(name)) chosen.emplace(name, std::move(value));
  const size_t count = chosen.size();
  const std::string& job = source.job().empty() ? from.checkpoint->manifest.job : source.job();
  // A manifest may come from anywhere, and its name of the job must not lead out of this folder.
  if (command.output.empty() && (job.empty() || job.find('/') != job.npos)) {
    return report(invalid_argument(cat("'", from.found.shown,
                                       "': expected the name of a job in its manifest, received '",
                                       job, "'; name the file with -o")),
                  command.cluster.color);
  }
  const std::string path =
      command.output.empty() ? cat(job, ".", extension_of(*format)) : command.output;
  const auto opset = write_export(source, from, command, *format, path, std::move(chosen));
  if (!opset.ok()) return report(opset.status(), command.cluster.color);
  std::fprintf(stderr, "%s: %zu variables after step %lld%s\n", printable(path).c_str(), count,
               static_cast<long long>(step), opset->c_str());
  return kExitOk;
}

}  // namespace leat
