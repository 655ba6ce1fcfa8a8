#include <cstdio>

#include "daemon/cli/commands.h"
#include "daemon/cli/op_table.h"
#include "daemon/spec/fixed_inputs.h"
#include "daemon/spec/load_graph.h"
#include "ops/catalogue.h"
#include "ops/graph/validate.h"
#include "ops/layers/control_flow.h"
#include "ops/layers/layers.h"
#include "ops/layers/summary.h"
#include "ops/plugins.h"
#include "ops/text/print.h"

namespace leat {
namespace {

// Loads the graph at `path` with these inputs fixed, calls `act` with it, and prints the text that
// it returns. Returns the exit code.
template <typename Act>
int with_graph(const std::string& path, const std::vector<std::string>& fixed, ColorMode color,
               Act act) {
  // A missing file has an exit code of its own, so it is found before the load.
  if (report_missing("graph file", path, color)) return kExitNoSuch;
  const Catalogue catalogue = standard_catalogue();
  auto values = read_fixed_inputs(real_files(), fixed);
  if (!values.ok()) return report(values.status(), color);
  const auto loaded =
      load_graph(real_files(), path, catalogue, {.trainable = true, .fixed = std::move(*values)});
  if (!loaded.ok()) return report(loaded.status(), color);
  print_notes(loaded->notes);
  const Result<std::string> text = act(loaded->graph);
  if (!text.ok()) return report(text.status().while_doing("checking '" + path + "'"), color);
  std::fputs(printable_lines(*text).c_str(), stdout);
  return kExitOk;
}

// The text of `leat graph show`: a table of layers, or the nodes that they stand for.
Result<std::string> show(const Graph& graph, bool expanded) {
  if (!expanded) return summarize(graph);
  LEAT_ASSIGN_OR_RETURN(const Graph nodes, expand_layers(graph));
  return print_graph(nodes);
}

}  // namespace

int run_graph_show(const GraphShowCommand& command) {
  return with_graph(command.file, command.fixed, command.color,
                    [&](const Graph& graph) { return show(graph, command.expand); });
}

int run_graph_check(const GraphCheckCommand& command) {
  return with_graph(command.file, command.fixed, command.color,
                    [&](const Graph& graph) -> Result<std::string> {
                      // Expanding validates the graph and all nodes that its layers stand for.
                      LEAT_RETURN_IF_ERROR(expand_layers(graph).status());
                      return command.file + ": valid\n";
                    });
}

// Refuses an invalid graph. The graph that it writes contains the types of its outputs, if it has
// no control flow: that has types only once it is expanded.
int run_graph_convert(const GraphConvertCommand& command) {
  Status saved;
  const int code = with_graph(command.input, command.fixed, command.color,
                              [&](const Graph& graph) -> Result<std::string> {
                                LEAT_RETURN_IF_ERROR(expand_layers(graph).status());
                                // A copy, because validate() writes the types of the outputs into
                                // the graph.
                                Graph typed = graph;
                                if (!has_control_flow(graph)) LEAT_RETURN_IF_ERROR(validate(typed));
                                saved = save_graph(real_files(), command.output, typed);
                                return std::string();
                              });
  return code == kExitOk ? report(saved, command.color) : code;
}

int run_graph_ops(const GraphOpsCommand& command) {
  // The page is the same on every machine; the table tells of the kernels that this one has.
  const Catalogue catalogue = command.markdown ? standard_catalogue() : catalogue_with_gpus();
  const std::string text = command.json       ? op_lines_json(catalogue)
                           : command.markdown ? op_page(catalogue)
                                              : op_table(catalogue);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace leat
