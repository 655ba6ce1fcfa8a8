#include "daemon/cli/look_arguments.h"

#include <CLI/CLI.hpp>

#include "daemon/cli/cluster_arguments.h"

namespace leat {
namespace {

// Adds a command that looks at a job. `steps` describes the option --steps; null for none.
CLI::App* add_look(CLI::App& app, const char* name, const char* text, std::string& id,
                   int64_t* count, const char* steps) {
  auto* sub = add_command(app, name, text);
  add_argument(*sub, "JOB", id, "The job's id, or a prefix of no other")->required();
  if (count != nullptr)
    sub->add_option("--steps", *count, steps)->type_name("N")->check(whole_number(1, 1000));
  return sub;
}

}  // namespace

void add_look_commands(CLI::App& app, LookArguments& arguments, std::string& color) {
  auto& [cluster, why, trace, explain] = arguments;
  CLI::App* why_sub =
      add_look(app, "why", "Say why a job does not go on", why.id, nullptr, nullptr);
  CLI::App* explain_sub = add_look(app, "explain", "Say where the time of a job's steps goes",
                                   explain.id, &explain.steps, "The steps to look at (20)");
  CLI::App* trace_sub = add_look(app, "trace", "Record steps of a job for Perfetto", trace.id,
                                 &trace.steps, "The steps to record (10)");
  trace_sub->add_option("-o,--output", trace.output, "The file (default: JOB-trace.json)")
      ->type_name("FILE");
  for (CLI::App* each : {why_sub, explain_sub, trace_sub}) {
    add_cluster_options(*each, cluster);
    add_color(*each, color);
  }
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
