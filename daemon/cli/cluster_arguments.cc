#include "daemon/cli/cluster_arguments.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "daemon/base/units.h"
#include "daemon/cli/cluster_connection.h"
#include "devices/base/text.h"
#include "ops/onnx/export.h"
#include "ops/onnx/import.h"

namespace leat {
namespace {

// Accepts a time with a unit, such as 90s. cluster_command() parses the text again.
CLI::Validator time_word() {
  const auto check = [](const std::string& text) -> std::string {
    if (parse_duration(text)) return {};
    return "expected a time as 90s, 10m or 2h, received '" + text + "'";
  };
  return CLI::Validator(check, "");
}

// Accepts "host:port" and "unix:/path", so that a wrong address is an error of usage and not of the
// connection.
CLI::Validator address_word() {
  const auto check = [](const std::string& text) -> std::string {
    return is_address(text) ? "" : "expected host:port or unix:/PATH, received '" + text + "'";
  };
  return CLI::Validator(check, "");
}

// Adds a command with the options that all commands for a cluster have. All of them write to the
// same variables, because only one command is given.
CLI::App* add(CLI::App& app, const char* name, const char* about, ClusterArguments& arguments,
              bool json = true) {
  CLI::App* sub = add_command(app, name, about);
  add_cluster_options(*sub, arguments.options, json);
  return sub;
}

void add_id(CLI::App& sub, ClusterArguments& arguments) {
  add_argument(sub, "JOB", arguments.id, "The job's id, or a prefix of no other")->required();
}

void add_attendance(CLI::App& sub, ClusterArguments& arguments) {
  auto* wait = sub.add_flag("--wait", arguments.wait,
                            "Wait until the job has ended; exit with 0 only if it succeeded");
  sub.add_flag("-f,--follow", arguments.follow, "The same, and show how it goes; Ctrl-C detaches")
      ->excludes(wait);
  sub.add_option(
         "--on-event", arguments.on_event,
         "With --follow or --wait: start this program here, and write each event of the job "
         "to its stdin, as JSON")
      ->type_name("PROGRAM");
}

// Returns the error of --on-event, if any.
std::optional<std::string> check_on_event(const ClusterArguments& arguments, const char* command) {
  if (arguments.on_event.empty() || arguments.follow || arguments.wait) return std::nullopt;
  return cat("expected --follow or --wait with --on-event, which runs as long as the command",
             "\nSee '", command, " --help'.");
}

void add_timeout(CLI::App& sub, ClusterArguments& arguments) {
  sub.add_option("--timeout", arguments.timeout, "Exit with 124 after this time, e.g. 90s or 2h")
      ->type_name("TIME")
      ->check(time_word());
}

// The options of commands that print a table. `quiet` describes the output of --quiet.
void add_table(CLI::App& sub, ClusterArguments& arguments, const char* quiet) {
  sub.add_flag("-q,--quiet", arguments.quiet, quiet);
  sub.add_flag("--no-headers", arguments.no_headers, "The table without its first line");
}

// The options of `submit` change the job like those of `train`. The number of threads is missing,
// because each worker decides it.
CLI::App* add_submit(CLI::App& app, ClusterArguments& arguments) {
  JobOptions& job = arguments.submit.job;
  auto* sub = add(app, "submit", "Give a job to the cluster; prints its id", arguments);
  add_argument(*sub, "JOB", job.file,
               "The job file (YAML); data.root is a name that workers have; not with --resume");
  sub->add_option("--resume", arguments.submit.resume,
                  "Go on from the newest checkpoint of this run's folder or job, with its job")
      ->type_name("DIR|JOB");
  sub->add_option("--evaluate", arguments.submit.evaluate,
                  "A job that evaluates each checkpoint of this one as it appears")
      ->type_name("JOB");
  add_workers(*sub, job.overrides.min_workers, job.overrides.num_workers);
  sub->add_option("--seed", job.overrides.seed, "Seed of weights, shuffling and dropout")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()));
  sub->add_option("--set", job.overrides.set,
                  "Set any key of the job file, e.g. data.root=mnist; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_gpu(*sub, job.overrides.set);
  sub->add_option("--chaos", arguments.submit.chaos,
                  "A fault that the job brings upon itself, e.g. kill=worker:1@step=700 or "
                  "seed=7,every=15s; repeatable")
      ->type_name("FAULT")
      ->allow_extra_args(false);
  sub->add_option_function<int64_t>(
         "--priority",
         [&set = job.overrides.set](const int64_t& priority) {
           set.push_back(cat("priority=", priority));
         },
         "Its place in the queue: a higher one goes first (default: that of the job file, or 0)")
      ->type_name("N")
      ->check(CLI::Range(kLeastPriority, kMostPriority));
  sub->add_flag("--paused", arguments.submit.paused, "Keep it PAUSED until leat resume");
  add_checkpoint_key(*sub, arguments.options.checkpoint_keys);
  add_attendance(*sub, arguments);
  add_timeout(*sub, arguments);
  return sub;
}

// Returns the error of its arguments, if any.
std::optional<std::string> check_submit(const SubmitCommand& submit,
                                        const ClusterOptions& options) {
  const std::string see = "\nSee 'leat submit --help'.";
  if (submit.resume.empty() && !options.checkpoint_keys.empty())
    return "expected --resume DIR with --checkpoint-key, whose checkpoints it reads" + see;
  if (!submit.evaluate.empty()) {
    if (submit.job.overrides.num_workers)
      return "expected no --workers with --evaluate, which takes one" + see;
    if (submit.resume.empty()) return std::nullopt;
    return cat("expected --resume or --evaluate, received both ('", submit.resume, "', '",
               submit.evaluate, "')", see);
  }
  if (submit.job.file.empty() != submit.resume.empty()) return std::nullopt;
  if (submit.resume.empty()) return "JOB is required, or --resume DIR|JOB, or --evaluate JOB" + see;
  return cat("expected JOB or --resume DIR|JOB, received both ('", submit.job.file,
             "'): a run goes on with its own job; --set changes it", see);
}

std::optional<std::string> check_fetch(const ClusterArguments& arguments) {
  const std::string see = "\nSee 'leat fetch --help'.";
  const bool exports = !arguments.exported.format.empty();
  if (exports && !arguments.fetch.names.empty())
    return cat("expected names of files or --format, received both", see);
  if (!exports && arguments.exported.opset) return cat("expected --format onnx with --opset", see);
  return std::nullopt;
}

CLI::App* add_logs(CLI::App& app, ClusterArguments& arguments) {
  auto* sub = add(app, "logs", "Print what the workers of a job said", arguments);
  add_id(*sub, arguments);
  sub->add_flag("-f,--follow", arguments.follow, "Go on until the job has ended; Ctrl-C detaches");
  sub->add_option("--tail", arguments.logs.tail, "Only the last N lines of what there is")
      ->type_name("N")
      ->check(whole_number(0, 1'000'000'000));
  return sub;
}

// The options of what is exported; returns --format.
CLI::Option* add_export(CLI::App& sub, ClusterArguments& arguments) {
  auto* format = sub.add_option("--format", arguments.exported.format,
                                "The trained model as onnx, or its weights as safetensors or npz")
                     ->type_name("FORMAT")
                     ->check(CLI::IsMember({"onnx", "safetensors", "npz"}));
  sub.add_option("--opset", arguments.exported.opset,
                 "Of an ONNX file (default: as the model's file, or as its nodes need)")
      ->type_name("N")
      ->check(whole_number(kOldestExport, kNewestOpset));
  return format;
}

CLI::App* add_doctor(CLI::App& app, ClusterArguments& arguments) {
  auto* sub = add(app, "doctor", "Say what this machine and the cluster have, and what stops a job",
                  arguments);
  add_argument(*sub, "JOB", arguments.doctor.job.file, "A job file (YAML) to look at as well");
  sub->add_option("--set", arguments.doctor.job.overrides.set,
                  "Set any key of the job file, e.g. num_workers=4; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  return sub;
}

CLI::App* add_fetch(CLI::App& app, ClusterArguments& arguments) {
  auto* sub = add(app, "fetch", "Copy what a job has left to this machine", arguments);
  add_id(*sub, arguments);
  sub->add_option("NAME", arguments.fetch.names, "Files to copy (default: all)")->type_name("");
  sub->add_option("-o,--output", arguments.fetch.output,
                  "The folder (default: ./JOB), or with --format the file (./JOB.FORMAT)")
      ->type_name("PATH");
  add_export(*sub, arguments);
  return sub;
}

// The commands for checkpoints also work on folders of this machine. The options of the cluster
// only matter if the name is a job.
void add_checkpoint(CLI::App& app, ClusterArguments& arguments, std::string& color) {
  constexpr const char* kName =
      "The folder of a run, of its checkpoints, or one checkpoint; or a job of the cluster";
  auto* checkpoint = add_command(app, "checkpoint", "Look at, check and compare checkpoints");
  checkpoint->require_subcommand(1);
  auto* ls = add(*checkpoint, "ls", "List checkpoints, the newest first", arguments);
  auto* verify = add(*checkpoint, "verify",
                     "Check that every byte is what was written, and by whom", arguments);
  auto* diff = add(*checkpoint, "diff", "Show which variables of two checkpoints differ, and how",
                   arguments, false);
  auto* copy =
      add(*checkpoint, "copy", "Copy a run with its newest checkpoint to a folder here", arguments);
  auto* save =
      add(*checkpoint, "save", "Have a job of the cluster write one now, and go on", arguments);
  auto* out = add(*checkpoint, "export", "Write the model or its weights for other programs",
                  arguments, false);
  add_argument(*ls, "PATH|JOB", arguments.id, kName)->required();
  add_argument(*verify, "PATH|JOB", arguments.id, kName)->required();
  verify
      ->add_option("--key", arguments.verified.key,
                   "The public key that has to have signed them, or a file with it")
      ->type_name("KEY|FILE");
  verify->add_flag("--gaps", arguments.verified.gaps,
                   "Checkpoints between two may be missing, as in a copy on another disk");
  add_argument(*diff, "FIRST", arguments.id, kName)->required();
  add_argument(*diff, "SECOND", arguments.second, kName)->required();
  add_argument(*out, "PATH|JOB", arguments.id, kName)->required();
  add_argument(*copy, "FROM", arguments.id, "The folder of a run, or s3://BUCKET/... of a copy")
      ->required();
  add_argument(*copy, "DIR", arguments.second, "A folder that is empty or not there")->required();
  add_id(*save, arguments);
  save->add_flag("--wait", arguments.wait, "Wait until it is on the disk");
  add_timeout(*save, arguments);
  auto* output = out->add_option("-o,--output", arguments.exported.output,
                                 "The file to write (default: the job's name and the format)")
                     ->type_name("FILE");
  auto* format = add_export(*out, arguments);
  format->description(format->get_description() + " (default: the extension of FILE)");
  // The parser cannot say that one of two options is needed: cluster_command() does.
  (void)output;
  out->add_option("--run", arguments.exported.run,
                  "The run's folder, if the checkpoint is elsewhere (for onnx)")
      ->type_name("DIR");
  out->add_flag("--all", arguments.exported.all,
                "With the state of the optimizer (safetensors, npz)");
  for (CLI::App* each : {ls, verify, diff, out, copy})
    add_checkpoint_key(*each, arguments.options.checkpoint_keys);
  for (CLI::App* each : {ls, verify, diff, out, copy, save}) add_color(*each, color);
}

// `evaluate` computes here. The options of the cluster only matter if the name is a job.
CLI::App* add_evaluate(CLI::App& app, ClusterArguments& arguments) {
  EvaluateCommand& evaluate = arguments.evaluate;
  auto* sub = add(app, "evaluate", "Loss and metrics of a trained model", arguments);
  add_argument(*sub, "RUN|JOB", arguments.id, "The folder of a run, or a job of the cluster")
      ->required();
  add_data_options(*sub, evaluate.data, evaluate.set);
  add_checkpoint_key(*sub, arguments.options.checkpoint_keys);
  auto* weights = sub->add_option("--weights", evaluate.weights,
                                  "A file of weights, here or of the run (default: "
                                  "weights.safetensors, or the newest checkpoint)")
                      ->type_name("FILE");
  auto* checkpoint =
      sub->add_option("--checkpoint", evaluate.checkpoint, "The checkpoint of this step")
          ->type_name("STEP")
          ->check(whole_number(0, std::numeric_limits<int64_t>::max()))
          ->excludes(weights);
  sub->add_option("--threads", evaluate.threads, "Threads; changes no result")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  sub->add_flag("-f,--follow", arguments.follow,
                "Each checkpoint as it appears, until the run has ended; a row for each in a file")
      ->excludes(weights)
      ->excludes(checkpoint);
  sub->add_option("-o,--output", evaluate.output,
                  "With --follow: the file (default: evaluations.jsonl of the run, or "
                  "JOB-evaluations.jsonl)")
      ->type_name("FILE");
  add_timeout(*sub, arguments);
  return sub;
}

using Timeout = std::optional<std::chrono::milliseconds>;

Command submit_command(ClusterArguments arguments, Attend attend, Timeout timeout) {
  SubmitCommand& submit = arguments.submit;
  const ColorMode color = arguments.options.color;
  // The parser cannot say that one of two arguments is needed, so this is checked after it.
  if (auto wrong = check_submit(submit, arguments.options))
    return PrintText{*wrong, kExitUsage, color};
  if (auto wrong = check_on_event(arguments, "leat submit"))
    return PrintText{*wrong, kExitUsage, color};
  return SubmitCommand{std::move(arguments.options),
                       std::move(submit.job),
                       std::move(submit.resume),
                       attend,
                       timeout,
                       std::move(submit.chaos),
                       std::move(arguments.on_event),
                       submit.paused,
                       std::move(submit.evaluate)};
}

Command export_command(ClusterArguments arguments) {
  CheckpointExportCommand& exported = arguments.exported;
  if (exported.output.empty() && exported.format.empty()) {
    return PrintText{
        "expected -o FILE, --format FORMAT, or both\nSee 'leat checkpoint export "
        "--help'.",
        kExitUsage, arguments.options.color};
  }
  exported.cluster = std::move(arguments.options);
  exported.name = std::move(arguments.id);
  return std::move(exported);
}

void add_token(CLI::App& app, ClusterArguments& arguments, std::string& color) {
  auto* token = add_command(app, "token", "Make and revoke keys for people and workers");
  token->require_subcommand(1);
  auto* create = add(*token, "create", "Make a token, and print it", arguments);
  create->add_option("--role", arguments.token.role, "viewer, submitter, operator, admin or worker")
      ->type_name("ROLE")
      ->required()
      ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin", "worker"}));
  create->add_option("--name", arguments.token.name, "Of the person, or of the worker")
      ->type_name("NAME")
      ->required();
  create
      ->add_option("--lasts", arguments.timeout, "How long it is good, e.g. 30d (default: always)")
      ->type_name("TIME")
      ->check(time_word());
  create
      ->add_option("-o,--output", arguments.token.output,
                   "A new file for it, which only you may read (default: stdout)")
      ->type_name("FILE");
  auto* list = add(*token, "list", "List the tokens, without their keys", arguments);
  list->add_flag("--no-headers", arguments.no_headers, "The table without its first line");
  auto* revoke = add(*token, "revoke", "Refuse a token from now on", arguments);
  add_argument(*revoke, "NUMBER|NAME", arguments.token.name,
               "The token's number, or the name of all that are to go")
      ->required();
  for (CLI::App* each : {create, list, revoke}) add_color(*each, color);
}

void add_config(CLI::App& app, ClusterArguments& arguments, std::string& color) {
  auto* config = add(app, "config", "Show how commands find the cluster", arguments);
  auto* set = config->add_subcommand("set", "Write a setting into your own file");
  add_argument(*set, "KEY", arguments.id,
               "master, cluster, secret_file, certificate_file or insecure_plaintext")
      ->required();
  add_argument(*set, "VALUE", arguments.second, "Its value; '' removes it")->required();
  add_color(*config, color);
  add_color(*set, color);
}

std::optional<Command> token_command(const std::string& name, ClusterArguments& arguments,
                                     Timeout lasts) {
  const ClusterOptions& options = arguments.options;
  if (name == "leat token create") {
    return TokenCommand(TokenCreateCommand{options, std::move(arguments.token.role),
                                           std::move(arguments.token.name), lasts,
                                           std::move(arguments.token.output)});
  }
  if (name == "leat token list")
    return TokenCommand(TokenListCommand{options, !arguments.no_headers});
  if (name == "leat token revoke")
    return TokenCommand(TokenRevokeCommand{options, std::move(arguments.token.name)});
  return std::nullopt;
}

Command top_command(const ClusterArguments& arguments) {
  TopCommand top{.cluster = arguments.options, .count = arguments.count};
  if (const auto interval = parse_duration(arguments.interval)) top.interval = *interval;
  return top;
}

Command evaluate_command(ClusterArguments arguments, Timeout timeout) {
  EvaluateCommand& evaluate = arguments.evaluate;
  if (!evaluate.output.empty() && !arguments.follow) {
    return PrintText{"expected --follow with -o\nSee 'leat evaluate --help'.", kExitUsage,
                     arguments.options.color};
  }
  evaluate.cluster = std::move(arguments.options);
  evaluate.name = std::move(arguments.id);
  evaluate.follow = arguments.follow;
  evaluate.timeout = timeout;
  return std::move(evaluate);
}

}  // namespace

CLI::Option* add_cluster_options(CLI::App& app, ClusterOptions& options, bool json) {
  app.add_option("--master", options.master,
                 "The master (LEAT_MASTER, the config file, 127.0.0.1:17461)")
      ->type_name("HOST:PORT")
      ->check(address_word());
  app.add_option("--cluster", options.cluster, "Its cluster's name (LEAT_CLUSTER, leat)")
      ->type_name("NAME");
  app.add_option("--secret-file", options.secret_file,
                 "File with the cluster's secret or a token (LEAT_SECRET_FILE)")
      ->type_name("FILE");
  app.add_option("--certificate-file", options.certificate_file,
                 "File with a certificate, its key and the authority (LEAT_CERTIFICATE_FILE)")
      ->type_name("FILE");
  if (!json) return nullptr;
  return app.add_flag("--json", options.json, "JSON on stdout, one object a line");
}

CLI::Option* add_checkpoint_key(CLI::App& sub, std::vector<std::string>& keys) {
  return sub
      .add_option(
          "--checkpoint-key", keys,
          "File with the key of encrypted weights (LEAT_CHECKPOINT_KEY_FILE); of several the "
          "first one encrypts")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void add_data_options(CLI::App& sub, std::vector<std::string>& data,
                      std::vector<std::string>& set) {
  sub.add_option(
         "--data", data,
         "Data in place of the job's validation data: COLUMN=FILE for each column, or a map "
         "as '{format: npz, files: new.npz}'; paths are relative to this folder")
      ->type_name("DATA")
      ->allow_extra_args(false);
  sub.add_option("--set", set, "Set any key of the run's job file; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_cluster_commands(CLI::App& app, ClusterArguments& arguments, std::string& color) {
  add_color(*add_evaluate(app, arguments), color);
  add_checkpoint(app, arguments, color);
  auto* submit = add_submit(app, arguments);
  auto* ps = add(app, "ps", "List the jobs of the cluster", arguments);
  ps->add_flag("-a,--all", arguments.all, "Those that have ended, too");
  add_table(*ps, arguments, "Ids alone");
  auto* show = add(app, "show", "Describe a job, or stay with it until it has ended", arguments);
  add_id(*show, arguments);
  add_attendance(*show, arguments);
  add_timeout(*show, arguments);
  auto* logs = add_logs(app, arguments);
  auto* cancel = add(app, "cancel", "End a job", arguments);
  add_id(*cancel, arguments);
  cancel->add_flag("--wait", arguments.wait, "Wait until it has ended");
  add_timeout(*cancel, arguments);
  auto* pause = add(app, "pause", "Have a job save a checkpoint and leave its workers", arguments);
  add_id(*pause, arguments);
  pause->add_flag("--wait", arguments.wait, "Wait until it has left them");
  add_timeout(*pause, arguments);
  auto* resume = add(app, "resume", "Let a paused job go on from its checkpoint", arguments);
  add_id(*resume, arguments);
  auto* fetch = add_fetch(app, arguments);
  auto* rm = add(app, "rm", "Forget jobs that have ended, with all that they left", arguments);
  rm->add_option("JOB", arguments.ids, "Their ids, or prefixes of no other")
      ->type_name("")
      ->required();
  auto* nodes = add(app, "nodes", "List the workers of the cluster", arguments);
  add_table(*nodes, arguments, "Names alone");
  auto* top = add(app, "top", "Show jobs and workers, and what they use, until Ctrl-C", arguments);
  top->add_option("-i,--interval", arguments.interval, "The time between two looks (2s)")
      ->type_name("TIME")
      ->check(time_word());
  top->add_option("-n,--count", arguments.count, "End after so many looks")->type_name("N");
  auto* drain = add(*nodes, "drain", "Take a worker out of use: its job leaves it", arguments);
  add_argument(*drain, "NAME", arguments.worker, "The worker's name")->required();
  drain->add_flag("--undo", arguments.undo, "Let it have jobs again");
  add_token(app, arguments, color);
  add_config(app, arguments, color);
  auto* cluster = add(app, "cluster", "Describe the cluster and its master", arguments);
  auto* doctor = add_doctor(app, arguments);
  auto* bundle = add(app, "support-bundle",
                     "Gather what others need to look into a problem, as one archive", arguments);
  bundle
      ->add_option("JOB", arguments.ids,
                   "Jobs, or prefixes of their ids (default: those that go on, and the last that "
                   "failed)")
      ->type_name("");
  bundle
      ->add_option("-o,--output", arguments.fetch.output,
                   "The archive (default: leat-support-DATE.tar.gz)")
      ->type_name("FILE");
  // --color comes last, so that it is the last option in the help of each command.
  for (CLI::App* each : {submit, ps, show, logs, cancel, pause, resume, fetch, rm, nodes, top,
                         drain, cluster, doctor, bundle}) {
    add_color(*each, color);
  }
}

std::optional<Command> cluster_command(const std::string& name, ClusterArguments arguments,
                                       ColorMode color) {
  const ClusterOptions& options = arguments.options;
  // The options are shared by all commands, so the color is set once here.
  arguments.options.color = color;
  const Attend attend = arguments.follow ? Attend::follow
                        : arguments.wait ? Attend::wait
                                         : Attend::no;
  const auto timeout = parse_duration(arguments.timeout);
  const bool headers = !arguments.no_headers;
  if (name == "leat submit") return submit_command(std::move(arguments), attend, timeout);
  if (name == "leat ps") return PsCommand{options, arguments.all, arguments.quiet, headers};
  if (name == "leat show") {
    if (auto wrong = check_on_event(arguments, "leat show"))
      return PrintText{*wrong, kExitUsage, color};
    return ShowCommand{options, arguments.id, attend, timeout, std::move(arguments.on_event)};
  }
  if (name == "leat logs") {
    return LogsCommand{options, arguments.id, arguments.follow, arguments.logs.tail};
  }
  if (name == "leat cancel") return CancelCommand{options, arguments.id, arguments.wait, timeout};
  if (name == "leat pause")
    return PauseCommand{options, arguments.id, false, arguments.wait, timeout};
  if (name == "leat resume") return PauseCommand{options, arguments.id, true, false, std::nullopt};
  if (name == "leat rm") return RmCommand{options, arguments.ids};
  if (name == "leat nodes") return NodesCommand{options, arguments.quiet, headers};
  if (name == "leat top") return top_command(arguments);
  if (name == "leat config") return ConfigCommand{options};
  if (name == "leat config set") return ConfigSetCommand{options, arguments.id, arguments.second};
  if (name == "leat nodes drain") return DrainCommand{options, arguments.worker, arguments.undo};
  if (name == "leat fetch") {
    CheckpointExportCommand& exported = arguments.exported;
    if (auto wrong = check_fetch(arguments)) return PrintText{*wrong, kExitUsage, color};
    if (!exported.format.empty()) {
      return CheckpointExportCommand{
          options, arguments.id, arguments.fetch.output, exported.format, false, exported.opset,
          "",      true};
    }
    return FetchCommand{options, arguments.id, arguments.fetch.names, arguments.fetch.output};
  }
  if (name == "leat cluster") return ClusterCommand{options};
  if (name == "leat support-bundle")
    return SupportBundleCommand{options, arguments.ids, arguments.fetch.output};
  if (name == "leat doctor") return DoctorCommand{options, std::move(arguments.doctor.job)};
  if (name == "leat checkpoint ls") return CheckpointLsCommand{options, arguments.id};
  if (name == "leat checkpoint verify") {
    return CheckpointVerifyCommand{options, arguments.id, arguments.verified.key,
                                   arguments.verified.gaps};
  }
  if (name == "leat evaluate") return evaluate_command(std::move(arguments), timeout);
  if (name == "leat checkpoint copy")
    return CheckpointCopyCommand{options, arguments.id, arguments.second};
  if (name == "leat checkpoint save")
    return CheckpointSaveCommand{options, arguments.id, arguments.wait, timeout};
  if (name == "leat checkpoint diff")
    return CheckpointDiffCommand{options, arguments.id, arguments.second};
  if (name == "leat checkpoint export") return export_command(std::move(arguments));
  return token_command(name, arguments, timeout);
}

}  // namespace leat
