#include "daemon/cli/data_option.h"

#include <filesystem>

#include "daemon/base/yaml_document.h"
#include "devices/base/text.h"
#include "ops/data/dataset_files.h"

namespace leat {
namespace {

std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

}  // namespace

// The extension decides: all names but .npy are IDX.
std::string array_format(const std::string& path) {
  return path.ends_with(".npy") || path.ends_with(".npy.gz") ? "npy" : "idx";
}

Result<std::vector<std::string>> data_overrides(const std::vector<std::string>& data) {
  if (data.empty()) return std::vector<std::string>();
  if (data[0].starts_with('{')) {
    if (data.size() > 1)
      return invalid_argument(cat("--data: expected one map, received ", data.size(), " entries"));
    return std::vector<std::string>{cat("data.root=", yaml_string(absolute_path("."))),
                                    cat("data.validation=", data[0])};
  }
  // Any path is below the root of the file system.
  std::vector<std::string> columns;
  std::string format;
  for (const std::string& each : data) {
    const auto named = parse_named_file(each);
    if (!named.ok()) {
      return invalid_argument(
          cat("--data: expected COLUMN=FILE, or a map as '{format: npz, files: "
              "new.npz}', received '",
              each, "'"));
    }
    const std::string own = array_format(named->second);
    if (!format.empty() && own != format) {
      return invalid_argument(cat("--data: expected files of one format, received ", format,
                                  " and ", own, " ('", named->second, "')"));
    }
    format = own;
    columns.push_back(cat(named->first, ": ", yaml_string(absolute_path(named->second).substr(1))));
  }
  return std::vector<std::string>{"data.root=/", cat("data.validation={format: ", format,
                                                     ", files: {", join(columns, ", "), "}}")};
}

}  // namespace leat
