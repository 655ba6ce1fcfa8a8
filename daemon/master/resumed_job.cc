#include "daemon/master/resumed_job.h"

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A job that runs removes its older checkpoints and goes on with its metrics meanwhile.
constexpr int kTries = 5;

// As manifests have it.
Result<Sha256Digest> digest_of(const std::string& hex) {
  Sha256Digest digest{};
  if (from_hex(hex, digest)) return digest;
  return invalid_argument(cat("SHA-256: expected 64 hexadecimal digits, received '", hex, "'"));
}

AttachedFile blob_of(std::string name, const Sha256Digest& sha256, uint64_t size) {
  AttachedFile file;
  file.name = std::move(name);
  file.sha256 = sha256;
  file.size = size;
  return file;
}

// REQUIRES: it verifies as the manifest has it.
Status keep_parts(Files& files, Blobs& blobs, const std::string& path, const Manifest& manifest,
                  std::vector<AttachedFile>& kept) {
  const std::string prefix = cat(kResumed, "checkpoints/", checkpoint_name(manifest.step), "/");
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    const std::string name = part_name(i, manifest.parts.size());
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(cat(path, "/", name)));
    LEAT_ASSIGN_OR_RETURN(const Sha256Digest sha256, digest_of(manifest.parts[i].sha256));
    // A part of a checkpoint never changes once it is written, so the blob may be the same file.
    LEAT_RETURN_IF_ERROR(blobs.share(*file, sha256));
    kept.push_back(blob_of(prefix + name, sha256, file->size()));
  }
  // The manifest comes after its parts. It is small, so it is written anew.
  LEAT_ASSIGN_OR_RETURN(const Bytes text,
                        read_file(files, cat(path, "/", kManifestName), kManifestBytes));
  const Sha256Digest sha256 = leat::sha256(text);
  LEAT_RETURN_IF_ERROR(blobs.put(sha256, text));
  kept.push_back(blob_of(prefix + kManifestName, sha256, text.size()));
  return {};
}

// As they are now: rows may come while they are copied.
Status keep_metrics(Files& files, Blobs& blobs, const std::string& folder,
                    std::vector<AttachedFile>& kept) {
  const std::string path = folder + "/metrics.jsonl";
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(path));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  LEAT_ASSIGN_OR_RETURN(const std::string hex, sha256_of(*file));
  LEAT_ASSIGN_OR_RETURN(const Sha256Digest sha256, digest_of(hex));
  // The first job may add rows to its own file later, so this one is copied.
  LEAT_RETURN_IF_ERROR(blobs.copy(*file, sha256));
  kept.push_back(blob_of(cat(kResumed, "metrics.jsonl"), sha256, file->size()));
  return {};
}

Result<KeptCheckpoint> keep_one_of(Files& files, Blobs& blobs, const std::string& job,
                                   const std::string& folder,
                                   const std::vector<std::string>& paths) {
  KeptCheckpoint kept;
  for (const std::string& path : paths) {
    // The paths have the newest checkpoint first. One that is damaged is passed over, and named.
    const auto manifest = verify_checkpoint(files, path);
    if (!manifest.ok()) {
      // An older one in its place would lose steps.
      if (lacks_key(manifest.status())) return failed_precondition(manifest.status().message());
      kept.passed_over.push_back(manifest.status().message());
      continue;
    }
    LEAT_RETURN_IF_ERROR(keep_parts(files, blobs, path, *manifest, kept.files));
    LEAT_RETURN_IF_ERROR(keep_metrics(files, blobs, folder, kept.files));
    return kept;
  }
  if (paths.empty())
    return failed_precondition(cat("job '", job, "': expected a checkpoint, it has left none yet"));
  return failed_precondition(cat("job '", job, "': expected a checkpoint that is whole, found ",
                                 join(kept.passed_over, "; ")));
}

// In pieces, or as the same files where that can be.
Status copy_checkpoint(Files& files, const std::string& path, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const Manifest manifest, verify_checkpoint(files, path));
  const size_t parts = manifest.parts.size();
  // The checkpoint appears under its name only with commit(), so a crash leaves none that is half
  // there.
  LEAT_ASSIGN_OR_RETURN(auto writer, CheckpointWriter::begin(files, folder, manifest.step, parts));
  for (size_t i = 0; i < parts; ++i) {
    const std::string from = cat(path, "/", part_name(i, parts));
    if (files.link(from, writer->place(i).path()).ok()) {
      LEAT_RETURN_IF_ERROR(writer->wrote_part(i, manifest.parts[i]));
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(from));
    LEAT_RETURN_IF_ERROR(writer->fill_part(
        i, [&](const TakeBytes& take) { return read_checked(*file, manifest.parts[i], take); }));
  }
  return writer->commit(manifest).status();
}

Status copy_metrics(Files& files, const std::string& from, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(from));
  if (!there) return {};
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(from));
  return write_file_atomically(files, folder + "/metrics.jsonl",
                               [&](const TakeBytes& take) { return read_in_pieces(*file, take); });
}

}  // namespace

Result<KeptCheckpoint> keep_checkpoint(Files& files, Blobs& blobs, const std::string& job,
                                       const std::string& folder) {
  for (int tries = 1;; ++tries) {
    // A checkpoint may vanish while it is read, if its job writes newer ones. Then the list has
    // changed, or a file was not as expected, and the next try sees the newer ones.
    LEAT_ASSIGN_OR_RETURN(const auto before, list_checkpoints(files, folder + "/checkpoints"));
    auto kept = keep_one_of(files, blobs, job, folder, before);
    if (kept.ok() || tries == kTries) return kept;
    LEAT_ASSIGN_OR_RETURN(const auto after, list_checkpoints(files, folder + "/checkpoints"));
    const bool changes = after != before || kept.status().code() == Code::invalid_argument;
    if (!changes) return kept;
  }
}

Result<bool> take_checkpoint(Files& files, const std::string& submitted,
                             const std::string& folder) {
  const std::string own = folder + "/checkpoints";
  LEAT_ASSIGN_OR_RETURN(const auto there, list_checkpoints(files, own));
  // The job's own checkpoint is newer than the one that it began with.
  if (!there.empty()) return true;
  const std::string from = cat(submitted, "/", kResumed);
  LEAT_ASSIGN_OR_RETURN(const auto came, list_checkpoints(files, from + "checkpoints"));
  if (came.empty()) return false;
  // Before the checkpoint, with which it is done.
  LEAT_RETURN_IF_ERROR(copy_metrics(files, from + "metrics.jsonl", folder));
  LEAT_RETURN_IF_ERROR(copy_checkpoint(files, came.front(), own));
  return true;
}

}  // namespace leat
