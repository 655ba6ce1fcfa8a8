// The folder of a job on this host below which its graphs save files: leat.Save and leat.Restore.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "ops/state/resources.h"

namespace leat {

// Sets the folder, which is made when the first file is saved; "": the job saves nothing here.
// Only the first call for a job counts. REQUIRES: no kernel of the job was made before.
void set_save_folder(JobResources& resources, const std::string& folder);

// The folder; failed_precondition if the host of the job has none.
Result<std::string> save_folder(JobResources& resources);

// Checks the text of a path that a graph gives: it is relative and does not lead out of its folder.
Status check_saved_path(std::string_view path);

// Returns where `path` is below `folder`, with all symbolic links resolved; the file need not
// exist. invalid_argument if the text of the path, or a link, leads out of the folder.
Result<std::string> locate_saved(const std::string& folder, const std::string& path);

}  // namespace leat
