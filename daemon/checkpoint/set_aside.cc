#include "daemon/checkpoint/set_aside.h"

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int kMostNames = 1000;

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Only a folder contains an entry ".".
Result<bool> is_folder(Files& files, const std::string& path) { return files.exists(path + "/."); }

// Returns "" if nothing is at the path, or the right kind of thing is.
Result<std::string> make_way(Files& files, const std::string& path, bool for_folder) {
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(path));
  if (!there) return std::string();
  LEAT_ASSIGN_OR_RETURN(const bool folder, is_folder(files, path));
  return folder == for_folder ? Result<std::string>("") : set_aside(files, path);
}

}  // namespace

Result<std::string> set_aside(Files& files, const std::string& path) {
  const std::string folder = directory_of(path), wanted = cat(folder, "/damaged-", name_in(path));
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string to = number == 1 ? wanted : cat(wanted, "-", number);
    LEAT_ASSIGN_OR_RETURN(const bool taken, files.exists(to));
    // rename() would replace a file of that name, and nothing may be lost here.
    if (taken) continue;
    LEAT_RETURN_IF_ERROR(files.rename(path, to));
    LEAT_RETURN_IF_ERROR(files.sync_directory(folder));
    return to;
  }
  return failed_precondition(cat("'", path, "': cannot set it aside: expected at most ", kMostNames,
                                 " like '", wanted, "', which are there; remove some"));
}

Result<std::string> make_way_for_folder(Files& files, const std::string& path) {
  return make_way(files, path, true);
}

Result<std::string> make_way_for_file(Files& files, const std::string& path) {
  return make_way(files, path, false);
}

Result<std::vector<std::string>> set_aside_checkpoints_after(Files& files,
                                                             const std::string& folder,
                                                             int64_t step) {
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(files, folder));
  // A longer name is that of a later step; names of one length sort in the order of their steps.
  // A step of -1 sets all checkpoints aside.
  const std::string last = step < 0 ? "" : checkpoint_name(step);
  const auto is_after = [&](const std::string& name) {
    return name.size() != last.size() ? name.size() > last.size() : name > last;
  };
  std::vector<std::string> names;
  for (const std::string& path : paths) {  // the newest first
    if (!is_after(name_in(path))) break;
    LEAT_ASSIGN_OR_RETURN(const std::string to, set_aside(files, path));
    names.push_back(name_in(to));
  }
  return names;
}

}  // namespace leat
