// The files of a run's folder on a disk, as far as they are results of the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

struct RunFile {
  std::string name;     // within the folder: "checkpoints/step-00000040/manifest.json"
  uint64_t size = 0;    // bytes
  int64_t changed = 0;  // a time that is another one after the file was written again
};

// The folder within that of a run for the files that its graph saves (leat.Save).
inline constexpr std::string_view kSavedFolder = "saved/";

// True for a name that a file of a run may have: one that clients take (is_left_file()), and below
// kSavedFolder every name that leat.Save takes. It never leads out of the folder.
bool is_run_file(std::string_view name);

// Which files a list has: those whose names clients take, or every is_run_file().
enum class RunNames : uint8_t { of_clients, all };

// The files by name, without those that a client submitted ("submitted/"), those that are being
// written, and links, which could lead elsewhere. A folder that does not exist has none, and what
// vanishes meanwhile is left out.
std::vector<RunFile> list_run_files(const std::string& folder,
                                    RunNames names = RunNames::of_clients);

}  // namespace leat
