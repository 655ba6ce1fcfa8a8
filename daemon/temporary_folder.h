// A folder that goes with who made it.
#pragma once

#include <memory>
#include <string>

#include "devices/base/status.h"

namespace leat {

class TemporaryFolder {
 public:
  // Below the system's folder for temporary files: "/tmp/<name>-a1B2c3".
  static Result<std::unique_ptr<TemporaryFolder>> make(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace leat
