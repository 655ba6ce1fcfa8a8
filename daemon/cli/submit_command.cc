#include <pwd.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iostream>

#include "daemon/base/temporary_folder.h"
#include "daemon/base/yaml_document.h"
#include "daemon/cli/attend.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/event_program.h"
#include "daemon/cli/pack_job.h"
#include "daemon/cli/run_files.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The name of the user who runs this program; "" if the machine knows none.
std::string name_of_user() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return "";
  }
  return std::string(entry.pw_name).substr(0, kMaxUserName);
}

// The job of the command. If there is none, the error was reported, and `code` is the exit code.
struct Packed {
  int code = kExitOk;
  PackedJob job;
};

// Checks the faults of --chaos, which depend on the number of workers, and adds them to the job.
Packed taken(Result<PackedJob> packed, const SubmitCommand& command) {
  const ColorMode color = command.cluster.color;
  if (!packed.ok()) return {report(packed.status(), color), {}};
  for (const std::string& each : command.chaos) {
    const Status chaos = check_chaos(each, static_cast<uint32_t>(packed->job.num_workers));
    if (!chaos.ok()) return {report(chaos, color), {}};
  }
  packed->request.chaos = command.chaos;
  packed->request.user = name_of_user();
  packed->request.paused = command.paused;
  print_notes(packed->notes);
  return {kExitOk, std::move(packed).value()};
}

// Packs a job that was read. A file of it that is missing has an exit code of its own.
Packed pack_read(JobText file, const SubmitCommand& command) {
  const ColorMode color = command.cluster.color;
  const Job::Model& model = file.job.model;
  if (report_missing("graph file", model.graph, color)) return {kExitNoSuch, {}};
  if (!model.weights.empty() && report_missing("weights file", model.weights, color))
    return {kExitNoSuch, {}};
  return taken(pack_job(std::move(file), command.job, real_files()), command);
}

// Packs the job of a file.
Packed pack_file(const SubmitCommand& command) {
  if (report_missing("job file", command.job.file, command.cluster.color)) return {kExitNoSuch, {}};
  auto file = read_whole_job(command.job);
  if (!file.ok()) return {report(file.status(), command.cluster.color), {}};
  return pack_read(std::move(file).value(), command);
}

// Packs a run's folder, which continues as a new job.
Packed pack_folder(const SubmitCommand& command) {
  const ColorMode color = command.cluster.color;
  if (command.resume.find_first_of("/.") == std::string::npos)  // or a job's name
    std::cerr << "leat: resumes from the folder './" << printable(command.resume) << "'\n";
  if (report_missing("run", command.resume + "/job.yaml", color)) return {kExitNoSuch, {}};
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return {report(keys, color), {}};
  return taken(pack_run(command.resume, command.job.overrides, run_files()), command);
}

// Makes a folder for the files of a job of the cluster. They are in it until they are submitted, so
// the caller owns it.
int make_folder(const SubmitCommand& command, std::unique_ptr<TemporaryFolder>& folder) {
  auto made = TemporaryFolder::make("leat-resume");
  if (!made.ok()) return report(made.status(), command.cluster.color);
  folder = std::move(made).value();
  return kExitOk;
}

// Packs a job of the cluster, which continues as a new job.
Packed pack_job_of_cluster(const SubmitCommand& command, ClusterConnection& connection,
                           std::unique_ptr<TemporaryFolder>& folder) {
  if (const int code = make_folder(command, folder); code != kExitOk) return {code, {}};
  const auto job = connection.client().job(command.resume);
  if (!job.ok()) return {connection.report(job.status(), About::name), {}};
  const Status fetched = fetch_job(connection.client(), job->id, folder->path());
  if (!fetched.ok()) return {connection.report(fetched, About::state), {}};
  return taken(pack_fetched(job->id, folder->path(), command.job.overrides, real_files()), command);
}

// Packs a job that evaluates one of the cluster: that of the job file, or the one that it has left.
Packed pack_evaluator(const SubmitCommand& command, ClusterConnection& connection,
                      std::unique_ptr<TemporaryFolder>& folder) {
  const auto view = connection.client().job(command.evaluate);
  if (!view.ok()) return {connection.report(view.status(), About::name), {}};
  const Followed followed{view->id, view->priority};
  if (followed.priority <= kLeastPriority) {
    return {
        report(invalid_argument(cat("--evaluate: expected a job of a priority above ",
                                    kLeastPriority, ", so that the evaluation can stand behind ",
                                    "it, received '", followed.id, "'")),
               command.cluster.color),
        {}};
  }
  if (command.job.file.empty()) {
    if (const int code = make_folder(command, folder); code != kExitOk) return {code, {}};
    const Status fetched = fetch_job(connection.client(), followed.id, folder->path(), false);
    if (!fetched.ok()) return {connection.report(fetched, About::state), {}};
    return taken(pack_evaluation(followed, folder->path(), command.job.overrides, real_files()),
                 command);
  }
  const ColorMode color = command.cluster.color;
  if (report_missing("job file", command.job.file, color)) return {kExitNoSuch, {}};
  auto file = read_whole_job(command.job);
  if (!file.ok()) return {report(file.status(), color), {}};
  // The text is the same; the changes make another job of it.
  SubmitCommand changed = command;
  JobOverrides& overrides = changed.job.overrides;
  const Status added = add_evaluation(followed, file->job, overrides.set);
  if (!added.ok()) return {report(added, color), {}};
  auto job = parse_job(file->text, command.job.file, overrides);
  if (!job.ok()) return {report(job.status(), color), {}};
  file->job = std::move(job).value();
  return pack_read(std::move(file).value(), changed);
}

// If the job's data root is a folder of this machine, sends its path, for a worker on the same
// machine; unless a worker has a data set of that name.
Status mean_local_folder(const SubmitCommand& command, ClusterClient& client, PackedJob& packed) {
  namespace fs = std::filesystem;
  const std::string& root = packed.job.data.root;
  if (!packed.job.has_data()) return {};
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) return {};
  // load_job() has resolved the root against the folder of the job file. The name is the root as
  // the file has it.
  const fs::path folder = fs::absolute(command.job.file, ignored).parent_path();
  const std::string name = fs::path(root).lexically_relative(folder).string();
  const bool may_be_name = name.find('/') == std::string::npos && !name.starts_with('.');
  LEAT_ASSIGN_OR_RETURN(const auto nodes, client.nodes());
  // A name without slashes may be the name of a data set. If a worker has that, the name stays.
  for (const NodeView& node : nodes) {
    if (may_be_name && has_dataset(node.worker.info.datasets, name)) return {};
  }
  packed.request.overrides.push_back(cat("data.root=", yaml_string(root)));
  return {};
}

}  // namespace

int run_submit(const SubmitCommand& command) {
  const ClusterOptions& options = command.cluster;
  const bool evaluates = !command.evaluate.empty();
  const bool anew = command.resume.empty() && !evaluates;
  std::error_code ignored;
  // A folder that exists is meant before a job of the same name.
  const bool here = !anew && !evaluates && std::filesystem::exists(command.resume, ignored);
  if (!here && !options.checkpoint_keys.empty()) {
    (void)report(invalid_argument(cat("--checkpoint-key: expected the folder of a run with ",
                                      "--resume, there is no '", command.resume,
                                      "' here; a master has the keys of its jobs itself")),
                 options.color);
    return kExitUsage;
  }
  Packed packed;
  // Errors of files here are found before the cluster is needed at all.
  if (anew || here) packed = anew ? pack_file(command) : pack_folder(command);
  if (packed.code != kExitOk) return packed.code;
  // A program that cannot be started costs no job.
  std::unique_ptr<EventProgram> program;
  if (!command.on_event.empty()) {
    auto started = EventProgram::start(command.on_event);
    if (!started.ok()) return report(started.status(), options.color);
    program = *std::move(started);
  }

  ClusterConnection connection(options);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(true); code != kExitOk) return code;
  std::unique_ptr<TemporaryFolder> folder;
  if (evaluates) {
    packed = pack_evaluator(command, connection, folder);
  } else if (!anew && !here) {
    packed = pack_job_of_cluster(command, connection, folder);
  }
  if (packed.code != kExitOk) return packed.code;
  if (!command.job.file.empty()) {
    const Status meant = mean_local_folder(command, connection.client(), packed.job);
    if (!meant.ok()) return connection.report(meant, About::cluster);
  }
  auto view = connection.client().submit(packed.job.request);
  if (!view.ok()) {
    // Ctrl-C or the timeout came while the master was at it, so it may have the job or not.
    if (connection.over()) {
      std::cerr << "leat: given up before the master answered; '" << command_for(options, "ps")
                << "' shows whether it took the job\n";
    }
    return connection.report(view.status(), About::content);
  }
  if (!options.json) {
    std::cout << view->id << "\n" << std::flush;
  } else if (command.attend != Attend::follow) {
    // With Attend::follow, attend_job() prints the job at every change, and this view is the first
    // one.
    std::cout << job_json(*view) << std::flush;
  }
  if (command.attend == Attend::no) return kExitOk;
  return attend_job(connection, std::move(view).value(), options, command.attend, program.get());
}

}  // namespace leat
