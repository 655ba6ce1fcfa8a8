#include "daemon/master/leftovers.h"

#include <vector>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"

namespace leat {

namespace {

// Removes the temporary files of a folder and of the folders in it. Ok if it is not there.
Status remove_temporary_files(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const bool is_folder, files.exists(folder + "/."));
  if (!is_folder) return {};
  LEAT_ASSIGN_OR_RETURN(const auto names, files.list(folder));
  for (const std::string& name : names) {
    const std::string path = cat(folder, "/", name);
    LEAT_RETURN_IF_ERROR(name.ends_with(".tmp") ? files.remove_all(path)
                                                : remove_temporary_files(files, path));
  }
  return {};
}

}  // namespace

Status remove_leftovers_of_job(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(folder));
  if (!there) return {};
  // Files are written under a name with .tmp first and renamed at the end, so such a name is that
  // of a file whose writer has died.
  LEAT_ASSIGN_OR_RETURN(const auto names, files.list(folder));
  for (const std::string& name : names) {
    if (name.ends_with(".tmp")) LEAT_RETURN_IF_ERROR(files.remove_all(folder + "/" + name));
  }
  for (const char* below : {"/saved", "/post-mortem"})
    LEAT_RETURN_IF_ERROR(remove_temporary_files(files, folder + below));
  const std::string checkpoints = folder + "/checkpoints";
  LEAT_ASSIGN_OR_RETURN(const bool has_checkpoints, files.exists(checkpoints + "/."));
  return has_checkpoints ? remove_leftovers(files, checkpoints) : Status();
}

Leftovers::Leftovers(Files& files, std::string folder, std::chrono::milliseconds after, Logger log)
    : files_(files), folder_(std::move(folder)), after_(after), log_(std::move(log)) {}

void Leftovers::ended(const std::string& job, Clock::Steady when) {
  const std::lock_guard lock(mutex_);
  due_[job] = when + after_;
}

void Leftovers::sweep(Clock::Steady now) {
  std::vector<std::string> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [job, due] : due_) {
      if (due <= now) jobs.push_back(job);
    }
    // A job is forgotten before its folder is swept: a failure is told once and not tried again in
    // this life of the master.
    for (const std::string& job : jobs) due_.erase(job);
  }
  // The disk is used without the mutex, because the thread of the jobs calls ended().
  for (const std::string& job : jobs) {
    const Status removed = remove_leftovers_of_job(files_, cat(folder_, "/", job));
    if (!removed.ok()) log_.warning("what job ", job, " left stays: ", removed.message());
  }
}

}  // namespace leat
