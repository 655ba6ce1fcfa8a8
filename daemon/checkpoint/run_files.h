// The files of a run's folder on a disk, as far as they are results of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leat {

struct RunFile {
  std::string name;     // within the folder: "checkpoints/step-00000040/manifest.json"
  uint64_t size = 0;    // bytes
  int64_t changed = 0;  // a time that is another one after the file was written again
};

// The files by name, without those that a client submitted ("submitted/"), those that are being
// written, and links, which could lead elsewhere. A folder that does not exist has none, and what
// vanishes meanwhile is left out.
std::vector<RunFile> list_run_files(const std::string& folder);

}  // namespace leat
