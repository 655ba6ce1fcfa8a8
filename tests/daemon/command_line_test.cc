#include "daemon/cli/command_line.h"

#include "tests/catch.h"

namespace leat {
namespace {

std::string usage_error(const std::vector<std::string>& arguments) {
  const Command command = parse_command_line(arguments);
  const auto* text = std::get_if<PrintText>(&command);
  if (text == nullptr) return "(no error)";
  CHECK(text->exit_code == kExitUsage);
  return text->text;
}

std::string help(const std::vector<std::string>& arguments) {
  const Command command = parse_command_line(arguments);
  const auto* text = std::get_if<PrintText>(&command);
  REQUIRE(text != nullptr);
  CHECK(text->exit_code == kExitOk);
  return text->text;
}

TEST_CASE("leat train takes a job and its flags in any order") {
  const Command command =
      parse_command_line({"train", "--workers", "2", "--set", "epochs=1", "job.yaml", "--set",
                          "metrics=[accuracy]", "--seed=9223372036854775807", "--threads", "3",
                          "--output", "out", "--json", "--profile", "--color", "never"});
  REQUIRE(std::holds_alternative<TrainCommand>(command));
  const auto& train = std::get<TrainCommand>(command);
  CHECK(train.job.file == "job.yaml");
  CHECK(train.job.overrides.num_workers == 2);
  CHECK(train.job.overrides.seed == 9223372036854775807);
  CHECK(train.job.overrides.set == std::vector<std::string>{"epochs=1", "metrics=[accuracy]"});
  CHECK(train.job.threads == 3);
  CHECK(train.output == "out");
  CHECK(train.resume.empty());
  CHECK(train.json);
  CHECK(train.profile);
  CHECK(train.color == ColorMode::never);
}

TEST_CASE("--workers takes one number, or the least and the most") {
  const Command one = parse_command_line({"train", "j.yaml", "--workers", "3"});
  CHECK(std::get<TrainCommand>(one).job.overrides.num_workers == 3);
  CHECK_FALSE(std::get<TrainCommand>(one).job.overrides.min_workers.has_value());
  const Command both = parse_command_line({"submit", "j.yaml", "--workers", "2:4"});
  CHECK(std::get<SubmitCommand>(both).job.overrides.num_workers == 4);
  CHECK(std::get<SubmitCommand>(both).job.overrides.min_workers == 2);
  for (const std::string wrong : {"4:2", "0:2", "2:", ":2", "2:4:6", "a:b", "02", "5000"}) {
    INFO(wrong);
    const Command refused = parse_command_line({"train", "j.yaml", "--workers", wrong});
    CHECK_THAT(std::get<PrintText>(refused).text, Catch::Contains("received '" + wrong + "'"));
  }
}

TEST_CASE("--gpu asks for a GPU for each worker") {
  const std::vector<std::string> gpu = {"steps=3", "resources_per_worker.gpu=1"};
  const Command submit = parse_command_line({"submit", "j.yaml", "--set", "steps=3", "--gpu"});
  CHECK(std::get<SubmitCommand>(submit).job.overrides.set == gpu);
  const Command plan = parse_command_line({"plan", "--set", "steps=3", "j.yaml", "--gpu"});
  CHECK(std::get<PlanCommand>(plan).job.overrides.set == gpu);
}

TEST_CASE("leat version takes --all and --json, and is --version without them") {
  const Command all = parse_command_line({"version", "--all"});
  REQUIRE(std::holds_alternative<VersionCommand>(all));
  CHECK(std::get<VersionCommand>(all).all);
  CHECK_FALSE(std::get<VersionCommand>(all).json);
  const Command json = parse_command_line({"version", "--json"});
  REQUIRE(std::holds_alternative<VersionCommand>(json));
  CHECK_FALSE(std::get<VersionCommand>(json).all);
  CHECK(std::get<VersionCommand>(json).json);
  CHECK_THAT(help({"version", "--help"}), Catch::Contains("--all"));
}

TEST_CASE("keys of checkpoints are named on the command line") {
  const Command train = parse_command_line({"train", "job.yaml", "--sign-key", "my.key"});
  CHECK(std::get<TrainCommand>(train).sign_key == "my.key");
  const Command verify =
      parse_command_line({"checkpoint", "verify", "run", "--key", "my.pub", "--gaps"});
  CHECK(std::get<CheckpointVerifyCommand>(verify).key == "my.pub");
  CHECK(std::get<CheckpointVerifyCommand>(verify).gaps);
  const Command plain = parse_command_line({"checkpoint", "verify", "run"});
  CHECK(std::get<CheckpointVerifyCommand>(plain).key.empty());
  CHECK_FALSE(std::get<CheckpointVerifyCommand>(plain).gaps);
}

TEST_CASE("leat train leaves what no flag gives unset") {
  const Command command = parse_command_line({"train", "job.yaml"});
  REQUIRE(std::holds_alternative<TrainCommand>(command));
  const auto& train = std::get<TrainCommand>(command);
  CHECK_FALSE(train.job.overrides.num_workers.has_value());
  CHECK_FALSE(train.job.overrides.seed.has_value());
  CHECK_FALSE(train.job.threads.has_value());
  CHECK_FALSE(train.json);
  CHECK_FALSE(train.profile);
  CHECK(train.color == ColorMode::automatic);
}

TEST_CASE("leat train --resume needs no job file") {
  const Command command = parse_command_line({"train", "--resume", "leat-runs/x"});
  REQUIRE(std::holds_alternative<TrainCommand>(command));
  CHECK(std::get<TrainCommand>(command).resume == "leat-runs/x");
}

TEST_CASE("the other commands become their structs") {
  const Command plan = parse_command_line({"--color", "always", "plan", "j.yaml", "--workers=4"});
  REQUIRE(std::holds_alternative<PlanCommand>(plan));
  CHECK(std::get<PlanCommand>(plan).job.overrides.num_workers == 4);
  CHECK(std::get<PlanCommand>(plan).color == ColorMode::always);

  const Command predict =
      parse_command_line({"predict", "run", "--input", "x.npy", "-o", "y.npy", "--json"});
  REQUIRE(std::holds_alternative<PredictCommand>(predict));
  CHECK(std::get<PredictCommand>(predict).run == "run");
  CHECK(std::get<PredictCommand>(predict).inputs == std::vector<std::string>{"x.npy"});
  CHECK(std::get<PredictCommand>(predict).output == "y.npy");
  CHECK(std::get<PredictCommand>(predict).cluster.json);

  const Command show = parse_command_line({"graph", "show", "g.onnxtxt", "--expand"});
  REQUIRE(std::holds_alternative<GraphShowCommand>(show));
  CHECK(std::get<GraphShowCommand>(show).file == "g.onnxtxt");
  CHECK(std::get<GraphShowCommand>(show).expand);

  const Command check = parse_command_line({"graph", "check", "g.onnx"});
  REQUIRE(std::holds_alternative<GraphCheckCommand>(check));
  CHECK(std::get<GraphCheckCommand>(check).file == "g.onnx");

  const Command ops = parse_command_line({"graph", "ops", "--json"});
  REQUIRE(std::holds_alternative<GraphOpsCommand>(ops));
  CHECK(std::get<GraphOpsCommand>(ops).json);
  CHECK_FALSE(std::get<GraphOpsCommand>(ops).markdown);

  const Command convert = parse_command_line({"graph", "convert", "g.onnx", "g.onnxtxt"});
  REQUIRE(std::holds_alternative<GraphConvertCommand>(convert));
  CHECK(std::get<GraphConvertCommand>(convert).input == "g.onnx");
  CHECK(std::get<GraphConvertCommand>(convert).output == "g.onnxtxt");
}

TEST_CASE("leat top takes an interval and a count") {
  const Command top = parse_command_line({"top", "-i", "5s", "-n", "3", "--json"});
  REQUIRE(std::holds_alternative<TopCommand>(top));
  CHECK(std::get<TopCommand>(top).interval == std::chrono::seconds(5));
  CHECK(std::get<TopCommand>(top).count == 3);
  CHECK(std::get<TopCommand>(top).cluster.json);
  const Command plain = parse_command_line({"top"});
  CHECK(std::get<TopCommand>(plain).interval == std::chrono::seconds(2));
  CHECK(std::get<TopCommand>(plain).count == 0);
}

TEST_CASE("the commands about a cluster become their structs") {
  const Command submit = parse_command_line(
      {"submit", "j.yaml", "--workers", "2", "--set", "data.root=mnist", "--follow", "--timeout",
       "2h", "--master", "m:1", "--cluster", "c", "--secret-file", "s", "--json"});
  REQUIRE(std::holds_alternative<SubmitCommand>(submit));
  const auto& command = std::get<SubmitCommand>(submit);
  CHECK(command.job.file == "j.yaml");
  CHECK(command.job.overrides.num_workers == 2);
  CHECK(command.job.overrides.set == std::vector<std::string>{"data.root=mnist"});
  CHECK(command.attend == Attend::follow);
  CHECK(command.timeout == std::chrono::hours(2));
  CHECK(command.cluster.master == "m:1");
  CHECK(command.cluster.cluster == "c");
  CHECK(command.cluster.secret_file == "s");
  CHECK(command.cluster.json);

  const auto ps = std::get<PsCommand>(
      parse_command_line({"--color", "never", "ps", "-a", "-q", "--no-headers"}));
  CHECK(ps.all);
  CHECK(ps.quiet);
  CHECK_FALSE(ps.headers);
  CHECK(ps.cluster.color == ColorMode::never);
  CHECK(ps.cluster.master.empty());
  const auto show = std::get<ShowCommand>(parse_command_line({"show", "x", "--wait"}));
  CHECK(show.id == "x");
  CHECK(show.attend == Attend::wait);
  CHECK_FALSE(show.timeout.has_value());
  const auto logs = std::get<LogsCommand>(parse_command_line({"logs", "-f", "--tail", "0", "x"}));
  CHECK(logs.follow);
  CHECK(logs.tail == 0);
  const auto fetch =
      std::get<FetchCommand>(parse_command_line({"fetch", "x", "a", "b", "-o", "out"}));
  CHECK(fetch.names == std::vector<std::string>{"a", "b"});
  CHECK(fetch.output == "out");
  const auto exported = std::get<CheckpointExportCommand>(
      parse_command_line({"fetch", "x", "--format", "onnx", "--opset", "18", "-o", "m.onnx"}));
  CHECK(exported.name == "x");
  CHECK(exported.of_cluster);
  CHECK(exported.format == "onnx");
  CHECK(exported.output == "m.onnx");
  CHECK(exported.opset == 18);
  CHECK(std::get<PrintText>(parse_command_line({"fetch", "x", "a", "--format", "npz"})).exit_code ==
        kExitUsage);
  CHECK(std::get<PrintText>(parse_command_line({"fetch", "x", "--opset", "18"})).exit_code ==
        kExitUsage);
  CHECK(std::get<PrintText>(parse_command_line({"checkpoint", "export", "x"})).exit_code ==
        kExitUsage);
  CHECK(std::get<CancelCommand>(parse_command_line({"cancel", "x", "--wait"})).wait);
  const Command pause = parse_command_line({"pause", "x", "--wait", "--timeout", "10s"});
  CHECK(std::get<PauseCommand>(pause).wait);
  CHECK(std::get<PauseCommand>(pause).timeout == std::chrono::milliseconds(10'000));
  CHECK_FALSE(std::get<PauseCommand>(pause).undo);
  CHECK(std::get<PauseCommand>(parse_command_line({"resume", "x"})).undo);
  const Command held = parse_command_line({"submit", "j.yaml", "--paused", "--priority", "-5"});
  CHECK(std::get<SubmitCommand>(held).paused);
  CHECK(std::get<SubmitCommand>(held).job.overrides.set == std::vector<std::string>{"priority=-5"});
  CHECK(std::get<NodesCommand>(parse_command_line({"nodes"})).headers);
  const Command drain = parse_command_line({"nodes", "drain", "w1", "--master", "m:1"});
  CHECK(std::get<DrainCommand>(drain).worker == "w1");
  CHECK(std::get<DrainCommand>(drain).cluster.master == "m:1");
  CHECK_FALSE(std::get<DrainCommand>(drain).undo);
  CHECK(std::get<DrainCommand>(parse_command_line({"nodes", "drain", "w1", "--undo"})).undo);
  const Command rm = parse_command_line({"rm", "a", "b", "--json"});
  CHECK(std::get<RmCommand>(rm).ids == std::vector<std::string>{"a", "b"});
  CHECK(std::get<RmCommand>(rm).cluster.json);
  CHECK(std::holds_alternative<ClusterCommand>(parse_command_line({"cluster"})));
  const Command bundle = parse_command_line({"support-bundle", "a", "b", "-o", "c.tar.gz"});
  CHECK(std::get<SupportBundleCommand>(bundle).ids == std::vector<std::string>{"a", "b"});
  CHECK(std::get<SupportBundleCommand>(bundle).output == "c.tar.gz");
}

TEST_CASE("leat ca takes times, hosts and its folder") {
  const Command made =
      parse_command_line({"ca", "issue", "--role", "worker", "--name", "w", "--host", "a", "--host",
                          "10.0.0.1", "--dir", "d", "--lasts", "400d"});
  const auto& issue = std::get<CaIssue>(std::get<CaCommand>(made).action);
  CHECK(std::get<CaCommand>(made).folder == "d");
  CHECK(issue.order.role == "worker");
  CHECK(issue.order.name == "w");
  CHECK(issue.order.hosts == std::vector<std::string>{"a", "10.0.0.1"});
  CHECK(issue.order.lasts == std::chrono::hours(24 * 400));
  const Command init = parse_command_line({"ca", "init"});
  CHECK(std::get<CaInit>(std::get<CaCommand>(init).action).lasts == std::chrono::hours(24 * 3650));
  CHECK_THAT(usage_error({"ca", "rotate", "--force"}), Catch::Contains("--finish"));
}

TEST_CASE("every command that reads weights takes the keys for them") {
  const std::vector<std::vector<std::string>> commands = {
      {"train", "--resume", "run"},       {"evaluate", "run"},
      {"predict", "run", "--input", "x"}, {"submit", "--resume", "run"},
      {"compare", "run", "other"},        {"metrics", "run", "--tensorboard", "boards"},
      {"checkpoint", "ls", "run"},        {"checkpoint", "verify", "run"},
      {"checkpoint", "diff", "run", "b"}, {"checkpoint", "export", "run", "-o", "w.npz"},
      {"checkpoint", "copy", "run", "b"}};
  for (std::vector<std::string> words : commands) {
    INFO(words[0] << " " << words[1]);
    words.insert(words.end(), {"--checkpoint-key", "new", "--checkpoint-key", "old"});
    const Command command = parse_command_line(words);
    REQUIRE_FALSE(std::holds_alternative<PrintText>(command));
  }
  const Command compare = parse_command_line({"compare", "a", "b", "--checkpoint-key", "k"});
  CHECK(std::get<CompareCommand>(compare).cluster.checkpoint_keys == std::vector<std::string>{"k"});
  const Command metrics = parse_command_line(
      {"metrics", "a", "--tensorboard", "d", "--checkpoint-key", "k", "--checkpoint-key", "l"});
  CHECK(std::get<MetricsCommand>(metrics).cluster.checkpoint_keys ==
        std::vector<std::string>{"k", "l"});
  // The table of the numbers needs none.
  CHECK_THAT(usage_error({"metrics", "a", "--checkpoint-key", "k"}),
             Catch::Contains("--tensorboard"));
}

TEST_CASE("a wrong command line says what is wrong, what is near, and where the help is") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{},
       "expected a command: train, plan, predict, graph, evaluate, checkpoint, submit, ps, show, "
       "logs, "
       "cancel, pause, resume, fetch, rm, nodes, top, token, config, cluster, doctor, "
       "support-bundle, "
       "metrics, plot, "
       "compare, "
       "why, explain, trace, ca, data, audit, completion, man, help, version\nSee "
       "'leat "
       "--help'."},
      {{"tarin", "j.yaml"}, "unknown command 'tarin' (did you mean 'train'?)\nSee 'leat --help'."},
      {{"launch"},
       "unknown command 'launch'; the commands are train, plan, predict, graph, evaluate, "
       "checkpoint, submit, ps, show, "
       "logs, cancel, pause, resume, fetch, rm, nodes, top, token, config, cluster, doctor, "
       "support-bundle, metrics, "
       "plot, "
       "compare, why, explain, trace, ca, data, audit, completion, "
       "man, "
       "help, version\nSee 'leat --help'."},
      {{"sbumit", "j.yaml"},
       "unknown command 'sbumit' (did you mean 'submit'?)\nSee 'leat --help'."},
      {{"submit"},
       "JOB is required, or --resume DIR|JOB, or --evaluate JOB\nSee 'leat submit --help'."},
      {{"submit", "j.yaml", "--checkpoint-key", "k"},
       "expected --resume DIR with --checkpoint-key, whose checkpoints it reads\nSee 'leat submit "
       "--help'."},
      {{"submit", "--evaluate", "cnn-1f2e", "--checkpoint-key", "k"},
       "expected --resume DIR with --checkpoint-key, whose checkpoints it reads\nSee 'leat submit "
       "--help'."},
      {{"submit", "j.yaml", "--wait", "--follow"},
       "--wait excludes --follow\nSee 'leat submit --help'."},
      {{"submit", "j.yaml", "--timeout", "10"},
       "--timeout: expected a time as 90s, 10m or 2h, received '10'\nSee 'leat submit --help'."},
      {{"ps", "--master", "localhost"},
       "--master: expected host:port or unix:/PATH, received 'localhost'\nSee 'leat ps --help'."},
      {{"rm"}, "JOB is required\nSee 'leat rm --help'."},
      {{"cancel"}, "JOB is required\nSee 'leat cancel --help'."},
      {{"graph"}, "expected a command: show, check, convert, ops\nSee 'leat graph --help'."},
      {{"graph", "shwo", "f"},
       "unknown command 'shwo' (did you mean 'show'?)\nSee 'leat graph --help'."},
      {{"train", "j.yaml", "--wrokers", "3"},
       "unknown flag '--wrokers' (did you mean '--workers'?)\nSee 'leat train --help'."},
      {{"train", "--outptu=x", "j.yaml"},
       "unknown flag '--outptu' (did you mean '--output'?)\nSee 'leat train --help'."},
      {{"graph", "--color", "always", "show", "x"},
       "flag '--color' is one of 'leat graph show': put it behind that\nSee 'leat graph show "
       "--help'."},
      {{"train", "j.yaml", "-z"}, "unknown flag '-z'\nSee 'leat train --help'."},
      {{"train", "j.yaml", "k.yaml"}, "unexpected argument 'k.yaml'\nSee 'leat train --help'."},
      {{"train", "job.yaml", "--resume", "run"},
       "expected JOB or --resume DIR, received both ('job.yaml'): a run goes on with its own job, "
       "run/job.yaml; --set changes it\nSee 'leat train --help'."},
      {{"train"}, "JOB is required, or --resume DIR\nSee 'leat train --help'."},
      {{"plan"}, "JOB is required\nSee 'leat plan --help'."},
      {{"predict", "run"}, "--input is required, or --data\nSee 'leat predict --help'."},
      {{"train", "j.yaml", "--workers", "0"},
       "--workers: expected an integer of at least 1, or two, the least and the most, as 2:4, "
       "received '0'\nSee 'leat train --help'."},
      {{"train", "j.yaml", "--workers", "two"},
       "--workers: expected an integer of at least 1, or two, the least and the most, as 2:4, "
       "received 'two'\nSee 'leat train --help'."},
      {{"train", "j.yaml", "--threads", "010"},
       "--threads: expected an integer of at least 1, received '010'\nSee 'leat train --help'."},
      {{"train", "j.yaml", "--seed", "-1"},
       "--seed: expected an integer of at least 0, received '-1'\nSee 'leat train --help'."},
      {{"train", "j.yaml", "--color", "red"},
       "--color: expected auto, always or never, received 'red'\nSee 'leat train --help'."},
  };
  for (const auto& [arguments, expected] : cases) {
    INFO(expected);
    CHECK(usage_error(arguments) == expected);
  }
  CHECK_THAT(usage_error({"train", "j.yaml", "--set"}), Catch::StartsWith("--set: "));
}

TEST_CASE("help names every command and every flag, and the version is a line") {
  const std::string top = help({"--help"});
  for (const char* word : {"train", "plan", "predict", "graph", "--version", "Examples"}) {
    CHECK_THAT(top, Catch::Contains(word));
  }
  const std::string train = help({"train", "--help"});
  for (const char* word : {"JOB", "--workers", "--threads", "--seed", "--set", "--output",
                           "--resume", "--json", "--color"}) {
    CHECK_THAT(train, Catch::Contains(word));
  }
  CHECK_THAT(help({"graph", "--help"}), Catch::Contains("convert"));
  CHECK_THAT(help({"--version"}), Catch::StartsWith("leat ") && Catch::EndsWith("\n"));
}

TEST_CASE("leat help and leat version print what --help and --version do") {
  CHECK(help({"help"}) == help({"--help"}));
  CHECK(help({"help", "submit"}) == help({"submit", "--help"}));
  CHECK(help({"help", "nodes", "drain"}) == help({"nodes", "drain", "--help"}));
  CHECK(help({"version"}) == help({"--version"}));
  CHECK_THAT(help({"help", "help"}), Catch::Contains("leat help"));
  CHECK(usage_error({"help", "sbumit"}) ==
        "unknown command 'sbumit' (did you mean 'submit'?)\nSee 'leat help'.");
  CHECK(usage_error({"help", "graph", "submit"}) ==
        "unknown command 'submit'; the commands are show, check, convert, ops\nSee 'leat help'.");
  CHECK_THAT(usage_error({"help", "--jsno"}), Catch::Contains("unknown flag '--jsno'"));
  CHECK_THAT(usage_error({"version", "now"}), Catch::Contains("unexpected argument 'now'"));
}

TEST_CASE("a missing job file is exit code 5, a wrong job 7") {
  TrainCommand train;
  train.job.file = "/nonexistent/job.yaml";
  CHECK(run_train(train) == kExitNoSuch);
  CHECK(exit_code_of(Status()) == kExitOk);
  CHECK(exit_code_of(invalid_argument("x")) == kExitInvalid);
  CHECK(exit_code_of(unimplemented("x")) == kExitInvalid);
  CHECK(exit_code_of(unavailable("x")) == kExitFailed);
}

TEST_CASE("colours are for terminals, and NO_COLOR and TERM=dumb are honoured") {
  CHECK(use_color(ColorMode::automatic, true, nullptr, "xterm"));
  CHECK(use_color(ColorMode::automatic, true, "", "xterm"));
  CHECK_FALSE(use_color(ColorMode::automatic, false, nullptr, "xterm"));
  CHECK_FALSE(use_color(ColorMode::automatic, true, "1", "xterm"));
  CHECK_FALSE(use_color(ColorMode::automatic, true, nullptr, "dumb"));
  CHECK(use_color(ColorMode::always, false, "1", "dumb"));
  CHECK_FALSE(use_color(ColorMode::never, true, nullptr, "xterm"));
  CHECK(error_line("bad", false) == "leat: error: bad\n");
  CHECK(error_line("bad", true) == "leat: \033[1;31merror:\033[0m bad\n");
}

}  // namespace
}  // namespace leat
