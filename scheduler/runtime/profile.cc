#include "scheduler/runtime/profile.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "devices/base/text.h"
#include "ops/graph/cost.h"
#include "ops/graph/validate.h"
#include "scheduler/runtime/kernel_notes.h"
#include "scheduler/runtime/program.h"

namespace leat {
namespace {

// Shares below it are shown in one line.
constexpr double kSmallest = 1e-3;

// CPU time of the calling thread, which stands still while the thread waits or is preempted.
uint64_t thread_cpu_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// One instruction of the table, or several whose kernels are joined, of which the first has its
// name there; seconds are of one step.
struct Row {
  const PlanInstruction* instruction = nullptr;
  size_t instructions = 0;
  double seconds = 0, flops = 0, bytes = 0;
  std::string type, tiles, note;
};

// Adds the work of an instruction to its row.
void add_work(const Partition& partition, const PlanInstruction& instruction, Row& row) {
  const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
  const OpTypes types = partition.types_of(instruction, attrs);
  ++row.instructions;
  row.flops += product_flops(*instruction.op, types);
  row.bytes += operand_bytes(types);
  // The line shows the type of the first output, if that is a tensor.
  const bool writes = !types.outputs.empty() && types.outputs[0].kind == ValueKind::tensor &&
                      types.outputs[0].present;
  if (writes) row.type = cat(" ", types.outputs[0].dtype, types.outputs[0].shape);
}

Row row_of(const Program& program, uint32_t first, const TimedKernel& kernel) {
  const Partition& partition = program.partition();
  Row row;
  row.instruction = &partition.instructions[first];
  for (const uint32_t i : program.kernels().work_of(first))
    add_work(partition, partition.instructions[i], row);
  std::vector<double> seconds;
  std::vector<std::string> tiles;
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    // The calls are counted by tile, so the number of steps is the calls divided by the tiles of a
    // step.
    const double steps =
        static_cast<double>(kernel.calls(phase)) / std::max(1, kernel.tiles(phase));
    seconds.push_back(steps > 0 ? kernel.seconds(phase) / steps : 0);
    row.seconds += seconds.back();
    tiles.push_back(std::to_string(kernel.tiles(phase)));
  }
  // The tiles of each phase, and, if there are several phases, the share of each in the time.
  row.tiles = join(tiles, "+");
  row.note = kernel.note();
  if (seconds.size() > 1 && row.seconds > 0) {
    std::vector<std::string> shares;
    for (double s : seconds)
      shares.push_back(std::to_string(static_cast<int>(100 * s / row.seconds + 0.5)));
    row.tiles += cat(" (", join(shares, "+"), " %)");
  }
  return row;
}

// Giga-units per second; "" where there is nothing to divide.
std::string rate(double amount, double seconds) {
  if (amount == 0 || seconds == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", amount / seconds / 1e9);
  return text;
}

std::string line(const Row& row, double total) {
  char text[128];
  std::snprintf(text, sizeof text, "%6.1f %10.1f %8s %8s", 100 * row.seconds / total,
                1e6 * row.seconds, rate(row.flops, row.seconds).c_str(),
                rate(row.bytes, row.seconds).c_str());
  return cat(text, "  ", row.instruction->op->full_name(), row.type, "  '", row.instruction->name,
             "'", row.instructions > 1 ? cat(" and ", row.instructions - 1, " more") : "",
             row.instruction->chain == kNone ? "" : cat("  chain ", row.instruction->chain),
             "  tiles ", row.tiles, row.note.empty() ? "" : cat("  note: ", row.note), "\n");
}

// The sums of all instructions of each op, the most expensive first; "" if no op has several.
std::string sums_by_op(const std::vector<Row>& rows, double total) {
  struct Sum {
    std::string op;
    double seconds = 0;
    size_t instructions = 0;
  };
  std::map<std::string, Sum> by_op;
  size_t instructions = 0;
  for (const Row& row : rows) {
    Sum& sum = by_op[row.instruction->op->full_name()];
    sum.op = row.instruction->op->full_name();
    sum.seconds += row.seconds;
    instructions += row.instructions;
    sum.instructions += row.instructions;
  }
  if (instructions == by_op.size()) return "";
  std::vector<Sum> sums;
  for (auto& [op, sum] : by_op) sums.push_back(std::move(sum));
  std::stable_sort(sums.begin(), sums.end(),
                   [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; });
  std::string out = "     %    us/step  instructions of an op\n";
  for (const Sum& sum : sums) {
    char text[64];
    std::snprintf(text, sizeof text, "%6.1f %10.1f %13zu", 100 * sum.seconds / total,
                  1e6 * sum.seconds, sum.instructions);
    out += cat(text, "  ", sum.op, "\n");
  }
  return out;
}

}  // namespace

TimedKernel::TimedKernel(std::unique_ptr<Kernel> kernel, Queue& queue)
    : kernel_(std::move(kernel)),
      sums_(new Sum[static_cast<size_t>(std::max(1, kernel_->phases()))]) {
  for (int phase = 0; phase < std::max(1, kernel_->phases()); ++phase)
    sums_[static_cast<size_t>(phase)].stopwatch = queue.make_stopwatch();
}

Progress TimedKernel::run(KernelContext& context, int phase, int tile) {
  Sum& sum = sums_[static_cast<size_t>(phase)];
  if (sum.stopwatch) {
    // One thread gives the queue its work.
    const bool first_step = sum.calls.fetch_add(1, std::memory_order_relaxed) <
                            static_cast<uint64_t>(kernel_->tiles(phase));
    if (first_step) return kernel_->run(context, phase, tile);
    sum.stopwatch->start();
    const Progress progress = kernel_->run(context, phase, tile);
    sum.stopwatch->stop();
    return progress;
  }
  const uint64_t begun = thread_cpu_nanoseconds();
  const Progress progress = kernel_->run(context, phase, tile);
  if (progress == Progress::blocked) return progress;  // it runs again
  // The calls of the first step are those with the lowest numbers: one for each tile of the phase.
  const bool first_step = sum.calls.fetch_add(1, std::memory_order_relaxed) <
                          static_cast<uint64_t>(kernel_->tiles(phase));
  if (!first_step)
    sum.nanoseconds.fetch_add(thread_cpu_nanoseconds() - begun, std::memory_order_relaxed);
  return progress;
}

double TimedKernel::seconds(int phase) const {
  const Sum& sum = sums_[static_cast<size_t>(phase)];
  if (sum.stopwatch) return sum.stopwatch->sum().seconds;
  return 1e-9 * static_cast<double>(sum.nanoseconds.load(std::memory_order_relaxed));
}

uint64_t TimedKernel::calls(int phase) const {
  const Sum& sum = sums_[static_cast<size_t>(phase)];
  if (sum.stopwatch) return sum.stopwatch->sum().rounds;
  const uint64_t calls = sum.calls.load(std::memory_order_relaxed);
  // The first step is subtracted, because its time was not added.
  const auto first_step = static_cast<uint64_t>(kernel_->tiles(phase));
  return calls > first_step ? calls - first_step : 0;
}

std::string profile_text(const Program& program) {
  const Partition& partition = program.partition();
  std::vector<Row> rows;
  double total = 0;
  bool by_device = false;
  for (uint32_t i = 0; i < partition.instructions.size(); ++i) {
    const TimedKernel* kernel = program.kernels().timed(i);
    if (!kernel) continue;
    rows.push_back(row_of(program, i, *kernel));
    total += rows.back().seconds;
    by_device = by_device || kernel->by_device();
  }
  if (total == 0) return "";
  // A stable sort keeps plan order among rows of equal time.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  char all[32];
  std::snprintf(all, sizeof all, "%.3f", 1e3 * total);
  std::string out = cat(by_device ? "Time" : "CPU time", " of the kernels on ", partition.device,
                        ": ", all, " ms a step, the first step not counted\n",
                        "     %    us/step  GFLOP/s     GB/s  op, output, name\n");
  // Rows below kSmallest of the total are added up into one line.
  double small = 0;
  size_t others = 0;
  for (const Row& row : rows) {
    if (row.seconds < kSmallest * total) {
      small += row.seconds;
      others += row.instructions;
    } else {
      out += line(row, total);
    }
  }
  if (others > 0) {
    char text[64];
    std::snprintf(text, sizeof text, "%6.1f %10.1f", 100 * small / total, 1e6 * small);
    out += cat(text, "                     ", others, " others\n");
  }
  return out + sums_by_op(rows, total);
}

}  // namespace leat
