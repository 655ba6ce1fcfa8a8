// The commands of `leat` that look into a job of the cluster while it runs: a struct with the
// arguments of each, and the function that runs it, as in commands.h. docs/why.md explains what
// they print.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/cli/cluster_commands.h"
#include "daemon/traces/diagnosis.h"

namespace leat {

// The reason for people, on lines of their own: the sentence, the chain behind it, and the advice.
std::string diagnosis_text(const Diagnosis& why);

// Prints why a job does not go on: the reason, the chain of waits that leads to it, and what to do.
// Answers within 3 s, also if the master does not: then that is the reason. Exit code 0 if there is
// an answer.
struct WhyCommand {
  ClusterOptions cluster;
  std::string id;
};
int run_why(const WhyCommand& command);

// Records steps of a job, and writes them as a file for Perfetto or chrome://tracing. Prints the
// path, or with --json an object with the numbers of steps and events. Waits for the steps for 60
// s, and takes those that were done by then. Exit code 6 if the job does not train.
struct TraceCommand {
  ClusterOptions cluster;
  std::string id;
  int64_t steps = 10;
  std::string output;  // the file; empty: JOB-trace.json
};
int run_trace(const TraceCommand& command);

// Records steps of a job, and prints where their time goes: see daemon/traces/critical_path.h.
struct ExplainCommand {
  ClusterOptions cluster;
  std::string id;
  int64_t steps = 20;
};
int run_explain(const ExplainCommand& command);

}  // namespace leat
