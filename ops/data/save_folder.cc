#include "ops/data/save_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "devices/base/text.h"
#include "ops/data/path_text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class SaveFolder final : public Resource {
 public:
  explicit SaveFolder(std::string folder) : folder_(std::move(folder)) {}
  std::string_view kind() const override { return "folder"; }
  const std::string& folder() const { return folder_; }

 private:
  const std::string folder_;
};

Result<std::string> folder_or(JobResources& resources, const std::string& folder) {
  const auto make = [&]() -> Result<std::unique_ptr<Resource>> {
    if (folder.empty()) return failed_precondition("this host has no folder for files of the job");
    return std::unique_ptr<Resource>(std::make_unique<SaveFolder>(folder));
  };
  LEAT_ASSIGN_OR_RETURN(Resource * found, resources.find_or_make("folder", "saved", make));
  return static_cast<SaveFolder*>(found)->folder();
}

}  // namespace

void set_save_folder(JobResources& resources, const std::string& folder) {
  if (!folder.empty()) (void)folder_or(resources, folder);
}

Result<std::string> save_folder(JobResources& resources) { return folder_or(resources, ""); }

Status check_saved_path(std::string_view path) {
  const fs::path relative(path);
  const bool named = relative.has_filename() && relative.filename() != ".";
  if (named && path.find('\0') == path.npos && !leaves_root(relative)) return {};
  return invalid_argument(
      cat("path: expected that of a file below the job's folder, without '..', ", "received '",
          path, "'"));
}

Result<std::string> locate_saved(const std::string& folder, const std::string& path) {
  LEAT_RETURN_IF_ERROR(check_saved_path(path));
  std::error_code error;
  const fs::path root = fs::weakly_canonical(fs::absolute(folder), error);
  const fs::path real = error ? fs::path() : fs::weakly_canonical(root / path, error);
  if (error) return failed_precondition(cat("'", folder, "/", path, "': ", error.message()));
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end())
    return real.string();
  return invalid_argument(cat("path: expected that of a file below '", folder, "', links lead to '",
                              real.string(), "'"));
}

}  // namespace leat
