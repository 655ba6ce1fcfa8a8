// A folder that is removed with the object that made it.
#pragma once

#include <memory>
#include <string>

#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace leat {

// Owns the folder and its lock. Threads: any.
class TemporaryFolder {
 public:
  // Makes a folder below the system's folder for temporary files: "/tmp/<name>-a1B2c3". Also
  // removes folders of this name whose process was killed: each process holds a lock in its folder,
  // `.lock`, while it lives.
  static Result<std::unique_ptr<TemporaryFolder>> make(const std::string& name);
  // Removes the folder with all files in it.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  Status hold();

  const std::string path_;
  Descriptor lock_;
};

}  // namespace leat
