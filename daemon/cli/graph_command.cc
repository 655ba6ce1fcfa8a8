#include "daemon/cli/commands.h"

namespace leat {

int run_graph_show(const GraphShowCommand& command) {
  return report(unimplemented("leat graph show: not built yet"), command.color);
}
int run_graph_check(const GraphCheckCommand& command) {
  return report(unimplemented("leat graph check: not built yet"), command.color);
}
int run_graph_convert(const GraphConvertCommand& command) {
  return report(unimplemented("leat graph convert: not built yet"), command.color);
}

}  // namespace leat
