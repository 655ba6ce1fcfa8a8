#include "daemon/checkpoint/run_copy.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/run_files.h"
#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

constexpr std::string_view kCheckpointFolder = "checkpoints/";
// Deeper folders are none of a run, but for those of files that its graph has saved.
constexpr int kMostFolders = 8;
constexpr size_t kLongestPath = 4096;
// A longer name may leave no room for that of a temporary file beside it.
constexpr size_t kLongName = 200;

bool is_of_checkpoints(const std::string& name) {
  return name.starts_with(kCheckpointFolder) || name.starts_with("damaged-");
}

bool is_saved(const std::string& name) { return name.starts_with(kSavedFolder); }

// Writes the file at once as a whole, with a temporary file of the same name in a folder beside it.
// SealedFiles finds the role of the file by that name.
Status put_long_name(Files& files, const std::string& path,
                     const std::function<Status(const TakeBytes&)>& fill) {
  static std::atomic<uint64_t> count{0};
  const std::string folder = directory_of(path), name = path.substr(path.rfind('/') + 1);
  const std::string beside = cat(folder, "/", ::getpid(), "-", count.fetch_add(1), ".tmp");
  const std::string temporary = cat(beside, "/", name);
  LEAT_RETURN_IF_ERROR(files.remove_all(beside));  // of a process that was killed
  LEAT_RETURN_IF_ERROR(files.make_directories(beside));
  Status done = write_synced(files, temporary, fill).status();
  if (done.ok()) done = files.rename(temporary, path);
  (void)files.remove_all(beside);
  return done.ok() ? files.sync_directory(folder) : done;
}

// Writes the file at once as a whole: a store does so by itself.
Status put_file(Files& files, const std::string& path,
                const std::function<Status(const TakeBytes&)>& fill) {
  if (!is_store_path(path)) {
    LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(path)));
    const bool is_long = path.size() - path.rfind('/') > kLongName;
    return is_long ? put_long_name(files, path, fill) : write_file_atomically(files, path, fill);
  }
  LEAT_ASSIGN_OR_RETURN(const auto out, files.create(path));
  LEAT_RETURN_IF_ERROR(fill([&](std::span<const std::byte> bytes) { return out->append(bytes); }));
  return out->close();
}

// The same as `take`, until `stopped`.
TakeBytes until(const std::function<bool()>& stopped, const ReadableFile& in, TakeBytes take) {
  return [&stopped, &in, take = std::move(take)](std::span<const std::byte> bytes) {
    return stopped && stopped() ? cancelled(cat("'", in.path(), "': its copy was given up"))
                                : take(bytes);
  };
}

// The end of the copy of a file, and whether a failure is that of the file which was read.
struct FileCopied {
  Status status;
  bool is_of_source = false;
};

// Copies a file as it was when it was opened: bytes that are written behind them stay out.
FileCopied copy_file(Files& files, const std::function<bool()>& stopped, const std::string& from,
                     const std::string& to) {
  const auto in = files.open(from);
  if (!in.ok()) return {in.status(), true};
  FileCopied out;
  out.status = put_file(files, to, [&](const TakeBytes& take) {
    bool is_taken = true;
    const Status read =
        read_in_pieces(**in, until(stopped, **in, [&](std::span<const std::byte> bytes) {
          Status taken = take(bytes);
          is_taken = taken.ok();
          return taken;
        }));
    out.is_of_source = !read.ok() && is_taken && read.code() != Code::cancelled;
    return read;
  });
  return out;
}

// A checkpoint whose files are open: a run may remove it, or write that step again, meanwhile.
struct OpenCheckpoint {
  Bytes text;  // of the manifest
  Manifest manifest;
  std::vector<std::unique_ptr<ReadableFile>> parts;
};

Result<OpenCheckpoint> open_checkpoint(Files& files, const std::string& path) {
  OpenCheckpoint out;
  LEAT_ASSIGN_OR_RETURN(out.text, read_file(files, cat(path, "/", kManifestName), kManifestBytes));
  LEAT_ASSIGN_OR_RETURN(out.manifest, manifest_in(path, out.text));
  const size_t parts = out.manifest.parts.size();
  for (size_t i = 0; i < parts; ++i) {
    LEAT_ASSIGN_OR_RETURN(out.parts.emplace_back(),
                          files.open(cat(path, "/", part_name(i, parts))));
  }
  return out;
}

// Passes the bytes of a part on, until `stopped`: see read_checked().
Status pass_part(const OpenCheckpoint& from, size_t i, const std::function<bool()>& stopped,
                 const TakeBytes& take) {
  const ReadableFile& in = *from.parts[i];
  return read_checked(in, from.manifest.parts[i], until(stopped, in, take));
}

// Copies a checkpoint into a folder without one, its manifest last.
Status copy_parts(Files& files, const OpenCheckpoint& from, const std::string& to,
                  const std::function<bool()>& stopped) {
  for (size_t i = 0; i < from.parts.size(); ++i) {
    LEAT_RETURN_IF_ERROR(
        put_file(files, cat(to, "/", part_name(i, from.parts.size())),
                 [&](const TakeBytes& take) { return pass_part(from, i, stopped, take); }));
  }
  return put_file(files, cat(to, "/", kManifestName),
                  [&](const TakeBytes& take) { return take(from.text); });
}

// The names of files below a folder of any place, but for those of checkpoints.
Status add_names(Files& files, const std::string& folder, const std::string& prefix, int depth,
                 std::vector<std::string>& names) {
  LEAT_ASSIGN_OR_RETURN(const auto found, files.list(folder));
  for (const std::string& each : found) {
    const std::string name = prefix + each, path = cat(folder, "/", each);
    // A store may list any name, also one that leads out of the folder.
    if (is_of_checkpoints(name + "/") || !is_run_file(name) || name.ends_with(".tmp")) continue;
    const bool in_store = is_store_path(path), saved = is_saved(name);
    std::error_code error;
    if (saved && !in_store && std::filesystem::is_symlink(path, error)) continue;
    // A file has no list on a disk, and an empty one in a store.
    const auto below = files.list(path);
    if (in_store) LEAT_RETURN_IF_ERROR(below.status());
    if (!below.ok() || (in_store && below->empty())) {
      names.push_back(name);
    } else if (saved ? name.size() < kLongestPath : depth > 0) {
      LEAT_RETURN_IF_ERROR(add_names(files, path, name + "/", depth - 1, names));
    }
  }
  return {};
}

}  // namespace

Status RunCopy::expect_none() const {
  LEAT_ASSIGN_OR_RETURN(const auto found, list_checkpoints(files_, places_.copies()));
  if (found.empty()) return {};
  return failed_precondition(cat("'", places_.to, "': expected no checkpoints of another training ",
                                 "in the place of the copy, found '", found.front(), "'"));
}

Status RunCopy::copy_changed() {
  left_out_ = {};
  bool takes_saved = true;
  for (const RunFile& file : list_run_files(places_.run, RunNames::all)) {
    const std::pair now{file.size, file.changed};
    const auto before = copied_.find(file.name);
    if (is_of_checkpoints(file.name) || (before != copied_.end() && before->second == now))
      continue;
    if (is_saved(file.name) && !takes_saved) continue;
    const std::string from = cat(places_.run, "/", file.name);
    const auto [done, is_of_source] =
        copy_file(files_, stopped_, from, cat(places_.to, "/", file.name));
    if (!done.ok()) {
      const auto there = files_.exists(from);
      if (there.ok() && !*there) continue;  // the run has removed it meanwhile
      if (!is_saved(file.name) || done.code() == Code::cancelled) return done;
      // A place that does not answer would keep the checkpoint waiting for each of many files.
      const Code code = done.code();
      if (!is_of_source && (code == Code::unavailable || code == Code::deadline_exceeded))
        takes_saved = false;
      if (left_out_.ok()) left_out_ = done;
      continue;
    }
    copied_[file.name] = now;
  }
  return {};
}

Status RunCopy::copy_files() {
  LEAT_RETURN_IF_ERROR(copy_changed());
  return left_out_;
}

Status RunCopy::copy_checkpoint(const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const OpenCheckpoint open, open_checkpoint(files_, from));
  const std::string manifest = cat(to, "/", kManifestName);
  LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(manifest));
  if (there) {
    LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(files_, manifest, kManifestBytes));
    if (text == open.text) return {};
    // A training that went back has another checkpoint of this step. No damaged one replaces it.
    for (size_t i = 0; i < open.parts.size(); ++i) {
      LEAT_RETURN_IF_ERROR(pass_part(open, i, stopped_, pass_over));
    }
  }
  LEAT_RETURN_IF_ERROR(remove_checkpoint(to));
  const Status copied = copy_parts(files_, open, to, stopped_);
  if (!copied.ok()) (void)remove_checkpoint(to);  // parts alone are of no use
  return copied;
}

Result<bool> RunCopy::is_ahead(int64_t step) const {
  LEAT_ASSIGN_OR_RETURN(const auto found, list_checkpoints(files_, places_.copies()));
  for (const std::string& path : found) {  // the newest first
    if (path.ends_with("/" + checkpoint_name(step))) return false;
    const auto manifest = read_manifest(files_, path);
    if (manifest.ok()) return manifest->step > step;
    // One without a manifest was not copied to its end.
    LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(cat(path, "/", kManifestName)));
    if (there) return manifest.status();
  }
  return false;
}

Status RunCopy::copy(int64_t step) {
  const std::string name = checkpoint_name(step);
  LEAT_RETURN_IF_ERROR(copy_changed());
  LEAT_RETURN_IF_ERROR(
      copy_checkpoint(cat(places_.checkpoints(), "/", name), cat(places_.copies(), "/", name)));
  return prune(step);
}

bool RunCopy::has(int64_t step) const {
  const auto there = files_.exists(cat(places_.checkpoints(), "/", checkpoint_name(step)));
  return there.ok() && *there;
}

Status RunCopy::prune(int64_t newest) {
  const std::string folder = places_.copies();
  const std::string last = cat(folder, "/", checkpoint_name(newest));
  LEAT_ASSIGN_OR_RETURN(const auto found, list_checkpoints(files_, folder));
  bool is_older = false;
  int64_t kept = 0;
  for (const std::string& path : found) {  // the newest first
    is_older = is_older || path == last;
    bool counts = is_older && kept < places_.keep;
    if (counts) {
      LEAT_ASSIGN_OR_RETURN(counts, files_.exists(cat(path, "/", kManifestName)));
    }
    kept += counts;
    if (!counts) LEAT_RETURN_IF_ERROR(remove_checkpoint(path));
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

namespace {

// An empty folder of a disk, or none.
Status check_free(Files& files, const std::string& to) {
  if (is_store_path(to)) return invalid_argument(cat("'", to, "': expected a folder of a disk"));
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(to));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(const auto names, files.list(to));
  if (names.empty()) return {};
  return failed_precondition(
      cat("'", to, "': expected an empty folder or none, found '", names.front(), "' in it"));
}

// Whether `why`, the error of a checkpoint, says that it is damaged or was not copied to its end,
// and not that its place could not be read.
Result<bool> is_damaged(Files& files, const std::string& path, const Status& why) {
  if (why.code() != Code::failed_precondition) return why.code() == Code::invalid_argument;
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(cat(path, "/", kManifestName)));
  if (!there) return true;
  const auto manifest = read_manifest(files, path);
  for (size_t i = 0; manifest.ok() && i < manifest->parts.size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const bool part,
                          files.exists(cat(path, "/", part_name(i, manifest->parts.size()))));
    if (!part) return true;
  }
  return false;
}

}  // namespace

namespace {

// Whether a run is brought without a saved file because of such a failure, of the file itself. A
// store that does not answer, or refuses, may have the file; so has the owner of a key that is not
// here; and a place or a process that lacks room can be helped.
bool may_lack(const std::string& name, const std::string& path, const FileCopied& copied) {
  const Status& why = copied.status;
  if (!is_saved(name) || !copied.is_of_source || lacks_key(why)) return false;
  if (is_store_path(path)) return why.code() == Code::invalid_argument;
  return why.code() != Code::cancelled && why.code() != Code::resource_exhausted;
}

// Copies what is beside the checkpoints.
Status bring_files(Files& files, const std::string& from, const std::string& to,
                   std::vector<std::string>& refused) {
  std::vector<std::string> names;
  LEAT_RETURN_IF_ERROR(add_names(files, from, "", kMostFolders, names));
  // The job file comes last: with it the folder is a run.
  std::erase(names, "job.yaml");
  names.push_back("job.yaml");
  for (const std::string& each : names) {
    const std::string path = cat(from, "/", each);
    FileCopied copied = copy_file(files, {}, path, cat(to, "/", each));
    if (may_lack(each, path, copied)) {
      refused.push_back(copied.status.message());
    } else {
      LEAT_RETURN_IF_ERROR(std::move(copied.status));
    }
  }
  return {};
}

}  // namespace

Result<int64_t> bring_run(Files& files, const std::string& from, const std::string& to,
                          std::vector<std::string>& refused) {
  LEAT_RETURN_IF_ERROR(check_free(files, to));
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, cat(from, "/checkpoints")));
  if (paths.empty())
    return failed_precondition(cat("'", from, "': expected a run with a checkpoint, found none"));
  for (const std::string& path : paths) {
    const std::string there = cat(to, "/", kCheckpointFolder, path.substr(path.rfind('/') + 1));
    const auto open = open_checkpoint(files, path);
    const Status status = open.ok() ? copy_parts(files, *open, there, {}) : open.status();
    if (!status.ok()) {
      LEAT_ASSIGN_OR_RETURN(const bool damaged, is_damaged(files, path, status));
      if (!damaged) return status;
      refused.push_back(status.message());
      LEAT_RETURN_IF_ERROR(files.remove_all(there));
      continue;
    }
    LEAT_RETURN_IF_ERROR(bring_files(files, from, to, refused));
    return open->manifest.step;
  }
  return failed_precondition(cat(
      "'", from,
      "': expected a checkpoint that is whole, found only damaged ones: ", join(refused, "; ")));
}

}  // namespace leat
