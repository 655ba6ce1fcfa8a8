// leat why, leat trace, leat explain.
#include "daemon/cli/look_commands.h"

#include <cstdio>
#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/step_trace.h"
#include "daemon/traces/critical_path.h"
#include "daemon/wire/recording_file.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// `leat why` answers in 3 s: the connection, the call, and the end of the process.
constexpr auto kConnect = milliseconds(1'000);
constexpr auto kAsk = milliseconds(2'600);
constexpr auto kRecord = milliseconds(60'000);

void print(const Diagnosis& why, bool json) {
  if (json) {
    JsonLine chain, line;
    for (size_t i = 0; i < why.chain.size(); ++i) chain.add(cat(i + 1), why.chain[i]);
    line.add("kind", why.kind).add("subject", why.subject).add("sentence", why.sentence);
    if (why.seconds >= 0) line.add("seconds", why.seconds);
    line.add("chain", chain).add("advice", why.advice);
    std::cout << line.text();
    return;
  }
  std::cout << diagnosis_text(why);
}

// The reason when the master does not answer.
Diagnosis of_silent_master(const std::string& address, const Status& status) {
  Diagnosis out;
  out.kind = culprit::kMaster;
  out.subject = "master";
  const bool refused =
      status.code() == Code::unavailable && status.message().find("refused") != std::string::npos;
  out.sentence = refused ? cat("The master at ", address, " does not run: ", status.message())
                         : cat("The master at ", address,
                               " does not answer: its process is "
                               "stopped or busy, or the network to it is cut.");
  out.chain = {cat("asking the master: ", status.message())};
  out.advice = "Its jobs step on without it as far as it has allowed them to.";
  return out;
}

bool is_silence(const Status& status) {
  return status.code() == Code::unavailable || status.code() == Code::deadline_exceeded;
}

Result<StepRecording> record(ClusterConnection& connection, const std::string& id, int64_t steps) {
  LEAT_ASSIGN_OR_RETURN(const auto file,
                        connection.client().record(id, static_cast<uint32_t>(steps), kRecord));
  return read_recording(file);
}

}  // namespace

std::string diagnosis_text(const Diagnosis& why) {
  std::string text = printable(why.sentence) + "\n";
  for (const std::string& each : why.chain) {
    if (each != why.sentence) text += cat("  ", printable(each), "\n");
  }
  return why.advice.empty() ? text : cat(text, printable(why.advice), "\n");
}

int run_why(const WhyCommand& command) {
  const auto settings = find_cluster(command.cluster, real_environment);
  if (!settings.ok()) return report(settings.status(), command.cluster.color);
  auto options = client_options_of(*settings);
  if (!options.ok()) return report(options.status(), command.cluster.color);
  const auto begun = std::chrono::steady_clock::now();
  options->connect_deadline = kConnect;
  options->deadline = kAsk;
  options->patience = milliseconds(0);  // a master that does not answer is the answer
  const Interrupt interrupt;
  options->stop = [&] {
    return interrupt.requested() || std::chrono::steady_clock::now() - begun > kAsk;
  };
  auto client = ClusterClient::connect(std::move(*options));
  if (client.status().code() == Code::failed_precondition) {
    (void)report(client.status(), command.cluster.color);
    return kExitRefused;
  }
  const Result<Diagnosis> why =
      client.ok() ? (*client)->why(command.id) : Result<Diagnosis>(client.status());
  if (interrupt.requested()) return interrupt.exit_code();
  if (why.ok()) {
    print(*why, command.cluster.json);
    return kExitOk;
  }
  if (is_silence(why.status()) || why.status().code() == Code::cancelled) {
    print(of_silent_master(settings->master, why.status()), command.cluster.json);
    return kExitOk;
  }
  (void)report(why.status(), command.cluster.color);
  return kExitNoSuch;
}

int run_trace(const TraceCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto recording = record(connection, command.id, command.steps);
  if (!recording.ok()) return connection.report(recording.status(), About::state);
  const std::string path =
      command.output.empty() ? cat(recording->job, "-trace.json") : command.output;
  const Status written = write_trace(*recording, path);
  if (!written.ok()) return report(written, command.cluster.color);
  if (!command.cluster.json) {
    std::cout << path << "\n";
    return kExitOk;
  }
  uint64_t events = 0, dropped = 0;
  for (const RecordedPartition& part : recording->partitions) {
    events += part.events.size();
    dropped += part.dropped;
  }
  JsonLine line;
  line.add("file", path).add("job", recording->job);
  line.add("steps", recording->end() - recording->first());
  line.add("devices", uint64_t{recording->partitions.size()});
  std::cout << line.add("events", events).add("dropped", dropped).text();
  return kExitOk;
}

int run_explain(const ExplainCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto recording = record(connection, command.id, command.steps);
  if (!recording.ok()) return connection.report(recording.status(), About::state);
  const auto explanation = explain(*recording);
  if (!explanation.ok()) return report(explanation.status(), command.cluster.color);
  if (command.cluster.json) {
    std::cout << explanation_json(*explanation);
  } else {
    std::cout << printable_lines(explanation_text(*explanation)) << std::flush;
  }
  return kExitOk;
}

}  // namespace leat
