#include "ops/data/saved_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "devices/base/text.h"
#include "ops/data/path_text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class FolderOfSavedFiles final : public SavedFiles {
 public:
  FolderOfSavedFiles(Files& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  void write(const std::string& path, const SafeTensors& content,
             std::function<void(Status)> done) override {
    done(write(path, content));
  }
  void open(const std::string& path, std::function<void(Opened)> done) override {
    done(open(path));
  }

 private:
  // Links may change between two calls, so each call locates the file anew.
  Status write(const std::string& path, const SafeTensors& content) {
    LEAT_ASSIGN_OR_RETURN(const std::string place, locate_saved(folder_, path));
    LEAT_RETURN_IF_ERROR(files_.make_directories(directory_of(place)));
    return write_safetensors(files_, place, content);
  }
  Opened open(const std::string& path) {
    LEAT_ASSIGN_OR_RETURN(const std::string place, locate_saved(folder_, path));
    LEAT_ASSIGN_OR_RETURN(const bool there, files_.exists(place));
    if (!there) return std::shared_ptr<const ReadableFile>();
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(place));
    return std::shared_ptr<const ReadableFile>(std::move(file));
  }

  Files& files_;
  const std::string folder_;
};

// The entry of a job's table that holds the place.
class SavedFilesResource final : public Resource {
 public:
  explicit SavedFilesResource(std::shared_ptr<SavedFiles> place) : place_(std::move(place)) {}
  std::string_view kind() const override { return "saved files"; }
  const std::shared_ptr<SavedFiles>& place() const { return place_; }

 private:
  const std::shared_ptr<SavedFiles> place_;
};

Result<std::shared_ptr<SavedFiles>> place_or(JobResources& resources,
                                             std::shared_ptr<SavedFiles> place) {
  const auto make = [&]() -> Result<std::unique_ptr<Resource>> {
    if (!place) return failed_precondition("this host has no folder for files of the job");
    return std::unique_ptr<Resource>(std::make_unique<SavedFilesResource>(std::move(place)));
  };
  LEAT_ASSIGN_OR_RETURN(Resource * found, resources.find_or_make("saved files", "", make));
  return static_cast<SavedFilesResource*>(found)->place();
}

}  // namespace

std::shared_ptr<SavedFiles> saved_files_in(Files& files, std::string folder) {
  return std::make_shared<FolderOfSavedFiles>(files, std::move(folder));
}

void set_saved_files(JobResources& resources, std::shared_ptr<SavedFiles> place) {
  if (place) (void)place_or(resources, std::move(place));
}

Result<std::shared_ptr<SavedFiles>> saved_files(JobResources& resources) {
  return place_or(resources, nullptr);
}

std::string saved_path_of(std::string path, uint64_t steps) {
  std::string digits = std::to_string(steps);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  for (size_t at = 0; (at = path.find(kSavedStep, at)) != std::string::npos; at += digits.size())
    path.replace(at, kSavedStep.size(), digits);
  return path;
}

Status check_saved_path(std::string_view path) {
  const fs::path relative(path);
  const bool named = relative.has_filename() && relative.filename() != ".";
  // Files and folders that are being written have names that end in .tmp.
  const bool temporary = std::any_of(relative.begin(), relative.end(), [](const fs::path& part) {
    return part.string().ends_with(".tmp");
  });
  if (named && !temporary && path.find('\0') == path.npos && !leaves_root(relative)) return {};
  return invalid_argument(cat("path: expected that of a file below the job's folder, without '..' ",
                              "and names that end in '.tmp', received '", path, "'"));
}

Result<std::string> locate_saved(const std::string& folder, const std::string& path) {
  LEAT_RETURN_IF_ERROR(check_saved_path(path));
  std::error_code error;
  const fs::path root = fs::weakly_canonical(fs::absolute(folder), error);
  const fs::path real = error ? fs::path() : fs::weakly_canonical(root / path, error);
  if (error) return failed_precondition(cat("'", folder, "/", path, "': ", error.message()));
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end())
    return cat(folder, "/", real.lexically_relative(root).string());
  return invalid_argument(cat("path: expected that of a file below '", folder, "', links lead to '",
                              real.string(), "'"));
}

}  // namespace leat
