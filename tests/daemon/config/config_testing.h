// Helpers that tests of configs share.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "daemon/process/config_reader.h"
#include "tests/temporary_directory.h"

namespace leat {

inline void write_text(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  ::chmod(path.c_str(), mode);
}

// A folder with one config file.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    write_text(path(), text);
    sources.file = path();
  }
  std::string path() const { return folder / "c.yaml"; }

  TemporaryDirectory folder;
  ConfigSources sources;
};

// Returns the error's message without the folder's name; "" if there is no error.
template <typename T>
std::string message_of(const ConfigFile& file, const Result<T>& result) {
  std::string message = result.status().message();
  const std::string folder = file.folder.path() + "/";
  for (size_t at; (at = message.find(folder)) != std::string::npos;) {
    message.erase(at, folder.size());
  }
  return message;
}

}  // namespace leat
