#include "tests/daemon/process_cluster.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/eventually.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 50ms;  // between two looks at another process

void add(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

}  // namespace

ProcessCluster::ProcessCluster(ProcessClusterOptions options) : options_(std::move(options)) {
  start_master("127.0.0.1:0");
  workers_.resize(static_cast<size_t>(options_.workers));
  for (int i = 0; i < options_.workers; ++i) start_worker(i);
  for (auto& worker : workers_) static_cast<void>(worker->ready());
  if (!await_ready(options_.workers)) FAIL("the workers did not register:\n" << logs());
}

void ProcessCluster::start_master(const std::string& listen) {
  std::vector<std::string> arguments = {
      "master", "--listen", listen, "--http", "127.0.0.1:0", "--state-dir", folder_ / "master"};
  add(arguments, options_.master);
  master_ = std::make_unique<LeatdProcess>(arguments, options_.master_environment);
  static_cast<void>(master_->ready());
}

void ProcessCluster::restart_master(int signal) {
  const std::string listen = master_->ready().listen;
  master_->signal(signal);
  (void)master_->wait();
  start_master(listen);
}

int ProcessCluster::number_of(const std::string& worker) { return std::stoi(worker.substr(1)); }

void ProcessCluster::start_worker(int i, const std::vector<std::string>& more) {
  if (i >= workers()) workers_.resize(static_cast<size_t>(i) + 1);
  auto& place = workers_[static_cast<size_t>(i)];
  place.reset();
  std::vector<std::string> arguments = {"worker",
                                        "--name",
                                        cat("w", i),
                                        "--master",
                                        master_->ready().listen,
                                        "--http",
                                        options_.worker_http,
                                        "--data",
                                        "127.0.0.1:0",
                                        "--threads",
                                        std::to_string(options_.threads),
                                        "--state-dir",
                                        folder_ / cat("w", i),
                                        "--set",
                                        cat("transports=", options_.transports)};
  if (!options_.data_path.empty())
    add(arguments, {"--set", cat("datasets.data=", options_.data_path)});
  add(arguments, options_.worker);
  add(arguments, more);
  place = std::make_unique<LeatdProcess>(arguments, options_.worker_environment);
}

Finished ProcessCluster::leat(const std::string& command,
                              const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {command};
  add(all, arguments);
  add(all, {"--master", master_->ready().listen});
  // A test that gives the option itself wants its own.
  const bool own = std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
    return word == "--secret-file" || word == "--certificate-file";
  });
  if (!own) add(all, options_.client);
  return run_leat(folder_.path(), all);
}

bool ProcessCluster::await_ready(int workers) {
  const auto ready = [&] {
    const std::string nodes = leat("nodes", {"--json"}).out;
    constexpr std::string_view kReady = "\"READY\"";
    int count = 0;
    for (size_t at = nodes.find(kReady); at != std::string::npos; at = nodes.find(kReady, at + 1))
      ++count;
    return count >= workers;
  };
  return eventually(ready, 60s, kLook);
}

std::string ProcessCluster::run_with_fault(const std::string& job_file, const std::string& fault) {
  const Finished done = leat("submit", {"--wait", "--json", job_file, "--chaos", fault});
  INFO(done.out << done.err << logs());
  REQUIRE(done.exit_code == 0);
  const std::string ids = leat("ps", {"--all", "--quiet"}).out;
  return show(ids.substr(0, ids.find('\n')));
}

std::string ProcessCluster::show(const std::string& job) {
  return leat("show", {"--json", job}).out;
}

std::string ProcessCluster::await_state(const std::string& job,
                                        const std::vector<std::string>& states,
                                        std::chrono::seconds patience) {
  std::string found;
  const auto reached = [&] {
    const std::string seen = show(job);
    for (const std::string& state : states) {
      if (found.empty() && seen.find(cat('"', state, '"')) != std::string::npos) found = state;
    }
    return !found.empty();
  };
  static_cast<void>(eventually(reached, patience, kLook));
  return found;
}

std::vector<pid_t> ProcessCluster::runners() const {
  std::vector<pid_t> all;
  for (const auto& worker : workers_) {
    const auto children = children_of(worker->pid());
    all.insert(all.end(), children.begin(), children.end());
  }
  return all;
}

bool ProcessCluster::await_no_runners() const {
  return eventually([this] { return runners().empty(); }, 30s, kLook);
}

std::string ProcessCluster::logs() const {
  std::string text = cat("master:\n", master_->log());
  for (size_t i = 0; i < workers_.size(); ++i) text += cat("w", i, ":\n", workers_[i]->log());
  return text;
}

}  // namespace leat
