// Journals in folders that tests own, and the bytes in them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "daemon/jobs/journal.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"
#include "tests/temporary_directory.h"

#define REQUIRE_OK(status) REQUIRE((status).to_string() == "ok")

namespace leat {

// A folder in memory where the machine has a file system for that. These tests open hundreds of
// journals, each with several syncs, and none of them depends on a real power failure.
class JournalFolder : public TemporaryDirectory {
 public:
  JournalFolder() : TemporaryDirectory(parent()) {}

 private:
  static std::filesystem::path parent() {
    const char* memory = "/dev/shm";
    return ::access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }
};

inline std::unique_ptr<Journal> open_journal(const std::string& directory,
                                             const JournalLimits& limits = {}) {
  auto journal = Journal::open(real_files(), directory, limits);
  REQUIRE_OK(journal.status());
  return std::move(*journal);
}

inline JobSubmitted submitted(uint64_t number, const std::string& id, const Submission& from) {
  return {number, id, 1000, content_of(from), std::make_shared<const Submission>(from)};
}

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Returns the bytes of all files in the folder except the lock.
inline std::map<std::string, std::string> snapshot(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
    files[entry.path().filename().string()] = contents(entry.path().string());
  }
  return files;
}

}  // namespace leat
