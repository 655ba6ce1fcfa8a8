#include "daemon/checkpoint/provenance.h"

#include <algorithm>
#include <span>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kProvenanceFileBytes = 1 << 20;
// Each change of a run's job file adds one.
constexpr size_t kMostJobFiles = 1000;

}  // namespace

Result<std::optional<ProvenanceFile>> read_provenance_file(Files& files,
                                                           const std::string& folder) {
  const std::string path = cat(folder, "/", kProvenanceFileName);
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(path));
  if (!there) return std::optional<ProvenanceFile>();
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, kProvenanceFileBytes));
  ProvenanceFile read;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, space);
    const std::string value(line.substr(std::min(space + 1, line.size())));
    if (key == "run") {
      read.run = value;
    } else if (key == "key") {
      read.key = value;
    } else if (key == "from") {
      read.from = value;
    } else if (key == "job") {
      read.jobs.push_back(value);
    } else {
      return invalid_argument(cat("'", path, "', line ", number,
                                  ": expected run, key, from or job with a value, received '", line,
                                  "'"));
    }
  }
  return std::optional(std::move(read));
}

Status keep_provenance_file(Files& files, const std::string& folder, ProvenanceFile identity,
                            bool goes_on) {
  const auto before = read_provenance_file(files, folder);
  // A damaged file is replaced.
  if (goes_on && before.ok() && *before && (*before)->run == identity.run) {
    if (identity.from.empty()) identity.from = (*before)->from;
    const std::vector<std::string> own = std::exchange(identity.jobs, (*before)->jobs);
    for (const std::string& each : own) {
      if (std::find(identity.jobs.begin(), identity.jobs.end(), each) == identity.jobs.end())
        identity.jobs.push_back(each);
    }
    if (identity.jobs.size() > kMostJobFiles) identity.jobs.erase(identity.jobs.begin());
  }
  if (before.ok() && *before == identity) return {};
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) text += cat(key, " ", value, "\n");
  };
  add("run", identity.run);
  add("key", identity.key);
  add("from", identity.from);
  for (const std::string& job : identity.jobs) add("job", job);
  return write_file_atomically(files, cat(folder, "/", kProvenanceFileName),
                               std::as_bytes(std::span(text)));
}

}  // namespace leat
