#include "daemon/training/run_folder.h"

#include <algorithm>
#include <filesystem>

#include "daemon/checkpoint/checkpoint_part.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// The folder of a submit's files on a master, below the job's folder; job files omit it.
constexpr std::string_view kSubmitted = "submitted/";

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status copy_whole(Files& files, const std::string& from, const std::string& to) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(from));
  LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(to)));
  return write_file_atomically(files, to,
                               [&](const TakeBytes& take) { return read_in_pieces(*file, take); });
}

// A file of the folder's own does not change.
Status keep_file(Files& files, const std::string& folder, const std::string& from,
                 const std::string& to) {
  if (!name_below(from, folder).empty()) {
    LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(to)));
    LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(to));
    if (!there && files.link(from, to).ok()) return files.sync_directory(directory_of(to));
  }
  return copy_whole(files, from, to);
}

std::string relative_path(const std::string& path, const std::string& folder) {
  const std::string inside = path.empty() ? "" : name_below(path, folder);
  return inside.empty() ? path : inside;
}

}  // namespace

Result<std::string> data_name(const std::string& data, const std::string& graph) {
  std::error_code error;
  // The links in the paths of the data are resolved, so those of the folder must be, too.
  const fs::path folder = fs::canonical(directory_of(graph), error);
  const fs::path name = fs::path(data).lexically_relative(folder);
  if (!error && !name.empty() && *name.begin() != "..") return name.string();
  return invalid_argument(
      cat("graph file '", graph, "': expected its data beside it, it is '", data, "'"));
}

std::string name_below(const std::string& path, const std::string& folder) {
  // absolute() throws for a path without text, such as the data's root in a job without data.
  if (path.empty() || folder.empty()) return "";
  const fs::path inside = fs::absolute(path).lexically_normal().lexically_relative(
      fs::absolute(folder).lexically_normal());
  return inside.empty() || inside == "." || *inside.begin() == ".." ? "" : inside.string();
}

Result<std::string> keep_graph(Files& files, const std::string& folder, const GraphFiles& graph,
                               bool keep) {
  const std::string place(graph.data.empty() ? "" : kRunGraphs);
  const std::string name = place + file_name(graph.path);
  const std::string copy = cat(folder, "/", name);
  LEAT_ASSIGN_OR_RETURN(const bool has_copy, files.exists(copy));
  // A run that continues keeps the graph that it began with, although the file outside may have
  // changed.
  if (keep && has_copy) return name;
  // The data first and the graph last: a folder with a graph is whole.
  for (const std::string& data : graph.data) {
    LEAT_ASSIGN_OR_RETURN(const std::string below, data_name(data, graph.path));
    LEAT_RETURN_IF_ERROR(keep_file(files, folder, data, cat(folder, "/", place, below)));
  }
  LEAT_RETURN_IF_ERROR(copy_whole(files, graph.path, copy));
  return name;
}

std::string print_run_job(const Job& job, const std::string& folder, const std::string& graph) {
  Job own = job;
  own.model.graph = graph;
  own.model.weights = relative_path(job.model.weights, folder);
  if (own.model.weights.starts_with(kSubmitted)) own.model.weights.erase(0, kSubmitted.size());
  own.checkpoint.path = relative_path(job.checkpoint.path, folder);
  return print_job(own);
}

// Older runs name the graph where it was loaded from. An .onnx file of theirs may have its data
// there and is read there, as long as there is one.
Result<std::string> keep_run_job(Files& files, const std::string& folder, const Job& job,
                                 const std::vector<std::string>& graph_data, bool keep) {
  LEAT_RETURN_IF_ERROR(files.make_directories(folder));
  LEAT_ASSIGN_OR_RETURN(const std::string graph,
                        keep_graph(files, folder, {job.model.graph, graph_data}, keep));
  const std::string text = print_run_job(job, folder, graph);
  const std::string path = folder + "/job.yaml";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const std::string hash = to_hex(sha256(bytes));
  const auto there = read_file(files, path, text.size());
  if (there.ok() && std::equal(there->begin(), there->end(), bytes.begin(), bytes.end()))
    return hash;
  LEAT_RETURN_IF_ERROR(write_file_atomically(files, path, bytes));
  return hash;
}

Result<Job> load_run_job(Files& files, const std::string& folder, const JobOverrides& overrides) {
  LEAT_ASSIGN_OR_RETURN(Job job, load_job(folder + "/job.yaml", overrides));
  // The weights are in the checkpoint.
  job.model.weights.clear();
  const std::string& graph = job.model.graph;
  if (!name_below(graph, folder).empty()) return job;
  if (graph.ends_with(".onnx")) {
    LEAT_ASSIGN_OR_RETURN(const bool outside, files.exists(graph));
    if (outside) return job;
  }
  const std::string copy = cat(folder, "/", file_name(graph));
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(copy));
  if (there) job.model.graph = fs::absolute(copy).lexically_normal().string();
  return job;
}

}  // namespace leat
