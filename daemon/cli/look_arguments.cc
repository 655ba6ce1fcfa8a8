#include "daemon/cli/look_arguments.h"

#include <CLI/CLI.hpp>

#include "daemon/cli/cluster_arguments.h"

namespace leat {
namespace {

constexpr const char* kLookedAt = "The job's id, or a prefix of no other";

void add_why(CLI::App& app, LookArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "why", "Say why a job does not go on");
  add_argument(*sub, "JOB", arguments.why.id, kLookedAt)->required();
  add_cluster_options(*sub, arguments.cluster);
  add_color(*sub, color);
}

void add_trace(CLI::App& app, LookArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "trace", "Record steps of a job for Perfetto");
  add_argument(*sub, "JOB", arguments.trace.id, kLookedAt)->required();
  sub->add_option("--steps", arguments.trace.steps, "The steps to record (10)")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  sub->add_option("-o,--output", arguments.trace.output, "The file (default: JOB-trace.json)")
      ->type_name("FILE");
  add_cluster_options(*sub, arguments.cluster);
  add_color(*sub, color);
}

void add_explain(CLI::App& app, LookArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "explain", "Say where the time of a job's steps goes");
  add_argument(*sub, "JOB", arguments.explain.id, kLookedAt)->required();
  sub->add_option("--steps", arguments.explain.steps, "The steps to look at (20)")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  add_cluster_options(*sub, arguments.cluster);
  add_color(*sub, color);
}

}  // namespace

void add_look_commands(CLI::App& app, LookArguments& arguments, std::string& color) {
  add_why(app, arguments, color);
  add_explain(app, arguments, color);
  add_trace(app, arguments, color);
}

std::optional<Command> look_command(const std::string& name, LookArguments arguments,
                                    ColorMode color) {
  arguments.cluster.color = color;
  const auto with_cluster = [&](auto command) {
    command.cluster = arguments.cluster;
    return Command(std::move(command));
  };
  if (name == "leat why") return with_cluster(std::move(arguments.why));
  if (name == "leat trace") return with_cluster(std::move(arguments.trace));
  if (name == "leat explain") return with_cluster(std::move(arguments.explain));
  return std::nullopt;
}

}  // namespace leat
