// leat fetch: copies the files that a job has left, or has written so far.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kCheckpoints = "checkpoints/";
// A job that runs replaces its checkpoints. After so many attempts, fetching one takes longer than
// the job keeps it.
constexpr int kMostListings = 20;

// Returns "checkpoints/step-00000500" for a file of that checkpoint; "" for any other.
std::string folder_of_checkpoint(const std::string& name) {
  const size_t end = name.rfind('/');
  const bool is_part = name.starts_with(kCheckpoints) && end >= kCheckpoints.size();
  return is_part ? name.substr(0, end) : "";
}

// A temporary folder for a checkpoint while its files are fetched. The checkpoint then appears at
// its place as a whole or not at all, even if the job removes its own copy meanwhile.
class Staging {
 public:
  Staging(Files& files, const std::string& folder)
      : files_(files), path_(cat(folder, "/.fetch.tmp-", new_request_id().substr(0, 8))) {}
  ~Staging() { (void)files_.remove_all(path_); }

  const std::string& path() const { return path_; }
  // Removes the folder with everything in it. This is called before each checkpoint and after its
  // move.
  Status clear() { return files_.remove_all(path_); }
  // Moves a checkpoint to its place. It replaces one that was fetched before, or that another
  // command fetches at the same time.
  Status move(const std::string& checkpoint, const std::string& folder) {
    const std::string from = path_ + "/" + checkpoint, to = folder + "/" + checkpoint;
    LEAT_RETURN_IF_ERROR(files_.make_directories(directory_of(to)));
    Status moved;
    // Another command may make or remove the place between exists() and the move, so it is tried
    // again.
    for (int tries = 0; tries < 3; ++tries) {
      LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(to));
      moved = there ? replace(from, to) : files_.rename(from, to);
      if (moved.ok()) break;
    }
    LEAT_RETURN_IF_ERROR(moved);
    // Without this, a crash of the machine could undo the rename.
    LEAT_RETURN_IF_ERROR(files_.sync_directory(directory_of(to)));
    return clear();
  }

 private:
  Status replace(const std::string& from, const std::string& to) {
    if (files_.exchange(from, to).ok()) return {};
    const std::string old = path_ + "/old";  // for a disk that does not support exchange
    LEAT_RETURN_IF_ERROR(files_.remove_all(old));
    LEAT_RETURN_IF_ERROR(files_.rename(to, old));
    const Status moved = files_.rename(from, to);
    // The old checkpoint comes back, rather than none.
    if (!moved.ok()) (void)files_.rename(old, to);
    return moved;
  }

  Files& files_;
  const std::string path_;
};

class Fetch {
 public:
  Fetch(ClusterClient& client, const std::string& job, const std::string& folder)
      : client_(client), job_(job), folder_(folder), staging_(real_files(), folder) {}

  Status named(const std::vector<std::string>& names) {
    for (const std::string& name : names) LEAT_RETURN_IF_ERROR(fetch(name));
    return {};
  }

  // Fetches the files that are not there yet. If the job still runs, it may remove listed files,
  // mostly old checkpoints. Returns true in that case, after a note: the caller must list the files
  // again.
  Result<bool> all(const std::vector<RemoteFile>& files) {
    // Checkpoints come first, because a running job removes them soonest. Each is fetched as a
    // whole.
    std::map<std::string, std::vector<std::string>> checkpoints;
    for (const RemoteFile& file : files) {
      const std::string checkpoint = folder_of_checkpoint(file.name);
      if (!checkpoint.empty()) checkpoints[checkpoint].push_back(file.name);
    }
    for (const auto& [checkpoint, names] : checkpoints) {
      if (fetched_.contains(checkpoint)) continue;
      const Status status = fetch_checkpoint(checkpoint, names);
      if (is_gone(status, checkpoint)) return note_gone(checkpoint);
      LEAT_RETURN_IF_ERROR(status);
    }
    for (const RemoteFile& file : files) {
      if (!folder_of_checkpoint(file.name).empty() || fetched_.contains(file.name)) continue;
      const Status status = fetch(file.name);
      if (is_gone(status, file.name)) return note_gone(file.name);
      LEAT_RETURN_IF_ERROR(status);
    }
    return false;
  }

 private:
  // True if the job has removed the file since it was listed. A second failure for the same name
  // has another cause, because the new listing still contained it.
  bool is_gone(const Status& status, const std::string& name) {
    return status.code() == Code::invalid_argument && std::exchange(gone_, name) != name;
  }
  static bool note_gone(const std::string& name) {
    std::cerr << "leat: note: the job has removed " << printable(name) << " meanwhile\n";
    return true;
  }

  Status fetch(const std::string& name) {
    LEAT_ASSIGN_OR_RETURN(const std::string path, client_.fetch(job_, name, folder_));
    std::cout << printable(path) << "\n" << std::flush;
    fetched_.insert(name);
    return {};
  }

  Status fetch_checkpoint(const std::string& checkpoint, const std::vector<std::string>& names) {
    LEAT_RETURN_IF_ERROR(staging_.clear());
    for (const std::string& name : names)
      LEAT_RETURN_IF_ERROR(client_.fetch(job_, name, staging_.path()).status());
    // A checkpoint without its manifest is about to be removed: invalid_argument counts as gone.
    const std::string manifest = checkpoint + "/manifest.json";
    if (std::find(names.begin(), names.end(), manifest) == names.end())
      return invalid_argument(cat("checkpoint '", checkpoint, "' has no manifest.json"));
    // An error of this machine's disk must not count as gone, whatever its code is.
    if (const Status moved = staging_.move(checkpoint, folder_); !moved.ok())
      return internal_error(std::string(moved.message()));
    for (const std::string& name : names) std::cout << printable(folder_ + "/" + name) << "\n";
    std::cout << std::flush;
    // The next listing skips the checkpoint, even if the job has removed it meanwhile.
    fetched_.insert(checkpoint);
    return {};
  }

  ClusterClient& client_;
  const std::string job_, folder_;
  Staging staging_;
  std::set<std::string> fetched_;  // files, and whole checkpoints
  std::string gone_;               // the last file or checkpoint that was removed
};

}  // namespace

int run_fetch(const FetchCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  ClusterClient& client = connection.client();
  const auto job = client.job(command.id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  Fetch fetch(client, job->id, command.output.empty() ? job->id : command.output);
  if (!command.names.empty()) {
    const Status status = fetch.named(command.names);
    return status.ok() ? kExitOk : connection.report(status, About::name);
  }
  // Each round fetches only what the rounds before have not.
  for (int tries = 0; tries < kMostListings; ++tries) {
    const auto files = client.files(job->id);
    if (!files.ok()) return connection.report(files.status(), About::name);
    // A job that has not written anything yet is in the wrong state for this, and no error of its
    // name.
    if (files->empty()) {
      const std::string state(name_of(job->condition.state));
      return connection.report(
          failed_precondition(cat("job ", job->id, " is ", state, " and has left no files")),
          About::state);
    }
    const auto again = fetch.all(*files);
    if (!again.ok()) return connection.report(again.status(), About::name);
    if (!*again) return kExitOk;
  }
  return connection.report(
      failed_precondition(
          cat("job ", job->id, " changed its files ", kMostListings,
              " times while they were fetched: expected checkpoints that stay as long as "
              "it takes to fetch one (checkpoint.keep)")),
      About::state);
}

}  // namespace leat
