#include "daemon/cli/pack_job.h"

#include <filesystem>
#include <set>

#include "daemon/load_graph.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxJobFile = 1u << 20;

// Passes everything on, and knows what was opened.
class WatchedFiles final : public Files {
 public:
  explicit WatchedFiles(Files& files) : files_(files) {}
  const std::set<std::string>& opened() const { return opened_; }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    opened_.insert(path);
    return files_.open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return files_.create(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return files_.rename(from, to);
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

 private:
  Files& files_;
  std::set<std::string> opened_;
};

// As a YAML scalar in double quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// What --workers and --seed change, as --set would. --workers leaves the shards as they are.
void add_overrides(const JobOptions& options, const Job& job, std::vector<std::string>& out) {
  out = options.overrides.set;
  if (options.overrides.num_workers) {
    out.push_back(cat("shards=", job.shards));
    out.push_back(cat("num_workers=", *options.overrides.num_workers));
  }
  if (options.overrides.seed) out.push_back(cat("seed=", *options.overrides.seed));
}

// The graph, and the external data that lies in its folder or below.
Status add_graph(const std::string& path, const std::set<std::string>& opened,
                 JobRequest& request) {
  const std::string name = "graph/" + fs::path(path).filename().string();
  request.files.push_back({name, path});
  request.overrides.push_back("model.graph=" + quoted(name));
  std::error_code failure;
  const fs::path folder = fs::canonical(fs::path(path).parent_path(), failure);
  for (const std::string& each : opened) {
    if (each == path) continue;
    const fs::path inside = fs::path(each).lexically_relative(folder);
    if (failure || inside.empty() || *inside.begin() == "..") {
      return invalid_argument(
          cat("graph file '", path, "': expected its data beside it, it is '", each, "'"));
    }
    request.files.push_back({"graph/" + inside.string(), each});
  }
  return {};
}

}  // namespace

Result<PackedJob> pack_job(const JobOptions& options, Files& files) {
  PackedJob packed;
  LEAT_ASSIGN_OR_RETURN(packed.job, load_job(options.file, options.overrides));
  LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(files, options.file, kMaxJobFile));
  packed.request.request_id = new_request_id();
  packed.request.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  add_overrides(options, packed.job, packed.request.overrides);

  const std::string& path = packed.job.model.graph;
  const Catalogue catalogue = standard_catalogue();
  WatchedFiles watched(files);
  LEAT_ASSIGN_OR_RETURN(LoadedGraph graph, load_graph(watched, path, catalogue, true));
  packed.notes = std::move(graph.notes);
  const auto expanded = expand_layers(graph.graph);
  if (!expanded.ok()) return expanded.status().while_doing(cat("checking '", path, "'"));
  LEAT_RETURN_IF_ERROR(add_graph(path, watched.opened(), packed.request));

  if (const std::string& weights = packed.job.model.weights; !weights.empty()) {
    const std::string name = "weights/" + fs::path(weights).filename().string();
    packed.request.files.push_back({name, weights});
    packed.request.overrides.push_back("model.weights=" + quoted(name));
  }
  return packed;
}

}  // namespace leat
