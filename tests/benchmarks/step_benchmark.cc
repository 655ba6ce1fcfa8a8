// Measures a whole step over real links. Every partition of a compiled plan is a process of its
// own, which steps freely. The output also has numbers of other systems, and of raw sockets and
// memcpy in the same run.
//
//   step_benchmark [--quick] [--json] [WORD]     cases whose name has WORD in it
//
// Pin it (taskset -c 0,1) to compare with figures that were taken on two cores.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "scheduler/compile/compile.h"
#include "scheduler/runtime/device_host.h"
#include "scheduler/runtime/places.h"
#include "tests/benchmarks/raw_measures.h"
#include "tests/benchmarks/raw_sockets.h"
#include "tests/benchmarks/step_graphs.h"
#include "tests/must.h"
#include "tests/run_tests.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

namespace leat {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};
constexpr uint64_t kRounds = 9;  // the median of these counts

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// --- The plans.

Plan plan_of(const step_graphs::StepGraph& graph) {
  CompileRequest request;
  request.borders = graph.step.borders();
  for (int t = 0; t < graph.tasks; ++t)
    request.devices.push_back({cat("job:worker/task:", t, "/cpu:0")});
  return must(compile(graph.step.graph, request));
}

struct Case {
  std::string name;
  std::function<Plan(const Catalogue&)> plan;
  uint64_t steps;         // of a round
  double bytes = 0;       // of a step, for a rate
  double tensorflow = 0;  // seconds of a step, on two such cores; 0: not measured
};

std::vector<Case> cases() {
  using Ops = const Catalogue&;
  std::vector<Case> all;
  const double null_step[] = {1.8e-3, 4.8e-3, 5.0e-3, 8.2e-3};
  for (int i = 0; i < 4; ++i) {
    const int workers = 1 << i;
    all.push_back({cat("null step, W=", workers),
                   [=](Ops ops) { return plan_of(step_graphs::null_step(ops, workers)); },
                   uint64_t{2000} >> i, 0, null_step[i]});
  }
  for (const auto& [name, count, elements, steps, tensorflow] :
       {std::tuple{"100 tensors of 256 B", 100, 64, 1000, 1.35e-3},
        {"transfer, 1 MB", 1, 250'000, 100, 1 / 0.6e3},
        {"transfer, 100 MB", 1, 25'000'000, 4, 1 / 18.5}}) {
    all.push_back({name,
                   [count = count, elements = elements](Ops ops) {
                     return plan_of(step_graphs::transfer(ops, count, elements));
                   },
                   static_cast<uint64_t>(steps), 4.0 * count * elements, tensorflow});
  }
  for (const auto& [mb, steps, tensorflow] :
       {std::tuple{1, 100, 2.2e-3}, {10, 20, 15e-3}, {100, 3, 106e-3}}) {
    all.push_back({cat("server step, ", mb, " MB each way"),
                   [mb = mb](Ops ops) {
                     return plan_of(step_graphs::server_step(ops, mb * int64_t{250'000}));
                   },
                   static_cast<uint64_t>(steps), mb * 2e6, tensorflow});
  }
  for (int workers : {2, 4}) {
    all.push_back({cat("all-reduce of 64 MiB, ", workers, " workers"),
                   [=](Ops ops) {
                     return plan_of(step_graphs::all_reduce(ops, workers, workers,
                                                            (int64_t{16} << 20) / workers));
                   },
                   3, 64 << 20, 0});
    all.push_back({cat("all-reduce of 64 MiB whole, ", workers, " workers"),
                   [=](Ops ops) {
                     return plan_of(step_graphs::all_reduce(ops, workers, 1, int64_t{16} << 20));
                   },
                   3, 64 << 20, 0});
  }
  return all;
}

// --- One partition, in a process of its own.

struct Arguments {
  std::string name, transport;
  uint32_t partition = 0;
  int spin_us = 0;
  uint64_t steps = 0;
  std::vector<std::pair<int, int>> sockets;  // by partition: express and bulk, or -1
};

LinkSetup setup_for(const Plan& plan, uint32_t self, uint32_t peer, SlotTable& slots) {
  LinkSetup setup;
  setup.self = plan.partitions[self].device;
  setup.peer = plan.partitions[peer].device;
  setup.slots = &slots;
  for (uint32_t e = 0; e < plan.edges.size(); ++e) {
    const PlanEdge& edge = plan.edges[e];
    if (edge.from == self && edge.to == peer) setup.outgoing.push_back({e, edge.bytes});
    if (edge.from == peer && edge.to == self) setup.incoming.push_back({e, edge.bytes});
  }
  return setup;
}

std::shared_ptr<const shm::Outbox> outbox_of(const Plan& plan, uint32_t self) {
  std::vector<shm::Outbox::Value> values;
  for (auto& value : values_for_many(plan, self, std::vector<bool>(plan.partitions.size(), true)))
    values.push_back({value.bytes, std::move(value.edges)});
  return values.empty() ? nullptr : must(shm::Outbox::create(values));
}

// Steps, and prints the seconds for a step and the number of frames on the links of partition 0.
void run_partition(const Arguments& arguments) {
  const Catalogue catalogue = standard_catalogue();  // the plan points to its ops
  std::shared_ptr<const Plan> plan;
  for (const Case& c : cases())
    if (c.name == arguments.name) plan = std::make_shared<const Plan>(c.plan(catalogue));
  const std::chrono::microseconds spin(arguments.spin_us);
  const uint32_t self = arguments.partition;
  const bool tcp = arguments.transport == "tcp";
  Reactor reactor(tcp ? spin : std::chrono::microseconds(0));
  auto waiter = must(shm::Waiter::create(spin));
  DeviceHost worker(static_cast<int>(self), 1);
  const auto run = must(worker.prepare(plan, self));
  must(worker.open_slots(*run, std::vector<bool>(plan->partitions.size(), tcp)));
  const auto outbox = tcp ? nullptr : outbox_of(*plan, self);
  std::vector<std::unique_ptr<Channel>> channels(plan->partitions.size());
  std::vector<Link*> links;
  for (uint32_t q = 0; q < channels.size(); ++q) {
    if (arguments.sockets[q].first < 0) continue;
    LinkSetup setup = setup_for(*plan, self, q, run->slots());
    Descriptor express(arguments.sockets[q].first), bulk(arguments.sockets[q].second);
    std::unique_ptr<Link> link;
    if (tcp) {
      link = must(tcp::make_link(reactor, std::move(express), std::move(bulk), std::move(setup)));
    } else {
      const Deadline deadline = Clock::now() + kPatience;
      auto shown = must(shm::exchange_outboxes(express.get(), outbox.get(), setup, deadline));
      shm::Arena arena = must(shm::Arena::create(shown.edges()));
      arena.open_slots(run->slots());
      std::move(shown).open_slots(run->slots());
      link = must(shm::make_link(reactor, *waiter, std::move(express), std::move(arena),
                                 std::move(setup), deadline, outbox));
    }
    links.push_back(link.get());
    channels[q] = std::move(link);
  }
  must(worker.connect(*run, std::move(channels), "benchmark", {}));
  worker.start(*run);
  worker.extend(*run, arguments.steps * (kRounds + 1));
  const auto frames = [&] {
    uint64_t sum = 0;
    for (Link* link : links) sum += link->counters().frames_sent + link->counters().frames_received;
    return sum;
  };
  std::vector<double> rounds;
  uint64_t frames_before = 0;
  for (uint64_t round = 0; round <= kRounds; ++round) {
    const auto begin = Clock::now();
    must(run->run().finished().wait(arguments.steps * (round + 1), Clock::now() + kPatience));
    if (round == 0) frames_before = frames();
    if (round > 0) rounds.push_back(seconds_since(begin) / static_cast<double>(arguments.steps));
  }
  if (self == 0) {
    std::cout << median(rounds) << " "
              << static_cast<double>(frames() - frames_before) /
                     static_cast<double>(kRounds * arguments.steps)
              << std::endl;
  }
  char stay;  // waits until all are done
  while (::read(0, &stay, 1) < 0 && errno == EINTR) {
  }
  worker.release(*run);
}

Arguments parse_arguments(char** a) {
  Arguments out;
  out.name = a[0];
  out.transport = a[1];
  out.partition = static_cast<uint32_t>(std::atoi(a[2]));
  out.spin_us = std::atoi(a[3]);
  out.steps = static_cast<uint64_t>(std::atoll(a[4]));
  for (a += 5; a[0] && a[1]; a += 2) out.sockets.push_back({std::atoi(a[0]), std::atoi(a[1])});
  return out;
}

// --- All of them.

struct Measured {
  double seconds = 0, frames = 0;
};

// Sockets between all pairs of partitions. Each end is for one process.
struct Wires {
  using Ends = std::vector<std::vector<Descriptor>>;
  Wires(size_t n, bool tcp) : express(n), bulk(n) {
    for (size_t p = 0; p < n; ++p) {
      express[p].resize(n);
      bulk[p].resize(n);
    }
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        connect(express, p, q, tcp);
        connect(bulk, p, q, tcp);
      }
    }
  }
  static void connect(Ends& ends, size_t p, size_t q, bool tcp) {
    if (tcp) {
      RawSockets pair;
      for (const Descriptor* end : {&pair.a, &pair.b}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
      ends[p][q] = std::move(pair.a);
      ends[q][p] = std::move(pair.b);
    } else {
      std::tie(ends[p][q], ends[q][p]) = must(socket_pair());
    }
  }
  Ends express, bulk;
};

bool tied(const Plan& plan, size_t p, size_t q) {
  return std::any_of(plan.edges.begin(), plan.edges.end(), [&](const PlanEdge& edge) {
    return (edge.from == p && edge.to == q) || (edge.from == q && edge.to == p);
  });
}

// Starts partition p, which stays until its standard input ends. Partition 0 prints to `output`.
pid_t start(const std::vector<std::string>& words, const std::vector<int>& kept, int input,
            int output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  for (int fd : kept) ::fcntl(fd, F_SETFD, 0);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::execv("/proc/self/exe", arguments.data());
  std::_Exit(127);
}

Measured measure(const Case& c, const std::string& transport, int spin_us, uint64_t steps) {
  const Catalogue catalogue = standard_catalogue();
  const Plan plan = c.plan(catalogue);
  const size_t n = plan.partitions.size();
  const Wires wires(n, transport == "tcp");
  int go[2], result[2];
  if (::pipe2(go, O_CLOEXEC) != 0 || ::pipe2(result, O_CLOEXEC) != 0) std::exit(1);
  std::vector<pid_t> children;
  for (size_t p = 0; p < n; ++p) {
    std::vector<std::string> words = {"step_benchmark", "--partition", c.name,    transport,
                                      cat(p),           cat(spin_us),  cat(steps)};
    std::vector<int> kept;
    for (size_t q = 0; q < n; ++q) {
      for (const auto* ends : {&wires.express, &wires.bulk}) {
        const int fd = p != q && tied(plan, p, q) ? (*ends)[p][q].get() : -1;
        words.push_back(cat(fd));
        if (fd >= 0) kept.push_back(fd);
      }
    }
    children.push_back(start(words, kept, go[0], result[1]));
  }
  ::close(go[0]);
  ::close(result[1]);
  Measured measured;
  std::string text;
  char buffer[256];
  const Deadline deadline = Clock::now() + 2 * kPatience;
  while (text.find('\n') == std::string::npos &&
         wait_ready(result[0], POLLIN, deadline, "partition 0").ok()) {
    const ssize_t got = ::read(result[0], buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(go[1]);
  const bool read = std::sscanf(text.c_str(), "%lf %lf", &measured.seconds, &measured.frames) == 2;
  for (pid_t child : children) {
    if (!read) ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::close(result[0]);
  if (!read) {
    FAIL(c.name << " over " << transport << ": a partition failed: " << text);
  }
  return measured;
}

struct Options {
  bool quick = false, json = false;
  std::string word;
  char** partition = nullptr;  // the arguments of a child
} options;

void print(const std::string& name, const std::string& how, const Measured& m, double bytes,
           double tensorflow) {
  if (options.json) {
    std::printf("{\"case\":\"%s\",\"how\":\"%s\",\"us\":%.2f,\"frames\":%.2f", name.c_str(),
                how.c_str(), m.seconds * 1e6, m.frames);
    if (bytes > 0) std::printf(",\"gb_per_s\":%.3f", bytes / m.seconds / 1e9);
    if (tensorflow > 0) std::printf(",\"times_tensorflow\":%.2f", tensorflow / m.seconds);
    std::printf("}\n");
  } else {
    std::printf("%-32s %-14s %11.1f us", name.c_str(), how.c_str(), m.seconds * 1e6);
    if (m.frames > 0) std::printf("  %6.2f frames", m.frames);
    if (bytes > 0) std::printf("  %6.2f GB/s", bytes / m.seconds / 1e9);
    if (tensorflow > 0) std::printf("  %7.1fx TensorFlow", tensorflow / m.seconds);
    std::printf("\n");
  }
  std::fflush(stdout);
}

void measure_raw() {
  const double seconds = options.quick ? 0.01 : 1;
  const auto show = [&](const std::string& name, const char* how, std::vector<double> times,
                        double bytes) {
    print(name, how, {median(std::move(times)), 0}, bytes, 0);
  };
  show("round trip of 8 B", "raw tcp",
       raw::round_trips(raw::Waiting::blocking, raw::Cores::any, seconds), 0);
  for (size_t bytes : {1'000'000, 100'000'000}) {
    const std::string name = cat("transfer, ", bytes / 1'000'000, " MB");
    show(name, "raw tcp", raw::tcp_transfers(bytes, seconds), static_cast<double>(bytes));
    show(name, "memcpy", raw::copies(bytes, seconds), static_cast<double>(bytes));
  }
}

void measure_all() {
  const auto wanted = [&](const std::string& name) {
    return name.find(options.word) != std::string::npos;
  };
  if (wanted("raw")) measure_raw();
  for (const Case& c : cases()) {
    if (!wanted(c.name) || (options.quick && c.steps < 10)) continue;
    for (const char* transport : {"tcp", "shm"}) {
      for (int spin_us : {0, 200}) {
        const Measured m = measure(c, transport, spin_us, options.quick ? 2 : c.steps);
        print(c.name, cat(transport, spin_us > 0 ? ", spinning" : ", parked"), m, c.bytes,
              c.tensorflow);
      }
    }
  }
}

}  // namespace

TEST_CASE("whole steps are measured") {
  if (options.partition) return run_partition(parse_arguments(options.partition));
  measure_all();
}

}  // namespace leat

int main(int count, char** arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  leat::Options& options = leat::options;
  for (int i = 1; i < count && !options.partition; ++i) {
    const std::string_view word = arguments[i];
    if (word == "--partition" && count > 7) {
      options.partition = arguments + i + 1;
    } else if (word == "--quick") {
      options.quick = true;
    } else if (word == "--json") {
      options.json = true;
    } else {
      options.word = word;
    }
  }
  return leat::run_tests(1, arguments);
}
