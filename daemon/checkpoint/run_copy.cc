#include "daemon/checkpoint/run_copy.h"

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/run_files.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

constexpr std::string_view kCheckpointFolder = "checkpoints/";
// Deeper folders are none of a run.
constexpr int kMostFolders = 8;

bool is_of_checkpoints(const std::string& name) {
  return name.starts_with(kCheckpointFolder) || name.starts_with("damaged-");
}

// Writes the file at once as a whole: a store does so by itself.
Status put_file(Files& files, const std::string& path,
                const std::function<Status(const TakeBytes&)>& fill) {
  if (!is_store_path(path)) {
    LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(path)));
    return write_file_atomically(files, path, fill);
  }
  LEAT_ASSIGN_OR_RETURN(const auto out, files.create(path));
  LEAT_RETURN_IF_ERROR(fill([&](std::span<const std::byte> bytes) { return out->append(bytes); }));
  return out->close();
}

// Copies a file as it was when it was opened: bytes that are written behind them stay out.
Status copy_open(Files& files, const ReadableFile& in, const std::string& to) {
  return put_file(files, to, [&](const TakeBytes& take) { return read_in_pieces(in, take); });
}

Status copy_file(Files& files, const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const auto in, files.open(from));
  return copy_open(files, *in, to);
}

Status copy_part(Files& files, const ReadableFile& in, const std::string& to,
                 const CheckpointPart& part) {
  return put_file(files, to, [&](const TakeBytes& take) -> Status {
    Sha256 hash;
    LEAT_RETURN_IF_ERROR(read_in_pieces(in, [&](std::span<const std::byte> bytes) {
      hash.update(bytes);
      return take(bytes);
    }));
    const std::string received = to_hex(hash.finish());
    if (received == part.sha256 && in.size() == part.bytes) return {};
    return invalid_argument(cat("'", in.path(), "': expected SHA-256 ", part.sha256, " as in the ",
                                "manifest, received ", received));
  });
}

// Copies a checkpoint into a folder without one, its manifest last.
Status copy_whole(Files& files, const std::string& from, const std::string& to,
                  const Manifest& manifest) {
  // All are opened first: a run may remove its older checkpoints meanwhile.
  const size_t parts = manifest.parts.size();
  std::vector<std::unique_ptr<ReadableFile>> open;
  for (size_t i = 0; i < parts; ++i) {
    LEAT_ASSIGN_OR_RETURN(open.emplace_back(), files.open(cat(from, "/", part_name(i, parts))));
  }
  LEAT_ASSIGN_OR_RETURN(const auto last, files.open(cat(from, "/", kManifestName)));
  for (size_t i = 0; i < parts; ++i) {
    LEAT_RETURN_IF_ERROR(
        copy_part(files, *open[i], cat(to, "/", part_name(i, parts)), manifest.parts[i]));
  }
  return copy_open(files, *last, cat(to, "/", kManifestName));
}

// The names of files below a folder of any place, but for those of checkpoints.
Status add_names(Files& files, const std::string& folder, const std::string& prefix, int depth,
                 std::vector<std::string>& names) {
  LEAT_ASSIGN_OR_RETURN(const auto found, files.list(folder));
  for (const std::string& each : found) {
    const std::string name = prefix + each, path = cat(folder, "/", each);
    if (is_of_checkpoints(name + "/")) continue;
    if (files.open(path).ok()) {
      names.push_back(name);
    } else if (depth > 0) {
      LEAT_RETURN_IF_ERROR(add_names(files, path, name + "/", depth - 1, names));
    }
  }
  return {};
}

}  // namespace

Status RunCopy::expect_none() const {
  LEAT_ASSIGN_OR_RETURN(const auto found,
                        list_checkpoints(files_, cat(places_.to, "/", "checkpoints")));
  if (found.empty()) return {};
  return failed_precondition(cat("'", places_.to, "': expected no checkpoints of another training ",
                                 "in the place of the copy, found '", found.front(), "'"));
}

Status RunCopy::copy_files() {
  for (const RunFile& file : list_run_files(places_.run)) {
    const std::pair now{file.size, file.changed};
    const auto before = copied_.find(file.name);
    if (is_of_checkpoints(file.name) || (before != copied_.end() && before->second == now))
      continue;
    LEAT_RETURN_IF_ERROR(
        copy_file(files_, cat(places_.run, "/", file.name), cat(places_.to, "/", file.name)));
    copied_[file.name] = now;
  }
  return {};
}

Status RunCopy::copy_checkpoint(const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(files_, from));
  const auto there = read_manifest(files_, to);
  if (there.ok() && parent_of(*there).sha256 == parent_of(manifest).sha256) return {};
  // One of the same step is of a training that was gone back behind, or was not copied to its end.
  LEAT_RETURN_IF_ERROR(remove_checkpoint(to));
  return copy_whole(files_, from, to, manifest);
}

Status RunCopy::copy(int64_t step) {
  const std::string name = checkpoint_name(step);
  LEAT_RETURN_IF_ERROR(copy_files());
  LEAT_RETURN_IF_ERROR(copy_checkpoint(cat(places_.checkpoints, "/", name),
                                       cat(places_.to, "/", kCheckpointFolder, name)));
  return prune(step);
}

bool RunCopy::has(int64_t step) const {
  const auto there = files_.exists(cat(places_.checkpoints, "/", checkpoint_name(step)));
  return there.ok() && *there;
}

Status RunCopy::prune(int64_t newest) {
  const std::string folder = cat(places_.to, "/checkpoints");
  const std::string last = cat(folder, "/", checkpoint_name(newest));
  LEAT_ASSIGN_OR_RETURN(const auto found, list_checkpoints(files_, folder));
  bool is_older = false;
  int64_t kept = 0;
  for (const std::string& path : found) {  // the newest first
    is_older = is_older || path == last;
    if (is_older && kept++ < places_.keep) continue;
    LEAT_RETURN_IF_ERROR(remove_checkpoint(path));
  }
  return {};
}

Status RunCopy::remove_checkpoint(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(path));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(const auto names, files_.list(path));
  // Without its manifest a checkpoint is none.
  for (const std::string& name : names) {
    if (name == kManifestName) LEAT_RETURN_IF_ERROR(files_.remove(cat(path, "/", name)));
  }
  for (const std::string& name : names) {
    if (name != kManifestName) LEAT_RETURN_IF_ERROR(files_.remove(cat(path, "/", name)));
  }
  return is_store_path(path) ? Status() : files_.remove_all(path);
}

Result<int64_t> bring_run(Files& files, const std::string& from, const std::string& to,
                          std::vector<std::string>& refused) {
  LEAT_ASSIGN_OR_RETURN(const bool taken, files.exists(cat(to, "/job.yaml")));
  if (taken) return failed_precondition(cat("'", to, "': expected a folder without a run"));
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, cat(from, "/checkpoints")));
  if (paths.empty())
    return failed_precondition(cat("'", from, "': expected a run with a checkpoint, found none"));
  for (const std::string& path : paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::string there = cat(to, "/", kCheckpointFolder, name);
    Result<Manifest> manifest = read_manifest(files, path);
    Status status = manifest.status();
    if (status.ok()) status = copy_whole(files, path, there, *manifest);
    if (!status.ok()) {
      if (status.code() == Code::resource_exhausted) return status;
      refused.push_back(status.message());
      LEAT_RETURN_IF_ERROR(files.remove_all(there));
      continue;
    }
    std::vector<std::string> names;
    LEAT_RETURN_IF_ERROR(add_names(files, from, "", kMostFolders, names));
    // The job file comes last: with it the folder is a run.
    std::erase(names, "job.yaml");
    names.push_back("job.yaml");
    for (const std::string& each : names)
      LEAT_RETURN_IF_ERROR(copy_file(files, cat(from, "/", each), cat(to, "/", each)));
    return manifest->step;
  }
  return failed_precondition(cat(
      "'", from,
      "': expected a checkpoint that is whole, found only damaged ones: ", join(refused, "; ")));
}

}  // namespace leat
