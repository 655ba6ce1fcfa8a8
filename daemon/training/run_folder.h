// The part of a run's folder that describes its job: the job file and the graph, which are enough
// to resume. Paths that lead into the folder are written relative to it, so that the folder may be
// moved, copied or fetched elsewhere. trainer.h lists the rest of the folder.
#pragma once

#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The folder within a run's folder for a graph that has its data in other files.
inline constexpr std::string_view kRunGraphs = "graph/";

// A graph's file, and its data files below the same directory: see LoadedGraph::data.
struct GraphFiles {
  std::string path;
  std::vector<std::string> data = {};
};

// Copies the files into the folder, each whole or not at all, and the graph last. With `keep` a
// graph that is there already stays. Returns the graph's name in the folder: "net.onnxtxt", or
// "graph/net.onnx" if it has data files. Files that are below the folder already are hard-linked
// where the disk allows it.
Result<std::string> keep_graph(Files& files, const std::string& folder, const GraphFiles& graph,
                               bool keep);

// The text of the folder's job.yaml, for a graph of that name in it.
std::string print_run_job(const Job& job, const std::string& folder, const std::string& graph);

// Makes the folder, and writes its graph as keep_graph() does and its job.yaml. A file that is as
// it is to be already is not written again, and so does not wait for the disk. Returns the SHA-256
// of job.yaml.
Result<std::string> keep_run_job(Files& files, const std::string& folder, const Job& job,
                                 const std::vector<std::string>& graph_data, bool keep);

// The job of a run's folder, with the copy of the graph that the run left there: nothing outside
// the folder decides what is resumed. The job starts from a checkpoint, so it names no file of
// weights.
Result<Job> load_run_job(Files& files, const std::string& folder,
                         const JobOverrides& overrides = {});

// The name that a graph's data file has below the graph's directory. `data`: as in GraphFiles.
Result<std::string> data_name(const std::string& data, const std::string& graph);

// The name that `path` has below `folder`, or "" if it is not below. Compares the text of the
// paths; relative ones are in the working directory.
std::string name_below(const std::string& path, const std::string& folder);

}  // namespace leat
