#include "daemon/master/wire_saved_files.h"

#include <future>
#include <utility>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/grammar.h"
#include "daemon/master/wire_file_download.h"
#include "daemon/master/wire_file_upload.h"
#include "devices/base/text.h"
#include "ops/data/saved_files.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 30;  // of a file
constexpr std::chrono::seconds kSilence{60};         // between two bytes of an upload
constexpr std::chrono::seconds kOpen{115};           // to open and hash a file
constexpr std::chrono::seconds kRead{30};            // to read a piece

// Makes the temporary file of an upload. Runs where files are.
Result<std::unique_ptr<ArrivingBlob>> begin(Files& files, const std::string& folder,
                                            const std::string& path, uint64_t number,
                                            const BlobInfo& info) {
  LEAT_ASSIGN_OR_RETURN(const std::string place, locate_saved(folder, path));
  LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(place)));
  const std::string temporary = cat(place, ".", number, ".tmp");
  // A leftover of a master that was killed: its numbers began at 0, too.
  LEAT_RETURN_IF_ERROR(files.remove_all(temporary));
  return ArrivingBlob::begin(files, place, temporary, info.sha256, info.size);
}

Result<std::optional<SavedFilesOfJobs::Offer>> open_and_hash(Files& files,
                                                             const std::string& folder,
                                                             const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const std::string place, locate_saved(folder, path));
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(place));
  if (!there) return std::optional<SavedFilesOfJobs::Offer>();
  LEAT_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, files.open(place));
  Sha256 hash;
  LEAT_RETURN_IF_ERROR(read_in_pieces(*file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    return Status();
  }));
  const BlobInfo info{file->size(), hash.finish()};
  return std::optional<SavedFilesOfJobs::Offer>({info, std::move(file)});
}

}  // namespace

SavedFilesOfJobs::SavedFilesOfJobs(RpcLoop& loop, Files& files, const JobFolders& folders)
    : loop_(loop), files_(files), folders_(folders) {}

Result<wire::Upload::Client> SavedFilesOfJobs::receive(const std::string& job,
                                                       const std::string& path,
                                                       const BlobInfo& info,
                                                       std::shared_ptr<void> permit,
                                                       std::function<Status()> valid) {
  LEAT_RETURN_IF_ERROR(check_saved_path(path));
  if (!is_left_file(path))
    return invalid_argument(
        cat("path: expected a name that clients can fetch, received ", quoted_start(path)));
  if (info.size > kMostBytes) {
    return resource_exhausted(cat("'", path, "': expected at most ", human_bytes(kMostBytes),
                                  ", received ", human_bytes(info.size)));
  }
  auto begin_file = [&files = files_, folder = folders_.saved_of(job), path, number = received_++,
                     info] { return begin(files, folder, path, number, info); };
  return receive_file(
      {loop_, disk_, info, kSilence, std::move(begin_file), std::move(permit), std::move(valid)});
}

Status SavedFilesOfJobs::forget(const std::string& job) {
  const auto removed = std::make_shared<std::promise<Status>>();
  std::future<Status> outcome = removed->get_future();
  const std::string folder = folders_.saved_of(job);
  if (!disk_.post(
          [&files = files_, folder, removed] { removed->set_value(files.remove_all(folder)); }))
    return cancelled("the master is stopping");
  if (outcome.wait_for(kOpen) != std::future_status::ready)
    return unavailable(
        cat("'", folder, "': expected it to be removed within ", kOpen.count(), " s"));
  return outcome.get();
}

kj::Promise<Result<std::optional<SavedFilesOfJobs::Offer>>> SavedFilesOfJobs::open(
    const std::string& job, const std::string& path) {
  auto waiting = answered_elsewhere<std::optional<Offer>>(loop_, "Registry.savedFile");
  (void)disk_.post([&files = files_, folder = folders_.saved_of(job), path, done = waiting.done] {
    done(open_and_hash(files, folder, path));
  });
  return within(kj::mv(waiting.promise), loop_.context().timer, kOpen, "Registry.savedFile");
}

wire::Download::Client SavedFilesOfJobs::offer(const Offer& opened, std::shared_ptr<void> permit) {
  auto read = [this](std::shared_ptr<const ReadableFile> file, uint64_t offset, uint64_t size) {
    auto waiting = answered_elsewhere<Bytes>(loop_, "Download.read");
    (void)disk_.post([file = std::move(file), offset, size, done = waiting.done] {
      Bytes bytes(size);
      const Status status = file->read(offset, bytes);
      status.ok() ? done(std::move(bytes)) : done(status);
    });
    return within(kj::mv(waiting.promise), loop_.context().timer, kRead, "Download.read");
  };
  return offer_file(opened.file, std::move(read), std::move(permit));
}

}  // namespace leat
