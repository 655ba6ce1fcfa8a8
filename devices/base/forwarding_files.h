// A file system that passes every call on to another one. Classes that watch, delay or spoil some
// of the calls derive from it and override those.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/files.h"

namespace leat {

// Owns nothing: `files` outlives it. Threads: as those of `files`.
class ForwardingFiles : public Files {
 public:
  explicit ForwardingFiles(Files& files) : files_(files) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return files_.open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return files_.create(path);
  }
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override {
    return files_.append_to(path, size);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return files_.rename(from, to);
  }
  Status link(const std::string& from, const std::string& to) override {
    return files_.link(from, to);
  }
  Status remove(const std::string& path) override { return files_.remove(path); }
  Status exchange(const std::string& a, const std::string& b) override {
    return files_.exchange(a, b);
  }
  Status remove_all(const std::string& path) override { return files_.remove_all(path); }
  Status sync_directory(const std::string& path) override { return files_.sync_directory(path); }
  Status make_directories(const std::string& path) override {
    return files_.make_directories(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return files_.list(path);
  }
  Result<bool> exists(const std::string& path) override { return files_.exists(path); }

 protected:
  Files& files_;
};

// The same for a file that is being written. It owns the file that it passes calls on to.
class ForwardingFile : public WritableFile {
 public:
  explicit ForwardingFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
  Status sync() override { return file_->sync(); }
  Status close() override { return file_->close(); }

 protected:
  const std::unique_ptr<WritableFile> file_;
};

}  // namespace leat
