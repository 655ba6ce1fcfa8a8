#include "daemon/temporary_folder.h"

#include <stdlib.h>

#include <filesystem>

#include "devices/base/text.h"

namespace leat {

namespace fs = std::filesystem;

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::make(const std::string& name) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string path = ((error ? "/tmp" : parent) / (name + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return failed_precondition(cat("cannot make the folder '", path, "'"));
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace leat
