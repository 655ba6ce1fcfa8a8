// Files in memory, for tests of readers: each path has the same content.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "devices/base/forwarding_files.h"

namespace leat {

// REQUIRES: `bytes` outlive the files.
class MemoryFiles final : public ForwardingFiles {
 public:
  explicit MemoryFiles(std::span<const std::byte> bytes)
      : ForwardingFiles(real_files()), bytes_(bytes) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return std::unique_ptr<ReadableFile>(new File(path, bytes_));
  }

 private:
  class File final : public ReadableFile {
   public:
    File(std::string path, std::span<const std::byte> bytes)
        : path_(std::move(path)), bytes_(bytes) {}
    const std::string& path() const override { return path_; }
    uint64_t size() const override { return bytes_.size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
        return internal_error("a read beyond the end of a file in memory");
      std::copy_n(bytes_.data() + offset, out.size(), out.data());
      return {};
    }

   private:
    const std::string path_;
    const std::span<const std::byte> bytes_;
  };

  const std::span<const std::byte> bytes_;
};

}  // namespace leat
