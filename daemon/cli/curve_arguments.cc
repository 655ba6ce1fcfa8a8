#include "daemon/cli/curve_arguments.h"

#include <CLI/CLI.hpp>

#include "daemon/cli/cluster_arguments.h"

namespace leat {
namespace {

constexpr const char* kRun = "The folder of a run, or a job of the cluster";

void add_metrics(CLI::App& app, CurveArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "metrics", "Print the numbers of a training");
  add_argument(*sub, "RUN|JOB", arguments.metrics.name, kRun)->required();
  auto* csv = sub->add_flag("--csv", arguments.metrics.csv,
                            "The numbers of every step, as comma-separated values");
  sub->add_flag("--epochs", arguments.metrics.epochs,
                "With --csv and --json: those of every epoch");
  auto* json = add_cluster_options(*sub, arguments.cluster)->excludes(csv);
  auto* boards = sub->add_option("--tensorboard", arguments.metrics.tensorboard,
                                 "Write all numbers for TensorBoard, into DIR/RUN")
                     ->type_name("DIR")
                     ->excludes(csv)
                     ->excludes(json);
  sub->add_flag("--graph", arguments.metrics.graph,
                "With --tensorboard: the graph of the model, too")
      ->needs(boards);
  sub->add_flag("--histograms", arguments.metrics.histograms,
                "With --tensorboard: the distributions of the weights in each checkpoint, too")
      ->needs(boards);
  auto* gradients =
      sub->add_flag("--gradients", arguments.metrics.gradients,
                    "With --tensorboard: the distributions of the gradients in the step after each "
                    "checkpoint, too, computed here from the run's data")
          ->needs(boards);
  sub->add_option("--set", arguments.metrics.set,
                  "With --gradients: a key of the run's job file, such as data.root=PATH")
      ->type_name("KEY=VALUE")
      ->needs(gradients);
  add_checkpoint_key(*sub, arguments.cluster.checkpoint_keys)->needs(boards);
  add_color(*sub, color);
}

void add_plot(CLI::App& app, CurveArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "plot", "Draw the curves of trainings");
  sub->add_option("RUN|JOB", arguments.plot.names, kRun)->type_name("")->required();
  sub->add_option("-m,--metric", arguments.plot.metric, "Of the steps, or of the epochs (loss)")
      ->type_name("NAME");
  sub->add_option("--smooth", arguments.plot.smooth,
                  "Draw the mean of each point and N points on either side")
      ->type_name("N")
      ->check(whole_number(0, 1'000'000'000));
  auto* output = sub->add_option("-o,--output", arguments.plot.output,
                                 "Draw into this file, named .svg or .png")
                     ->type_name("FILE");
  add_cluster_options(*sub, arguments.cluster)->excludes(output);
  add_color(*sub, color);
}

void add_compare(CLI::App& app, CurveArguments& arguments, std::string& color) {
  auto* sub = add_command(app, "compare", "Say how two trainings differ, and what each came to");
  add_argument(*sub, "FIRST", arguments.compare.first, kRun)->required();
  add_argument(*sub, "SECOND", arguments.compare.second, kRun)->required();
  add_cluster_options(*sub, arguments.cluster);
  add_checkpoint_key(*sub, arguments.cluster.checkpoint_keys);
  add_color(*sub, color);
}

}  // namespace

void add_curve_commands(CLI::App& app, CurveArguments& arguments, std::string& color) {
  add_metrics(app, arguments, color);
  add_plot(app, arguments, color);
  add_compare(app, arguments, color);
}

std::optional<Command> curve_command(const std::string& name, CurveArguments arguments,
                                     ColorMode color) {
  arguments.cluster.color = color;
  const auto with_cluster = [&](auto command) {
    command.cluster = arguments.cluster;
    return Command(std::move(command));
  };
  if (name == "leat metrics") return with_cluster(std::move(arguments.metrics));
  if (name == "leat plot") return with_cluster(std::move(arguments.plot));
  if (name == "leat compare") return with_cluster(std::move(arguments.compare));
  return std::nullopt;
}

}  // namespace leat
