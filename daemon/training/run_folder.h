// The part of a run's folder that describes its job: the job file and the graph, which are enough
// to go on. Paths in it that lead into the folder are relative, so that the folder may be moved,
// copied or fetched elsewhere; trainer.h lists what else is there.
#pragma once

#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The folder of a graph that has its data in other files, within a run's folder.
inline constexpr std::string_view kRunGraphs = "graph/";

// A graph's file, and those that it has its data in, below its directory: see LoadedGraph::data.
struct GraphFiles {
  std::string path;
  std::vector<std::string> data = {};
};

// Copies them into the folder, each whole or not at all and the graph last, unless `keep` and it is
// there already; its name there: "net.onnxtxt", or "graph/net.onnx" of one with data beside it.
// Files below the folder become second names of themselves where the disk has such.
Result<std::string> keep_graph(Files& files, const std::string& folder, const GraphFiles& graph,
                               bool keep);

// The text of the folder's job.yaml, for a graph of that name in it.
std::string print_run_job(const Job& job, const std::string& folder, const std::string& graph);

// The job of a run's folder, with the copy of the graph that the run left there, so that nothing
// outside decides what is resumed. It starts from a checkpoint, and so from no file of weights.
Result<Job> load_run_job(Files& files, const std::string& folder,
                         const JobOverrides& overrides = {});

// The name that a graph's data file has below the graph's directory. `data`: as in GraphFiles.
Result<std::string> data_name(const std::string& data, const std::string& graph);

// Whether `path` is below `folder`, by their text: its name there, or "". Relative paths are of the
// working directory.
std::string name_below(const std::string& path, const std::string& folder);

}  // namespace leat
