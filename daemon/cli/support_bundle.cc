// leat support-bundle: an archive with what somebody else needs to look into a problem.
//
//   leat-support-20261127-151500/
//     about.json              the versions, the machine and the time
//     settings.txt            how commands find the cluster: no secret, but the path of its file
//     doctor.txt              the findings of leat doctor
//     cluster.json nodes.json jobs.json
//     jobs/ID/job.json        all that is known of the job
//             log.txt         the last lines of its log
//             why.txt         why it does not go on, unless it has ended
//             files.txt       the sizes and names of its files
//             files/...       the small ones: the job file, the metrics; no checkpoint, no weights
//     missing.txt             the parts that could not be had, and the errors
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <thread>

#include "daemon/base/json_line.h"
#include "daemon/base/temporary_folder.h"
#include "daemon/base/version.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/doctor_command.h"
#include "daemon/cli/filter_program.h"
#include "daemon/cli/look_commands.h"
#include "daemon/status/status_json.h"
#include "devices/base/counted.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr auto kPackQuiet = milliseconds(120'000);  // for tar, which says nothing while it works
constexpr uint64_t kLogLines = 20'000;
constexpr uint64_t kLargestFile = 4 << 20;  // bytes
constexpr size_t kFailedJobs = 3;           // of those that nobody named

// "20261127-151500", in UTC.
std::string date_of_bundle() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::gmtime_r(&now, &date);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &date);
  return text;
}

// A folder that becomes the archive. A part that fails is noted, and the rest goes on.
class BundleFolder {
 public:
  explicit BundleFolder(std::string path) : path_(std::move(path)) {}

  std::string path_of(const std::string& part) const { return path_ + "/" + part; }
  void put(const std::string& part, std::string_view text) {
    const std::string path = path_of(part);
    Status status = real_files().make_directories(directory_of(path));
    if (status.ok())
      status = write_file_atomically(real_files(), path, std::as_bytes(std::span(text)));
    if (!status.ok()) return lacks(part, status);
    parts_.push_back(part);
  }
  // The text that `text` makes of the answer to a call.
  template <typename T, typename F>
  void put_answer(const std::string& part, const Result<T>& answer, F text) {
    if (!answer.ok()) return lacks(part, answer.status());
    put(part, text(*answer));
  }
  void put_answer(const std::string& part, const Result<std::string>& text) {
    put_answer(part, text, [](const std::string& same) { return same; });
  }
  void has(const std::string& part) { parts_.push_back(part); }
  void lacks(const std::string& part, const Status& status) {
    missing_.push_back(cat(part, ": ", status.to_string()));
  }

  const std::vector<std::string>& parts() const { return parts_; }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  const std::string path_;
  std::vector<std::string> parts_, missing_;
};

void put_machine(BundleFolder& bundle, const ClusterOptions& options) {
  utsname system{};
  ::uname(&system);
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  JsonLine about;
  bundle.put("about.json",
             about.add("apiVersion", kApiVersion)
                 .add("kind", "SupportBundle")
                 .add("version", leat_version())
                 .add("made", iso_time(std::chrono::duration_cast<milliseconds>(now).count()))
                 .add("host", host)
                 .add("system", cat(system.sysname, " ", system.release, " ", system.machine))
                 .add("processors", static_cast<int>(std::thread::hardware_concurrency()))
                 .text());
  const auto settings = explain_cluster(options, real_environment);
  std::string text;
  if (settings.ok()) {
    for (const SettingOrigin& each : *settings)
      text += cat(each.key, " ", each.value.empty() ? "-" : each.value, " (", each.origin, ")\n");
    bundle.put("settings.txt", text);
  } else {
    bundle.lacks("settings.txt", settings.status());
  }
  bundle.put("doctor.txt", findings_text(examine(options, {})));
}

// The client ends its calls after Ctrl-C.
Result<std::unique_ptr<ClusterClient>> client_of(const ClusterOptions& chosen,
                                                 const Interrupt& interrupt) {
  LEAT_ASSIGN_OR_RETURN(const ClusterSettings settings, find_cluster(chosen, real_environment));
  LEAT_ASSIGN_OR_RETURN(ClusterClientOptions options, client_options_of(settings));
  options.patience = options.connect_deadline;
  options.stop = [&interrupt] { return interrupt.requested(); };
  return ClusterClient::connect(std::move(options));
}

// The last lines of the log, with their times.
Result<std::string> log_of(ClusterClient& client, const std::string& id) {
  LEAT_ASSIGN_OR_RETURN(const uint64_t end, client.log_end(id));
  std::string text;
  for (uint64_t from = end - std::min(end, kLogLines); from < end;) {
    LEAT_ASSIGN_OR_RETURN(const LogPage page, client.logs(id, from));
    if (page.lines.empty()) break;
    for (const LogLine& line : page.lines)
      text += cat(iso_time(line.at_ms), " ", line.worker, " | ", line.text, "\n");
    from = page.first + page.lines.size();
  }
  return text;
}

// The log is in the bundle already.
bool is_small(const RemoteFile& file) {
  return file.size <= kLargestFile && file.name != "log.txt" &&
         !file.name.starts_with("checkpoints/") && !file.name.starts_with("weights") &&
         !file.name.starts_with("saved/");
}

void put_job(BundleFolder& bundle, ClusterClient& client, const std::string& id) {
  const std::string folder = cat("jobs/", id);
  const auto job = client.job(id);
  if (!job.ok()) return bundle.lacks(folder, job.status());
  bundle.put(cat(folder, "/job.json"), job_json(*job));
  bundle.put_answer(cat(folder, "/log.txt"), log_of(client, id));
  if (!has_ended(job->condition.state))
    bundle.put_answer(cat(folder, "/why.txt"), client.why(id), diagnosis_text);
  const auto files = client.files(id);
  if (!files.ok()) return bundle.lacks(cat(folder, "/files.txt"), files.status());
  std::string list;
  for (const RemoteFile& file : *files) list += cat(file.size, " ", printable(file.name), "\n");
  bundle.put(cat(folder, "/files.txt"), list);
  for (const RemoteFile& file : *files) {
    if (!is_small(file)) continue;
    const std::string part = cat(folder, "/files/", file.name);
    const auto fetched = client.fetch(id, file.name, bundle.path_of(cat(folder, "/files")));
    if (fetched.ok()) {
      bundle.has(part);
    } else {
      bundle.lacks(part, fetched.status());
    }
  }
}

// The jobs that nobody had to name: those that go on, and the last ones that failed.
std::vector<std::string> jobs_of_interest(const std::vector<JobView>& jobs) {
  std::vector<std::string> ids;
  size_t failed = 0;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    const JobState state = job->condition.state;
    if (state == JobState::failed ? ++failed <= kFailedJobs : !has_ended(state))
      ids.push_back(job->id);
  }
  return ids;
}

void put_cluster(BundleFolder& bundle, ClusterClient& client, std::vector<std::string> ids) {
  bundle.put_answer("cluster.json", client.cluster(), cluster_json);
  bundle.put_answer("nodes.json", client.nodes(), [](const auto& all) { return nodes_json(all); });
  const auto jobs = client.jobs();
  bundle.put_answer("jobs.json", jobs, [](const auto& all) { return jobs_json(all); });
  if (jobs.ok() && ids.empty()) ids = jobs_of_interest(*jobs);
  for (const std::string& id : ids) put_job(bundle, client, id);
}

// Writes an archive of the folder `name` below `parent`.
Status pack(const std::string& parent, const std::string& name, const std::string& output) {
  LEAT_ASSIGN_OR_RETURN(const std::string packed,
                        run_filter({"tar", "--create", "--gzip", "--owner=0", "--group=0",
                                    "--numeric-owner", "--file=-", "--directory", parent, name},
                                   "", kPackQuiet));
  return write_file_atomically(real_files(), output, std::as_bytes(std::span(packed)));
}

void print_bundle(const BundleFolder& bundle, const std::string& output, bool json) {
  if (json) {
    JsonLine files, missing, line;
    for (size_t i = 0; i < bundle.parts().size(); ++i) files.add(cat(i + 1), bundle.parts()[i]);
    for (size_t i = 0; i < bundle.missing().size(); ++i)
      missing.add(cat(i + 1), bundle.missing()[i]);
    line.add("apiVersion", kApiVersion).add("kind", "SupportBundle").add("path", output);
    std::cout << line.add("files", files).add("missing", missing).text();
    return;
  }
  for (const std::string& each : bundle.missing())
    std::cerr << "leat: note: without " << printable(each) << "\n";
  std::cout << printable(output) << "\n";
  std::cerr << "leat: " << counted(bundle.parts().size(), "file")
            << "; job files, logs and paths are in it: look before you pass it on\n";
}

}  // namespace

int run_support_bundle(const SupportBundleCommand& command) {
  const Interrupt interrupt;  // so that Ctrl-C leaves no temporary folder
  const std::string name = cat("leat-support-", date_of_bundle());
  const std::string output = command.output.empty() ? name + ".tar.gz" : command.output;
  const ColorMode color = command.cluster.color;
  const auto temporary = TemporaryFolder::make("leat-support");
  if (!temporary.ok()) return report(temporary.status(), color);
  BundleFolder bundle(cat((*temporary)->path(), "/", name));
  put_machine(bundle, command.cluster);
  std::vector<std::string> ids;
  if (const auto client = client_of(command.cluster, interrupt); client.ok()) {
    for (const std::string& each : command.ids) {
      const auto job = (*client)->job(each);
      if (!job.ok()) {
        const int code = report(job.status(), color);
        return job.status().code() == Code::failed_precondition ? kExitNoSuch : code;
      }
      ids.push_back(job->id);
    }
    put_cluster(bundle, **client, std::move(ids));
  } else if (command.ids.empty()) {
    bundle.lacks("the cluster", client.status());
  } else {
    (void)report(client.status(), color);
    return kExitUnreachable;
  }
  if (interrupt.requested()) return interrupt.exit_code();
  if (!bundle.missing().empty()) bundle.put("missing.txt", join(bundle.missing(), "\n") + "\n");
  if (const Status status = pack((*temporary)->path(), name, output); !status.ok())
    return report(status, color);
  print_bundle(bundle, output, command.cluster.json);
  return kExitOk;
}

}  // namespace leat
