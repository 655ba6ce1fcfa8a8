#include "daemon/spec/load_graph.h"

#include <optional>
#include <set>

#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/graph/limits.h"
#include "ops/onnx/import.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"

namespace leat {
namespace {

enum class Format { text, onnx, leat };

// Remembers which files were opened.
class WatchedFiles final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::vector<std::string> opened_beside(const std::string& path) const {
    std::vector<std::string> others;
    for (const std::string& each : opened_)
      if (each != path) others.push_back(each);
    return others;
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    opened_.insert(path);
    return files_.open(path);
  }

 private:
  std::set<std::string> opened_;
};

std::optional<Format> known_format(std::string_view path) {
  if (path.ends_with(".onnxtxt")) return Format::text;
  if (path.ends_with(".onnx")) return Format::onnx;
  if (path.ends_with(".leat")) return Format::leat;
  return {};
}

// As known_format(), but an unknown extension is an error that lists the known ones.
Result<Format> format_of(const std::string& path) {
  if (const auto format = known_format(path)) return *format;
  return invalid_argument("graph file '" + path +
                          "': expected a name that ends in .onnxtxt, .onnx or .leat");
}

// load_text() and load_leat() read the whole file, up to its limit, before they parse it.
Result<LoadedGraph> load_text(Files& files, const std::string& path, const Catalogue& catalogue,
                              const FixedInputs& fixed) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, limits::kTextBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LEAT_ASSIGN_OR_RETURN(Graph graph, parse_graph(text, catalogue, path, fixed));
  return LoadedGraph{std::move(graph), {}};
}

Result<LoadedGraph> load_leat(Files& files, const std::string& path, const Catalogue& catalogue) {
  const uint64_t limit = limits::kConstantBytes + limits::kMessageBytes;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, limit));
  auto graph = read_graph(bytes, catalogue);
  if (!graph.ok()) return graph.status().while_doing("reading '" + path + "'");
  return LoadedGraph{std::move(graph).value(), {}};
}

}  // namespace

bool is_graph_file(std::string_view name) { return known_format(name).has_value(); }

Result<LoadedGraph> load_graph(Files& files, const std::string& path, const Catalogue& catalogue,
                               const OnnxOptions& onnx) {
  LEAT_ASSIGN_OR_RETURN(const Format format, format_of(path));
  if (format == Format::text) return load_text(files, path, catalogue, onnx.fixed);
  if (format == Format::leat && !onnx.fixed.empty()) {
    return unimplemented(cat("graph file '", path, "': expected an .onnx or .onnxtxt file, whose ",
                             "inputs can be fixed; received '", onnx.fixed.begin()->first,
                             "' to fix"));
  }
  if (format == Format::leat) return load_leat(files, path, catalogue);
  // Only the import knows which other files an .onnx file names, so the files that it opens are
  // recorded.
  WatchedFiles watched(files);
  LEAT_ASSIGN_OR_RETURN(OnnxModel model, import_onnx_file(watched, path, catalogue, onnx));
  return LoadedGraph{std::move(model.graph), std::move(model.notes), watched.opened_beside(path),
                     model.opset};
}

Result<std::vector<std::string>> data_of_weights(Files& files, const std::string& path) {
  if (known_format(path) != Format::onnx) return std::vector<std::string>();
  WatchedFiles watched(files);
  LEAT_RETURN_IF_ERROR(read_onnx_weights(watched, path).status());
  return watched.opened_beside(path);
}

Status check_size(const std::string& path, const Graph& model, int64_t shards) {
  const uint64_t nodes = model.nodes(), copies = static_cast<uint64_t>(shards);
  if (nodes * copies <= kMostShardNodes) return {};
  return invalid_argument(cat("graph file '", path, "': expected at most ", kMostShardNodes,
                              " nodes over all shards, its layers expanded, received ", nodes,
                              " in each of ", shards, shards == 1 ? " shard" : " shards",
                              "; make the graph smaller, or change shards"));
}

Status save_graph(Files& files, const std::string& path, const Graph& graph) {
  LEAT_ASSIGN_OR_RETURN(const Format format, format_of(path));
  if (format == Format::onnx) {
    return unimplemented(
        "graph file '" + path +
        "': expected .onnxtxt, which ONNX's parser reads, or .leat; leat checkpoint export writes "
        "the .onnx file of a trained model");
  }
  if (format == Format::text) {
    const std::string text = print_graph(graph);
    return write_file_atomically(files, path, std::as_bytes(std::span(text)));
  }
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, write_graph(graph));
  return write_file_atomically(files, path, bytes);
}

}  // namespace leat
