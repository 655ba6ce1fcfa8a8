// How much of a copy to an accelerator is hidden behind its computing. The accelerator is a thread
// whose copies and kernels take a time that the benchmark sets, so that the figure says what the
// executor does, whatever this machine can do.
//
//   overlap_benchmark [--quick]
//
// Prints one JSON object: the milliseconds of a step that only copies its input, of one that only
// computes, and of one that does both; `ratio` is the last one by the longer of the others. In a
// full run the exit status is 1 if a copy and a kernel of 5 ms each make a step longer than 5.5 ms.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "ops/text/parse.h"
#include "tests/async_device.h"

namespace leat {
namespace {

using testing::AsyncDevice;
using testing::AsyncDeviceOptions;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr auto kLong = std::chrono::seconds(60);
constexpr uint64_t kRounds = 5;
constexpr std::chrono::microseconds kTaken(5000);  // by a copy of the input, and by the kernel
// The input is small: beside 5 ms, the time of the bytes on this machine's own bus is nothing.
constexpr int64_t kInputKiB = 256;
constexpr double kMostMilliseconds = 5.5;  // of a step with both

// The value, or the end of the program with the error.
template <typename T>
T good(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << "overlap_benchmark: " << result.status().to_string() << "\n";
  std::exit(1);
}
void good(const Status& status) {
  if (!status.ok()) good<int>(status);
}

// The CPU reads a variable, which the accelerator gets in each step and takes one element of.
std::string graph_text() {
  return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
overlap () => (y) {
  w = leat.Variable <name = "w", dtype = "float", shape = [)",
             kInputKiB * (1 << 8), R"(], device = "cpu:0"> ()
  x = leat.Read <device = "cpu:0"> (w)
  first = Constant <value_ints = [0]> ()
  y = Gather <device = "gpu:0"> (x, first)
}
)");
}

// The median of the milliseconds of a step.
double step_of(std::chrono::microseconds copy, std::chrono::microseconds kernel, uint64_t steps) {
  const Catalogue catalogue =
      testing::async_catalogue({}, [kernel] { std::this_thread::sleep_for(kernel); });
  auto hosts = make_local_hosts(1, 1, real_files(), [&] {
    AsyncDeviceOptions options;
    options.on_copy = [copy](size_t bytes) {
      std::this_thread::sleep_for(copy * bytes / (static_cast<size_t>(kInputKiB) << 10));
    };
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(std::make_unique<AsyncDevice>(options));
    return devices;
  });
  JobGraph job{good(parse_graph(graph_text(), catalogue, "overlap")), {}, {}, {}};
  job.fetches = job.graph.outputs();
  const auto plan = good(hosts->compile(std::move(job), {}));
  const auto run = good(hosts->run(plan, "job", {}));
  std::vector<double> times;
  uint64_t done = 2;  // the first steps fill the slots
  run->extend(done);
  good(run->wait(done - 1, Clock::now() + kLong));
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    // As many steps ahead as the run keeps fetches for.
    for (const uint64_t end = done + steps; done < end;) {
      const uint64_t next = std::min(end, done + run->window());
      run->extend(next);
      done += (next - done + 1) / 2;
      good(run->wait(done - 1, Clock::now() + kLong));
    }
    times.push_back(Milliseconds(Clock::now() - begin).count() / static_cast<double>(steps));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Returns the milliseconds of a step with a copy and a kernel.
double measure(uint64_t steps) {
  const double copies = step_of(kTaken, {}, steps), computes = step_of({}, kTaken, steps),
               both = step_of(kTaken, kTaken, steps);
  std::cout << cat("{\"case\": \"input copy beside computing\", \"copy_ms\": ", copies,
                   ", \"compute_ms\": ", computes, ", \"both_ms\": ", both,
                   ", \"ratio\": ", both / std::max(copies, computes), "}\n");
  return both;
}

}  // namespace
}  // namespace leat

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const double both = leat::measure(quick ? 4 : 100);
  if (quick || both <= leat::kMostMilliseconds) return 0;
  std::cerr << "overlap_benchmark: expected at most " << leat::kMostMilliseconds
            << " ms a step, received " << both << "\n";
  return 1;
}
