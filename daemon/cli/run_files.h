// The files of runs, as commands read them: of a disk or a store, with the keys by which some are
// encrypted (daemon/checkpoint/sealed_files.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/checkpoint/sealed_files.h"
#include "devices/base/status.h"

namespace leat {

// Reads the key files that a command names by --checkpoint-key, or else the one of the variable
// LEAT_CHECKPOINT_KEY_FILE; with neither there is no key. The errors are those of
// read_secret_file(). Called once, before run_files(); Threads: one.
Status use_checkpoint_keys(const std::vector<std::string>& files);

// The files of this process with these keys: new files are encrypted with the first one.
SealedFiles& run_files();
// The same for programs that read and write what the graphs of these runs saved (leat.Save).
std::unique_ptr<SealedFiles> files_of_runs(RunFolders runs);
// The folder of a run to read, with the id of the job that its provenance.txt names. A missing or
// malformed file names none; other errors are those of reading it. A copy may have the file of the
// run before beside newer files, and files of older versions.
Result<RunFolder> run_folder(const std::string& path);
// The keys themselves.
std::shared_ptr<const CheckpointKeys> checkpoint_keys();

}  // namespace leat
