#include "daemon/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "daemon/base/units.h"
#include "daemon/base/version.h"
#include "daemon/cli/cluster_arguments.h"
#include "daemon/cli/completion.h"
#include "daemon/cli/curve_arguments.h"
#include "daemon/cli/look_arguments.h"
#include "daemon/process/arguments.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kAbout =
    "Leat trains neural networks: it reads a model as a graph file and a job as a YAML file.";

constexpr const char* kExamples = R"(Examples:
  leat train configs/jobs/fashion_mnist_cnn.yaml          train, evaluate, leave a run folder
  leat train job.yaml --workers 2 --set epochs=1          change the job without editing it
  leat plan job.yaml                                      what it will use, before it runs
  leat evaluate leat-runs/NAME                            its loss and metrics once more
  leat predict leat-runs/NAME --input images.npy          use the trained model
  leat graph show configs/graphs/fashion_cnn.onnxtxt      layers, shapes, parameters
  leat checkpoint diff leat-runs/A leat-runs/B            whether two runs came to the same
  leat submit job.yaml --follow                           train on a cluster, and look on
  leat ps                                                 its jobs
  leat doctor                                             what this machine has, and lacks
  leat fetch ID                                           what a job has left

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no master, 4 refused by the master, 5 no such job,
file or run, 6 not in this state, 7 job or graph invalid, 124 timeout, 130 stopped by Ctrl-C.)";

constexpr int kSection = 1;  // of the manual

// The variables of the options of `leat ca`.
struct CaArguments {
  std::string folder;
  CaInit init;
  CaIssue issue;
  CaList list;
  CaRevoke revoke;
  CaExport out;
  CaRotate rotate;
  std::string init_lasts = "3650d", issue_lasts = "90d";  // checked by the parser
};

// The variables that the options are bound to. chosen() copies those of the command that was given.
struct Parsed {
  TrainCommand train;
  PlanCommand plan;
  AuditCommand audit;
  PredictCommand predict;
  GraphShowCommand show;
  GraphCheckCommand check;
  GraphConvertCommand convert;
  GraphOpsCommand ops;
  ClusterArguments cluster;
  CurveArguments curves;
  LookArguments looks;
  CaArguments ca;
  DataTokenizeCommand tokenize;
  DataInspectCommand inspect;
  DataConvertCommand rows;
  DataLedgerCommand ledger;
  VersionCommand version;
  std::string shell;   // of `leat completion`
  bool words = false;  // of `leat completion`: as JSON, for no shell
  std::string topic;   // of `leat man`: the name of a command, "checkpoint ls"
  std::string color = "auto";
};

// The parser accepts only auto, always and never. After an error the word may be any other, which
// is taken as auto.
ColorMode color_mode(const std::string& word) {
  if (word == "always") return ColorMode::always;
  return word == "never" ? ColorMode::never : ColorMode::automatic;
}

// The options of `train` and `plan` that change the job. `submit` has its own, without --threads.
void add_job_options(CLI::App& app, JobOptions& job) {
  add_workers(app, job.overrides.min_workers, job.overrides.num_workers);
  app.add_option("--threads", job.threads, "Threads of each worker; changes no result")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  app.add_option("--seed", job.overrides.seed, "Seed of weights, shuffling and dropout")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()));
  app.add_option("--set", job.overrides.set,
                 "Set any key of the job file, e.g. optimizer.learning_rate=0.1; repeatable")
      ->type_name("KEY=VALUE")
      // One value for each --set, so that the next word can be the job file.
      ->allow_extra_args(false);
}

void add_train(CLI::App& app, Parsed& parsed) {
  TrainCommand& train = parsed.train;
  auto* sub = add_command(app, "train", "Train the model of a job file");
  add_argument(*sub, "JOB", train.job.file, "The job file (YAML); not with --resume");
  add_job_options(*sub, train.job);
  auto* output = sub->add_option("--output", train.output,
                                 "Folder for the run (default: leat-runs/NAME-NUMBER)");
  output->type_name("DIR");
  sub->add_option("--resume", train.resume,
                  "Go on from the last checkpoint of this run's folder, with the job in it")
      ->type_name("DIR")
      // A resumed run goes on in its folder, so it has no other output.
      ->excludes(output);
  sub->add_flag("--json", train.json, "One JSON object a line on stdout; the last is 'finished'");
  sub->add_flag("--profile", train.profile,
                "Print the CPU time of each instruction of the step at the end");
  auto* trace = sub->add_option("--trace", train.trace,
                                "Record steps for Perfetto into this file, and explain their time")
                    ->type_name("FILE");
  sub->add_option("--trace-steps", train.trace_steps, "With --trace: so many steps (default: 10)")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->needs(trace);
  sub->add_option("--sign-key", train.sign_key,
                  "Sign the checkpoints with the key of this file, which is made if need be")
      ->type_name("FILE");
  add_checkpoint_key(*sub, train.checkpoint_keys);
  sub->add_flag("--gpu", train.gpu,
                "Compute on the GPU of this machine what there are kernels for (docs/gpu.md)");
  sub->add_option("--on-event", train.on_event,
                  "Start this program, and write each event to its stdin, as JSON")
      ->type_name("PROGRAM");
  add_color(*sub, parsed.color);
}

void add_plan(CLI::App& app, Parsed& parsed) {
  auto* sub = add_command(app, "plan",
                          "Show what a job will use: partitions, memory, transfers. Runs nothing");
  add_argument(*sub, "JOB", parsed.plan.job.file, "The job file (YAML)")->required();
  add_job_options(*sub, parsed.plan.job);
  add_gpu(*sub, parsed.plan.job.overrides.set);
  sub->add_flag("--json", parsed.plan.json, "JSON on stdout");
  add_color(*sub, parsed.color);
}

void add_audit(CLI::App& app, Parsed& parsed) {
  auto* sub =
      add_command(app, "audit", "Print the audit log of a master, and check that it is whole");
  add_argument(*sub, "PATH", parsed.audit.path, "The master's state folder, or its folder audit")
      ->required();
  sub->add_flag("--verify", parsed.audit.verify,
                "Print no entries, but how many there are, and the hash of the last one");
  sub->add_option("--head", parsed.audit.head, "One of the entries has to have this hash")
      ->type_name("SHA256");
  sub->add_flag("--json", parsed.audit.json, "At the end, number and hash as a JSON object");
  add_color(*sub, parsed.color);
}

void add_predict(CLI::App& app, Parsed& parsed) {
  PredictCommand& predict = parsed.predict;
  auto* sub = add_command(app, "predict", "Run a trained model on rows of data");
  add_argument(*sub, "RUN|JOB", predict.run,
               "The folder that leat train left, or a job of the cluster")
      ->required();
  sub->add_option("--input", predict.inputs,
                  "The inputs: .npy or IDX, plain or .gz; NAME=FILE for each of several inputs")
      ->type_name("FILE");
  add_data_options(*sub, predict.data, predict.set);
  add_checkpoint_key(*sub, predict.cluster.checkpoint_keys);
  sub->add_option("--weights", predict.weights, "A file of weights in place of the run's")
      ->type_name("FILE");
  sub->add_option("-o,--output", predict.output,
                  "Write the outputs to this file, .npy, .csv or .jsonl")
      ->type_name("FILE");
  sub->add_option("--classes", predict.classes, "The names of the classes, one on each line")
      ->type_name("FILE");
  sub->add_flag("--softmax", predict.softmax, "Probabilities in place of the scores");
  sub->add_option("--top", predict.top, "The N classes with the highest scores, not all scores")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000));
  add_cluster_options(*sub, predict.cluster);
  add_color(*sub, parsed.color);
}

void add_fixed(CLI::App& sub, std::vector<std::string>& fixed) {
  sub.add_option("--fix", fixed,
                 "Make an input a constant: a number, lists [1, 2], or an .npy file; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

void add_graph(CLI::App& app, Parsed& parsed) {
  auto* graph = add_command(app, "graph", "Look at, check and convert graph files");
  graph->require_subcommand(1);

  auto* show = add_command(*graph, "show", "Layers, output shapes, parameters, MFLOP");
  add_argument(*show, "FILE", parsed.show.file, "The graph file")->required();
  add_fixed(*show, parsed.show.fixed);
  show->add_flag("--expand", parsed.show.expand, "Print the ONNX nodes and not the layers");
  add_color(*show, parsed.color);

  auto* check = add_command(*graph, "check", "Say whether a graph file is valid, and what is not");
  add_argument(*check, "FILE", parsed.check.file, "The graph file")->required();
  add_fixed(*check, parsed.check.fixed);
  add_color(*check, parsed.color);

  auto* convert = add_command(*graph, "convert", "Convert a graph file to another format");
  add_argument(*convert, "IN", parsed.convert.input, "The graph file to read")->required();
  add_argument(*convert, "OUT", parsed.convert.output,
               "The file to write; its extension says the format")
      ->required();
  add_fixed(*convert, parsed.convert.fixed);
  add_color(*convert, parsed.color);

  auto* ops =
      add_command(*graph, "ops", "List the ops that a graph may have, and the refused ones");
  auto* json = ops->add_flag("--json", parsed.ops.json, "One JSON object a line");
  ops->add_flag("--markdown", parsed.ops.markdown, "The page docs/ops.md")->excludes(json);
  add_color(*ops, parsed.color);
}

constexpr const char* kSource =
    "A job file, a map as data.train has it, or a file or folder of data";

void add_inspect(CLI::App& app, Parsed& parsed) {
  DataInspectCommand& command = parsed.inspect;
  auto* inspect = add_command(app, "inspect", "Show what a data set has: rows, columns, classes");
  add_argument(*inspect, "SOURCE", command.source, kSource)->required();
  inspect->add_option("--rows", command.rows, "Rows to read whole (1000)")
      ->type_name("N")
      ->check(whole_number(1, std::numeric_limits<int64_t>::max()));
  inspect->add_flag("--json", command.json, "One JSON object a line on stdout");
  add_color(*inspect, parsed.color);
}

void add_convert(CLI::App& app, Parsed& parsed) {
  DataConvertCommand& command = parsed.rows;
  auto* convert = add_command(app, "convert", "Write the rows of a data set to another format");
  add_argument(*convert, "SOURCE", command.source, kSource)->required();
  add_argument(*convert, "OUT", command.output, "A file .npz, .npy, .safetensors, .csv or .jsonl")
      ->required();
  convert->add_option("--part", command.part, "The set of data of a job file (train)")
      ->type_name("NAME");
  convert->add_option("--columns", command.columns, "The columns to write (all)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  convert->add_flag("--force", command.force, "Replace the file if it is there");
  add_color(*convert, parsed.color);
}

void add_ledger(CLI::App& app, Parsed& parsed) {
  DataLedgerCommand& command = parsed.ledger;
  auto* ledger = add_command(app, "ledger", "Show that an epoch has each row once, and its hashes");
  add_argument(*ledger, "JOB", command.job, "The job file (YAML)")->required();
  ledger->add_option("--epoch", command.epoch, "The pass over the training data, from 1 (1)")
      ->type_name("N")
      ->check(whole_number(1, int64_t{1} << 32));
  ledger->add_flag("--order", command.order_alone, "The order alone: read no rows");
  ledger->add_flag("--json", command.json, "One JSON object on stdout");
  add_color(*ledger, parsed.color);
}

void add_tokenize(CLI::App& app, Parsed& parsed) {
  DataTokenizeCommand& command = parsed.tokenize;
  auto* tokenize = add_command(app, "tokenize", "Make a file of tokens from text files");
  tokenize->add_option("IN... OUT", command.files, "The texts, and the file of tokens to write")
      ->type_name("")
      ->required()
      ->expected(2, 1 << 20);
  tokenize
      ->add_option("--tokenizer", command.tokenizer,
                   "bytes, char, char:VOCABULARY or sentencepiece:MODEL (bytes)")
      ->type_name("NAME");
  tokenize->add_option("--documents", command.documents, "The unit that makes one document (files)")
      ->type_name("files|lines|paragraphs")
      ->check(CLI::IsMember({"files", "lines", "paragraphs"}));
  tokenize->add_option("--separator", command.separator, "A token to write behind each document")
      ->type_name("N")
      ->check(whole_number(0, 4294967295));
  tokenize
      ->add_option("--starts", command.starts,
                   "Write to this .npy file where each document begins, in tokens")
      ->type_name("FILE");
  tokenize->add_option("--dtype", command.dtype, "The type of a token (uint16)")
      ->type_name("uint8|uint16|uint32")
      ->check(CLI::IsMember({"uint8", "uint16", "uint32"}));
  add_color(*tokenize, parsed.color);
}

void add_data(CLI::App& app, Parsed& parsed) {
  auto* data = add_command(app, "data", "Look at data, and make them for trainings");
  data->require_subcommand(1);
  add_inspect(*data, parsed);
  add_convert(*data, parsed);
  add_ledger(*data, parsed);
  add_tokenize(*data, parsed);
}

constexpr auto kLongestCertificate = std::chrono::hours(24 * 36500);

// REQUIRES: the parser has accepted the text.
std::chrono::seconds lasting(const std::string& text) {
  const auto time = parse_duration(text, kLongestCertificate);
  return std::chrono::ceil<std::chrono::seconds>(time.value_or(std::chrono::milliseconds(0)));
}

void add_lasts(CLI::App& sub, std::string& lasts, const char* about) {
  const auto check = [](const std::string& text) -> std::string {
    if (parse_duration(text, kLongestCertificate)) return {};
    return "expected a time as 12h or 90d, at most 36500d, received '" + text + "'";
  };
  sub.add_option("--lasts", lasts, about)->type_name("TIME")->check(CLI::Validator(check, ""));
}

void add_issue(CLI::App& ca, CaArguments& arguments) {
  auto& [order, output, request_file, renew] = arguments.issue;
  auto* issue =
      add_command(ca, "issue", "Make a certificate, and a file with it and its private key");
  issue->add_option("--role", order.role, "master, viewer, submitter, operator, admin or worker")
      ->type_name("ROLE")
      ->required()
      ->check(CLI::IsMember({"master", "viewer", "submitter", "operator", "admin", "worker"}));
  issue->add_option("--name", order.name, "Of the person, the worker or the master")
      ->type_name("NAME")
      ->required();
  issue->add_option("--host", order.hosts, "A name or address of its machine, for HTTP; repeatable")
      ->type_name("HOST")
      ->allow_extra_args(false);
  add_lasts(*issue, arguments.issue_lasts, "How long it is good (90d)");
  issue
      ->add_option("-o,--output", output,
                   "A new file for it, which only you may read (default: NAME.pem)")
      ->type_name("FILE");
  issue->add_flag("--renew", renew, "Replace the file if it is there");
  issue
      ->add_option("--csr", request_file,
                   "A certificate request: its private key stays where it is")
      ->type_name("FILE");
}

void add_ca(CLI::App& app, CaArguments& arguments, std::string& color) {
  auto* ca = add_command(app, "ca", "Make certificates for the processes and people of a cluster");
  ca->require_subcommand(1);
  auto* init = add_command(*ca, "init", "Make a certificate authority");
  init->add_option("--cluster", arguments.init.cluster, "The name of its cluster (leat)")
      ->type_name("NAME");
  add_lasts(*init, arguments.init_lasts, "How long it is good (3650d)");
  add_issue(*ca, arguments);
  auto* list = add_command(*ca, "list", "List the certificates that were issued");
  list->add_flag("--no-headers", arguments.list.no_headers, "The table without its first line");
  list->add_flag("--json", arguments.list.json, "JSON on stdout, one object a line");
  auto* revoke = add_command(*ca, "revoke", "Put certificates on the list of the revoked ones");
  add_argument(*revoke, "NAME|SERIAL", arguments.revoke.which,
               "The certificate's serial number, or the name of all that are to go")
      ->required();
  auto* out = add_command(*ca, "export", "Write the certificates of the authorities to a file");
  out->add_option("-o,--output", arguments.out.output, "A new file")->type_name("FILE")->required();
  auto* rotate = add_command(*ca, "rotate", "Make a new authority, and trust the old one, too");
  auto* finish = rotate->add_flag("--finish", arguments.rotate.finish, "Trust the new one alone");
  rotate
      ->add_flag("--force", arguments.rotate.force,
                 "With --finish: although good certificates of the old one end by that")
      ->needs(finish);
  for (CLI::App* each : ca->get_subcommands({})) {
    each->add_option("--dir", arguments.folder, "The authority's folder (LEAT_CA_DIR, leat-ca)")
        ->type_name("DIR");
    add_color(*each, color);
  }
}

// The scripts and pages that shells and manuals need.
void add_texts(CLI::App& app, Parsed& parsed) {
  auto* completion = add_command(app, "completion", "Print a script that completes commands");
  auto* shell = add_argument(*completion, "SHELL", parsed.shell, "bash, zsh or fish")
                    ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->add_flag("--json", parsed.words, "The commands and options, one JSON object a line")
      ->excludes(shell);
  add_man_command(app, parsed.topic);
}

// `leat version` alone is as --version, which add_help_commands() has made.
void add_version_options(CLI::App& app, VersionCommand& version) {
  auto* sub = app.get_subcommand("version");
  sub->add_flag("--all", version.all, "And the libraries of others, with their versions");
  sub->add_flag("--json", version.json, "One JSON object a line");
}

// The script for the shell, or the words as JSON; an error of usage without either.
PrintText completion_of(const CLI::App& app, const Parsed& parsed) {
  if (parsed.words) return {completion_json(app)};
  if (auto script = completion_script(app, parsed.shell)) return {*std::move(script)};
  return {"SHELL is required, or --json\nSee 'leat completion --help'.", kExitUsage};
}

// Adds everything to `app`. The parser writes to `parsed`, so both stay in place until it is done.
void build(CLI::App& app, Parsed& parsed) {
  app.name("leat");
  app.get_formatter()->column_width(32);
  app.set_version_flag("--version", cat("leat ", leat_version()), "Print the version");
  app.footer(kExamples);
  app.require_subcommand(1);
  add_color(app, parsed.color);
  add_train(app, parsed);
  add_plan(app, parsed);
  add_predict(app, parsed);
  add_graph(app, parsed);
  add_cluster_commands(app, parsed.cluster, parsed.color);
  add_curve_commands(app, parsed.curves, parsed.color);
  add_look_commands(app, parsed.looks, parsed.color);
  add_ca(app, parsed.ca, parsed.color);
  add_data(app, parsed);
  add_audit(app, parsed);
  add_texts(app, parsed);
  add_help_commands(app);
  add_version_options(app, parsed.version);
}

// Returns the command of `leat ca` with this full name; nothing if it is another one.
std::optional<Command> ca_command(const std::string& name, CaArguments arguments, ColorMode color) {
  const auto with_folder = [&](auto action) {
    return CaCommand{std::move(arguments.folder), std::move(action), color};
  };
  if (name == "leat ca init") {
    arguments.init.lasts = lasting(arguments.init_lasts);
    return with_folder(std::move(arguments.init));
  }
  if (name == "leat ca issue") {
    arguments.issue.order.lasts = lasting(arguments.issue_lasts);
    return with_folder(std::move(arguments.issue));
  }
  if (name == "leat ca list") return with_folder(arguments.list);
  if (name == "leat ca revoke") return with_folder(std::move(arguments.revoke));
  if (name == "leat ca export") return with_folder(std::move(arguments.out));
  if (name == "leat ca rotate") return with_folder(arguments.rotate);
  return std::nullopt;
}

// Returns the command that was given, with `color` in it.
Command chosen(const CLI::App& app, Parsed parsed) {
  const CLI::App& command = innermost(app);
  const ColorMode color = color_mode(parsed.color);
  const auto with_color = [color](auto value) {
    value.color = color;
    return Command(std::move(value));
  };
  const std::string name = full_name(command);
  if (name == "leat train") {
    // The parser cannot say that one of two is needed, so these two errors are made here.
    if (parsed.train.job.file.empty() && parsed.train.resume.empty()) {
      return PrintText{"JOB is required, or --resume DIR\nSee 'leat train --help'.", kExitUsage,
                       color};
    }
    if (!parsed.train.job.file.empty() && !parsed.train.resume.empty()) {
      return PrintText{cat("expected JOB or --resume DIR, received both ('", parsed.train.job.file,
                           "'): a run goes on with its own job, ", parsed.train.resume,
                           "/job.yaml; --set changes it\nSee 'leat train --help'."),
                       kExitUsage, color};
    }
    return with_color(std::move(parsed.train));
  }
  if (auto command = cluster_command(name, std::move(parsed.cluster), color)) {
    return *std::move(command);
  }
  if (auto command = curve_command(name, std::move(parsed.curves), color))
    return *std::move(command);
  if (auto command = look_command(name, std::move(parsed.looks), color)) return *std::move(command);
  if (auto command = ca_command(name, std::move(parsed.ca), color)) return *std::move(command);
  if (name == "leat data tokenize") return with_color(std::move(parsed.tokenize));
  if (name == "leat data inspect") return with_color(std::move(parsed.inspect));
  if (name == "leat data ledger") return with_color(std::move(parsed.ledger));
  if (name == "leat data convert") return with_color(std::move(parsed.rows));
  if (name == "leat completion") return completion_of(app, parsed);
  if (name == "leat man") return manual_of(app, parsed.topic, kSection);
  if (name == "leat version") return with_color(std::move(parsed.version));
  if (name == "leat plan") return with_color(std::move(parsed.plan));
  if (name == "leat audit") return with_color(std::move(parsed.audit));
  if (name == "leat predict") {
    // The parser cannot say that one of two is needed.
    if (parsed.predict.inputs.empty() == parsed.predict.data.empty()) {
      return PrintText{
          cat(parsed.predict.data.empty() ? "--input is required, or --data"
                                          : "expected --input or --data, received both",
              "\nSee 'leat predict --help'."),
          kExitUsage, color};
    }
    parsed.predict.cluster.color = color;
    return std::move(parsed.predict);
  }
  if (name == "leat graph show") return with_color(std::move(parsed.show));
  if (name == "leat graph check") return with_color(std::move(parsed.check));
  if (name == "leat graph ops") return with_color(std::move(parsed.ops));
  return with_color(std::move(parsed.convert));
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  CLI::App app(kAbout);
  Parsed parsed;
  build(app, parsed);
  if (auto print = parse_arguments(app, arguments)) {
    // The parser may have read --color before it found the error.
    if (print->exit_code == kExitUsage) print->color = color_mode(parsed.color);
    return std::move(*print);
  }
  return chosen(app, std::move(parsed));
}

int run_command(const Command& command) {
  // One overload for each kind of command: the compiler refuses a command without one.
  struct Runner {
    int operator()(const PrintText& print) const {
      if (print.exit_code == kExitOk) {
        std::fputs(print.text.c_str(), stdout);
      } else {
        std::fputs(error_line(printable_lines(print.text), stderr_color(print.color)).c_str(),
                   stderr);
      }
      return print.exit_code;
    }
    int operator()(const TrainCommand& train) const { return run_train(train); }
    int operator()(const PlanCommand& plan) const { return run_plan(plan); }
    int operator()(const AuditCommand& audit) const { return run_audit(audit); }
    int operator()(const PredictCommand& predict) const { return run_predict(predict); }
    int operator()(const GraphShowCommand& show) const { return run_graph_show(show); }
    int operator()(const GraphCheckCommand& check) const { return run_graph_check(check); }
    int operator()(const GraphConvertCommand& convert) const { return run_graph_convert(convert); }
    int operator()(const GraphOpsCommand& ops) const { return run_graph_ops(ops); }
    int operator()(const CheckpointLsCommand& ls) const { return run_checkpoint_ls(ls); }
    int operator()(const CheckpointVerifyCommand& it) const { return run_checkpoint_verify(it); }
    int operator()(const CheckpointDiffCommand& diff) const { return run_checkpoint_diff(diff); }
    int operator()(const EvaluateCommand& evaluate) const { return run_evaluate(evaluate); }
    int operator()(const CheckpointCopyCommand& copy) const { return run_checkpoint_copy(copy); }
    int operator()(const CheckpointSaveCommand& save) const { return run_checkpoint_save(save); }
    int operator()(const CheckpointExportCommand& out) const { return run_checkpoint_export(out); }
    int operator()(const SubmitCommand& submit) const { return run_submit(submit); }
    int operator()(const PsCommand& ps) const { return run_ps(ps); }
    int operator()(const ShowCommand& show) const { return run_show(show); }
    int operator()(const LogsCommand& logs) const { return run_logs(logs); }
    int operator()(const CancelCommand& cancel) const { return run_cancel(cancel); }
    int operator()(const PauseCommand& pause) const { return run_pause(pause); }
    int operator()(const RmCommand& rm) const { return run_rm(rm); }
    int operator()(const SupportBundleCommand& bundle) const { return run_support_bundle(bundle); }
    int operator()(const DrainCommand& drain) const { return run_drain(drain); }
    int operator()(const TokenCommand& token) const { return run_token(token); }
    int operator()(const ConfigCommand& config) const { return run_config(config); }
    int operator()(const ConfigSetCommand& set) const { return run_config_set(set); }
    int operator()(const TopCommand& top) const { return run_top(top); }
    int operator()(const NodesCommand& nodes) const { return run_nodes(nodes); }
    int operator()(const FetchCommand& fetch) const { return run_fetch(fetch); }
    int operator()(const DoctorCommand& doctor) const { return run_doctor(doctor); }
    int operator()(const ClusterCommand& cluster) const { return run_cluster(cluster); }
    int operator()(const MetricsCommand& metrics) const { return run_metrics(metrics); }
    int operator()(const PlotCommand& plot) const { return run_plot(plot); }
    int operator()(const CompareCommand& compare) const { return run_compare(compare); }
    int operator()(const WhyCommand& why) const { return run_why(why); }
    int operator()(const TraceCommand& trace) const { return run_trace(trace); }
    int operator()(const ExplainCommand& explain) const { return run_explain(explain); }
    int operator()(const DataTokenizeCommand& data) const { return run_data_tokenize(data); }
    int operator()(const DataInspectCommand& data) const { return run_data_inspect(data); }
    int operator()(const DataConvertCommand& data) const { return run_data_convert(data); }
    int operator()(const DataLedgerCommand& data) const { return run_data_ledger(data); }
    int operator()(const VersionCommand& version) const { return run_version(version); }
    int operator()(const CaCommand& ca) const { return run_ca(ca); }
  };
  return std::visit(Runner{}, command);
}

}  // namespace leat
