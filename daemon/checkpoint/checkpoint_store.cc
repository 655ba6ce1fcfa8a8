#include "daemon/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>

#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

constexpr std::string_view kName = "step-", kTemporary = ".tmp-";

// Called for each part that verifies.
using Visit = std::function<Status(const ReadableFile&)>;

// Verifies a checkpoint, and calls `visit` with each part.
Result<Manifest> visit_parts(Files& files, const std::string& path, const Visit& visit) {
  LEAT_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(files, path));
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const auto file,
                          files.open(cat(path, "/", part_name(i, manifest.parts.size()))));
    // The hash is checked first, so visit() never parses damaged bytes. For that read_checkpoint()
    // reads each part twice.
    LEAT_RETURN_IF_ERROR(read_checked(*file, manifest.parts[i], pass_over));
    const Status visited = visit(*file);
    // Only the error of open() says that a key is not here. A part that was opened and cannot be
    // read, such as one of an unknown element type, counts as damaged.
    if (lacks_key(visited)) return invalid_argument(visited.message());
    LEAT_RETURN_IF_ERROR(visited);
  }
  return manifest;
}

Status read_part(const ReadableFile& file, Variables& variables) {
  LEAT_ASSIGN_OR_RETURN(const SafeTensorsIndex index, read_safetensors_index(file));
  for (const auto& [name, entry] : index.entries) {
    LEAT_ASSIGN_OR_RETURN(Tensor value, read_safetensors_entry(file, name, entry));
    // Two values for one variable leave open which of them is right.
    if (variables.emplace(name, std::move(value)).second) continue;
    return invalid_argument(cat("'", file.path(), "': expected variable '", name,
                                "' in one part, it is in another one, too"));
  }
  return {};
}

}  // namespace

Result<Manifest> read_manifest(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes,
                        read_file(files, path + "/" + kManifestName, kManifestBytes));
  return manifest_in(path, bytes);
}

Result<Manifest> manifest_in(const std::string& path, std::span<const std::byte> bytes) {
  const std::string file = path + "/" + kManifestName;
  LEAT_ASSIGN_OR_RETURN(Manifest manifest, parse_manifest(bytes, cat("'", file, "'")));
  // A folder that was copied under another name must not pass for another step.
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name == checkpoint_name(manifest.step)) return manifest;
  return invalid_argument(
      cat("'", file, "': expected the step that the folder's name says, received ", manifest.step));
}

std::string checkpoint_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

int64_t step_of_checkpoint(std::string_view name) {
  if (!name.starts_with(kName)) return -1;
  name.remove_prefix(kName.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::begin(Files& files,
                                                                  const std::string& folder,
                                                                  int64_t step, size_t parts,
                                                                  const std::string& token) {
  std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(files, folder, step, parts, token));
  const auto make = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(files.make_directories(folder));
    LEAT_RETURN_IF_ERROR(files.remove_all(writer->temporary_));
    return files.make_directories(writer->temporary_);
  };
  LEAT_RETURN_IF_ERROR(make().while_doing(cat("writing checkpoint '", writer->path(), "'")));
  return writer;
}

CheckpointWriter::CheckpointWriter(Files& files, const std::string& folder, int64_t step,
                                   size_t parts, const std::string& token)
    : files_(files),
      folder_(folder),
      step_(step),
      // The name begins with a dot and not with "step-", so no reader takes it for a checkpoint.
      temporary_(
          cat(folder, "/", kTemporary, checkpoint_name(step), token.empty() ? "" : "-", token)),
      parts_(parts) {}

CheckpointWriter::~CheckpointWriter() {
  if (!committed_) (void)files_.remove_all(temporary_);  // leftovers do no harm
}

std::string CheckpointWriter::path() const { return folder_ + "/" + checkpoint_name(step_); }

Status CheckpointWriter::fill_part(size_t index,
                                   const std::function<Status(const TakeBytes&)>& fill) {
  auto written = write_synced(files_, cat(temporary_, "/", part_name(index, parts_.size())), fill);
  if (!written.ok()) return written.status().while_doing(cat("writing checkpoint '", path(), "'"));
  const std::lock_guard lock(mutex_);
  parts_[index] = *std::move(written);
  return {};
}

Status CheckpointWriter::write_part(size_t index, const Variables& variables) {
  return fill_part(index,
                   [&](const TakeBytes& take) { return format_part(variables, step_, take); });
}

PartPlace CheckpointWriter::place(size_t index) const {
  std::error_code ignored;  // an empty path names no folder, so no process finds it
  return {std::filesystem::absolute(temporary_, ignored).string(), index, parts_.size()};
}

Status CheckpointWriter::wrote_part(size_t index, CheckpointPart part) {
  const auto look = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(const auto file,
                          files_.open(cat(temporary_, "/", part_name(index, parts_.size()))));
    // The other process may have written to another disk under the same path. Its hash is taken as
    // it is: a reader verifies it.
    if (file->size() == part.bytes) return {};
    return unavailable(cat("'", file->path(), "': expected the ", part.bytes,
                           " bytes that were written, found ", file->size()));
  };
  if (part.sha256.size() != 64 ||
      part.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return invalid_argument(cat("part ", index, " of checkpoint '", path(),
                                "': expected a SHA-256, received '", part.sha256, "'"));
  }
  LEAT_RETURN_IF_ERROR(look().while_doing(cat("writing checkpoint '", path(), "'")));
  const std::lock_guard lock(mutex_);
  parts_[index] = std::move(part);
  return {};
}

Result<Manifest> CheckpointWriter::commit(Manifest manifest, const SigningKey* key) {
  manifest.step = step_;
  // In the order of the parts, whichever was written first.
  manifest.parts = parts_;
  if (key != nullptr) LEAT_RETURN_IF_ERROR(sign(manifest, *key));
  LEAT_RETURN_IF_ERROR(
      publish(print_manifest(manifest)).while_doing(cat("writing checkpoint '", path(), "'")));
  committed_ = true;
  return manifest;
}

// A rename replaces no folder that has files, so an earlier checkpoint is exchanged and then
// removed.
Status CheckpointWriter::publish(const std::string& manifest) {
  LEAT_RETURN_IF_ERROR(
      write_synced(files_, cat(temporary_, "/", kManifestName), [&](const TakeBytes& take) {
        return take(std::as_bytes(std::span(manifest)));
      }).status());
  // The order makes a checkpoint under its own name complete: its files and their names are on the
  // disk before the rename.
  LEAT_RETURN_IF_ERROR(files_.sync_directory(temporary_));
  LEAT_ASSIGN_OR_RETURN(const bool replaces, files_.exists(path()));
  if (replaces) {
    LEAT_RETURN_IF_ERROR(files_.exchange(temporary_, path()));
  } else {
    LEAT_RETURN_IF_ERROR(files_.rename(temporary_, path()));
  }
  LEAT_RETURN_IF_ERROR(files_.sync_directory(folder_));
  return replaces ? files_.remove_all(temporary_) : Status();
}

Result<Manifest> write_checkpoint(Files& files, const std::string& folder,
                                  const Checkpoint& checkpoint) {
  LEAT_ASSIGN_OR_RETURN(auto writer,
                        CheckpointWriter::begin(files, folder, checkpoint.manifest.step, 1));
  LEAT_RETURN_IF_ERROR(writer->write_part(0, checkpoint.variables));
  return writer->commit(checkpoint.manifest);
}

Result<Checkpoint> read_checkpoint(Files& files, const std::string& path) {
  Checkpoint checkpoint;
  LEAT_ASSIGN_OR_RETURN(checkpoint.manifest,
                        visit_parts(files, path, [&](const ReadableFile& file) {
                          return read_part(file, checkpoint.variables);
                        }));
  return checkpoint;
}

Result<Manifest> verify_checkpoint(Files& files, const std::string& path) {
  return visit_parts(files, path, [](const ReadableFile&) { return Status(); });
}

Result<std::vector<std::string>> list_checkpoints(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(folder));
  std::vector<std::string> paths;
  if (!exists) return paths;
  LEAT_ASSIGN_OR_RETURN(const auto names, files.list(folder));
  for (const std::string& name : names) {
    if (name.starts_with(kName)) paths.push_back(folder + "/" + name);
  }
  // Sort by step. Names are longer after ten to the eighth steps.
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);
  });
  return paths;
}

Result<Checkpoint> read_latest_checkpoint(Files& files, const std::string& folder,
                                          std::vector<std::string>& refused) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  for (const std::string& path : paths) {
    auto checkpoint = read_checkpoint(files, path);
    // Reads whole checkpoints until one verifies; usually the first does.
    if (checkpoint.ok()) return checkpoint;
    // One whose key is not here is not damaged, and must not give way to an older one.
    if (lacks_key(checkpoint.status())) return invalid_argument(checkpoint.status().message());
    refused.push_back(checkpoint.status().message());
  }
  return failed_precondition(
      cat("'", folder, "': expected a checkpoint, found ",
          paths.empty() ? "none" : cat("only damaged ones: ", join(refused, "; "))));
}

Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  // First rename them, and sync that: a folder with a checkpoint's name must be complete.
  bool renamed = false;
  // The newest one always stays.
  for (size_t i = static_cast<size_t>(std::max<int64_t>(1, keep)); i < paths.size(); ++i) {
    const std::string gone = cat(folder, "/", kTemporary, paths[i].substr(folder.size() + 1));
    LEAT_RETURN_IF_ERROR(files.remove_all(gone));
    LEAT_RETURN_IF_ERROR(files.rename(paths[i], gone));
    renamed = true;
  }
  if (renamed) LEAT_RETURN_IF_ERROR(files.sync_directory(folder));
  return remove_leftovers(files, folder);
}

Status remove_leftovers(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const auto names, files.list(folder));
  for (const std::string& name : names) {
    if (name.starts_with(kTemporary)) LEAT_RETURN_IF_ERROR(files.remove_all(folder + "/" + name));
  }
  return {};
}

}  // namespace leat
