// A client of a lasting session that a test kills and starts again.
//
//   lasting_client ADDRESS JOB WORKERS STEPS SAVE_EVERY
//
// JOB is the id of the session to attach to, or "new". Prints "job ID", then "STEP VALUE" when a
// step is acknowledged, and "done" at the end.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "daemon/client/session_client.h"
#include "ops/catalogue.h"
#include "tests/lasting_client/lasting_steps.h"

using namespace leat;

// One line in one write, so that no half of one is read.
static void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::exit(3);
}

static Status run(char** arguments) {
  const std::string job = arguments[2];
  const int workers = std::atoi(arguments[3]);
  const uint64_t steps = std::strtoull(arguments[4], nullptr, 10);
  const Catalogue catalogue = standard_catalogue();
  LEAT_ASSIGN_OR_RETURN(const Graph graph, lasting_graph(catalogue, workers));
  ClusterClientOptions cluster;
  cluster.address = arguments[1];
  cluster.patience = std::chrono::seconds(60);
  RemoteSessionOptions options;
  options.workers = workers;
  options.seed = 5;
  options.save_every = static_cast<uint32_t>(std::atoi(arguments[5]));
  options.wait = std::chrono::seconds(60);
  options.patience = std::chrono::seconds(60);
  std::unique_ptr<RemoteSession> session;
  if (job == "new") {
    LEAT_ASSIGN_OR_RETURN(session, RemoteSession::open(cluster, options));
  } else {
    LEAT_ASSIGN_OR_RETURN(session, RemoteSession::attach(cluster, job, options));
  }
  say("job " + session->job());
  if (session->version() == 0) LEAT_RETURN_IF_ERROR(session->extend(0, graph).status());
  LEAT_ASSIGN_OR_RETURN(const uint64_t taken, session->steps());
  for (uint64_t step = taken + 1; step <= steps; ++step) {
    LEAT_ASSIGN_OR_RETURN(const auto fetched, session->run({{"x", lasting_feed(step)}}, {"sum"},
                                                           lasting_targets(workers)));
    uint32_t bits = 0;
    std::memcpy(&bits, fetched[0].raw(), sizeof bits);
    say(cat(step, " ", bits));
  }
  say("done");
  return {};
}

int main(int count, char** arguments) {
  const Status status = count == 6 ? run(arguments)
                                   : invalid_argument(
                                         "usage: lasting_client ADDRESS JOB WORKERS "
                                         "STEPS SAVE_EVERY");
  if (!status.ok()) std::cerr << status.to_string() << std::endl;
  return status.ok() ? 0 : 1;
}
