// The origin of a checkpoint, as its manifest tells it: the code, the run and the job file that
// made it, and the runs that its run went on from. With the graph, the data, the seed and the
// checkpoint before, which the manifest has anyway, it says by what a checkpoint was made from
// what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A checkpoint of another run, from which a run went on.
struct Ancestor {
  std::string run;  // Provenance::run; "" if its manifest has no provenance
  std::string job;  // the name of the job
  int64_t step = 0;
  std::string sha256;  // of its manifest
  bool operator==(const Ancestor&) const = default;
};

// The file of weights that a run began from.
struct FirstWeights {
  std::string file;    // the last part of its path
  std::string sha256;  // of its bytes
  bool operator==(const FirstWeights&) const = default;
};

struct Provenance {
  std::string code;  // code_version() of the process that trained: of the master, on a cluster
  std::string run;   // the job's id on its cluster; "" for `leat train`
  std::string job_sha256;               // of the run's job.yaml
  std::optional<FirstWeights> weights;  // unset: the first step began from the initializers
  std::vector<Ancestor> lineage;        // the oldest first; at most kMostAncestors, the newest ones
  // Of as many bytes of metrics.jsonl as the manifest's digest of it has; "" without a log.
  std::string metrics_sha256;
  bool operator==(const Provenance&) const = default;
};

inline constexpr size_t kMostAncestors = 64;

// A signature of a manifest: see signing_key.h. Both are lower-case hexadecimal.
struct ManifestSignature {
  std::string key;    // the public key, 64 digits
  std::string value;  // 128 digits
  bool operator==(const ManifestSignature&) const = default;
};

// The file of a run's folder that says which checkpoints belong to it, provenance.txt: a line for
// each value, "run ID", "key HEX", "from HEX" and "job HEX"; lines of empty values are missing.
struct ProvenanceFile {
  std::string run;                // Provenance::run of its checkpoints
  std::string key;                // the public key that signs them; "" if none does
  std::vector<std::string> jobs;  // the SHA-256 of each job.yaml that the run has had
  // Of the manifest of the checkpoint that the run went on from, if that is none of its own; else
  // "".
  std::string from = {};
  bool operator==(const ProvenanceFile&) const = default;
};

inline constexpr const char* kProvenanceFileName = "provenance.txt";

// Nothing if the folder has no such file, as those of older versions. invalid_argument for a
// file that is none.
Result<std::optional<ProvenanceFile>> read_provenance_file(Files& files, const std::string& folder);

// Notes that checkpoints of this run, made by its one job file and signed with its key, belong to
// the folder. With `goes_on` those of the job files that the folder's file names belong to it, too.
// A file that says all this already is not written again.
Status keep_provenance_file(Files& files, const std::string& folder, ProvenanceFile identity,
                            bool goes_on);

}  // namespace leat
