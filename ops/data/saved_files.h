// The files that the graphs of a job save and restore on this host: leat.Save and leat.Restore.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/formats/safetensors.h"
#include "ops/state/resources.h"

namespace leat {

// A place for files by their relative paths: a folder of this machine, or one behind the network.
// Both functions call `done` once: before they return, or later on another thread. It must not
// block. Threads: any.
class SavedFiles {
 public:
  virtual ~SavedFiles() = default;
  // Replaces the file as a whole, or leaves it as it was. The file is on disk when `done` gets ok.
  // The tensors are used before the call returns, and not later.
  virtual void write(const std::string& path, const SafeTensors& content,
                     std::function<void(Status)> done) = 0;
  // Opens the file for reading; null if there is none.
  using Opened = Result<std::shared_ptr<const ReadableFile>>;
  virtual void open(const std::string& path, std::function<void(Opened)> done) = 0;
};

// The files in a folder of this machine, which is made when the first file is written. Both
// functions call `done` before they return. `files` outlives the result.
std::shared_ptr<SavedFiles> saved_files_in(Files& files, std::string folder);

// Sets where the graphs of the job save files. Only the first call for a job counts. REQUIRES: no
// kernel of the job was made before.
void set_saved_files(JobResources& resources, std::shared_ptr<SavedFiles> place);

// Returns that place; failed_precondition if the job has none on this host.
Result<std::shared_ptr<SavedFiles>> saved_files(JobResources& resources);

// In the path of a leat.Save: the number of steps that are done, in eight digits or more.
inline constexpr std::string_view kSavedStep = "{step}";
// Returns the path with the step filled in.
std::string saved_path_of(std::string path, uint64_t steps);

// Checks the text of a path that a graph gives: it is relative, does not lead out of its folder,
// and has no name that ends in ".tmp", as those of files that are being written.
Status check_saved_path(std::string_view path);

// Returns where `path` is: `folder` as it was given, and the names below it with all symbolic links
// resolved. The file need not exist. invalid_argument if the text of the path, or a link, leads out
// of the folder.
Result<std::string> locate_saved(const std::string& folder, const std::string& path);

}  // namespace leat
