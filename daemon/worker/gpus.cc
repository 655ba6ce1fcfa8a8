#include "daemon/worker/gpus.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>
#include <thread>

#include "daemon/base/terminal.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"
#include "ops/plugins.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES";
constexpr int kMostGpus = 64;
// A killed process ends within this time, unless it hangs inside of the driver.
constexpr std::chrono::milliseconds kEndOfProbe{500};

// The process prints a line of these fields, with tabs between them.
enum : size_t { kCount, kKind, kName, kMemory, kDescription, kFields };

// Reads until the end of the pipe; false if `due` comes first.
bool read_until(int pipe, Steady::time_point due, std::string& text) {
  char piece[4096];
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Steady::now());
    pollfd ready{pipe, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t size = ::read(pipe, piece, sizeof piece);
    if (size <= 0) return true;
    text.append(piece, static_cast<size_t>(size));
  }
}

// This process' environment with another value of kVisible; null: with the same.
class Environment {
 public:
  explicit Environment(const std::string* visible) {
    if (visible) own_ = cat(kVisible, "=", *visible);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (visible && std::string_view(*entry).starts_with(cat(kVisible, "="))) continue;
      entries_.push_back(*entry);
    }
    if (visible) entries_.push_back(own_.data());
    entries_.push_back(nullptr);
  }
  char* const* get() { return entries_.data(); }

 private:
  std::string own_;
  std::vector<char*> entries_;
};

// Starts `leatd probe` with its output in `output`. Returns its process id, or -1 with errno.
pid_t start_probe(std::string program, const std::string* visible, int output) {
  std::string verb = "probe";
  char* const arguments[] = {program.data(), verb.data(), nullptr};
  Environment environment(visible);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  errno =
      ::posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environment.get());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return errno == 0 ? child : -1;
}

// Ends the process if it has not ended. One that hangs in the driver is left alone.
std::string end_of(pid_t child, bool ended) {
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  const auto due = Steady::now() + kEndOfProbe;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Steady::now() >= due) return "still runs";
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFSIGNALED(status) ? cat("ended by signal ", WTERMSIG(status)) : "";
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\n') break;
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

struct Probed {
  int count = 0;
  WorkerDevice first;
};

Result<Probed> probe(const std::string& program, const std::string* visible,
                     std::chrono::milliseconds patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return system_error("looking for GPUs", errno);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t child = start_probe(program, visible, to.get());
  if (child < 0) return system_error(cat("'", program, " probe'"), errno);
  to = Descriptor();
  std::string text;
  const bool ended = read_until(from.get(), Steady::now() + patience, text);
  const std::string how = end_of(child, ended);
  if (!ended) {
    return deadline_exceeded(cat("the driver of the GPUs: expected an answer within ",
                                 seconds_text(patience), ", received none; see 'nvidia-smi'"));
  }
  const std::vector<std::string> fields = split(text);
  if (fields[0] == "none" && fields.size() == 2) return unavailable(fields[1]);
  Probed probed;
  if (fields.size() != kFields || !read_number(fields[kCount], probed.count) || probed.count < 1 ||
      !read_number(fields[kMemory], probed.first.memory_bytes)) {
    return unavailable(cat("'", program, " probe': expected the facts of a GPU, received ",
                           text.empty() ? "nothing" : cat("'", printable(text), "'"),
                           how.empty() ? "" : "; it ", how));
  }
  probed.first.kind = fields[kKind];
  probed.first.name = fields[kName];
  probed.first.description = fields[kDescription];
  return probed;
}

}  // namespace

std::string visible_gpu(const char* visible, int number) {
  if (visible == nullptr) return std::to_string(number);
  std::string_view list = visible;
  for (; number > 0 && list.find(',') != list.npos; --number)
    list.remove_prefix(list.find(',') + 1);
  return number > 0 ? "" : std::string(list.substr(0, list.find(',')));
}

Result<std::vector<Gpu>> find_gpus(const std::string& program, std::chrono::milliseconds patience) {
  if (!has_device_plugin(kGpuPlugin)) return std::vector<Gpu>();
  const auto due = Steady::now() + patience;
  LEAT_ASSIGN_OR_RETURN(const Probed first, probe(program, nullptr, patience));
  const char* const visible = std::getenv(std::string(kVisible).c_str());
  std::vector<Gpu> gpus{{first.first, visible_gpu(visible, 0)}};
  // Each is asked for its own facts, by a process that sees it alone, as its runners do.
  for (int i = 1; i < std::min(first.count, kMostGpus); ++i) {
    const std::string alone = visible_gpu(visible, i);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Steady::now());
    LEAT_ASSIGN_OR_RETURN(const Probed probed, probe(program, &alone, left));
    gpus.push_back({probed.first, alone});
  }
  return gpus;
}

int run_probe() {
  const auto facts = []() -> Result<std::string> {
    LEAT_ASSIGN_OR_RETURN(const DevicePlugin* plugin, load_device_plugin(kGpuPlugin));
    LEAT_ASSIGN_OR_RETURN(const int count, plugin->count());
    LEAT_ASSIGN_OR_RETURN(const auto device, plugin->open(0));
    return cat(count, "\t", device->kind(), "\t", device->name(), "\t", device->memory_bytes(),
               "\t", device->description());
  }();
  std::string text = facts.ok() ? *facts : facts.status().message();
  for (char& c : text) {
    if (c == '\n' || (c == '\t' && !facts.ok())) c = ' ';
  }
  std::cout << (facts.ok() ? "" : "none\t") << text << std::endl;
  // Nothing of the driver is taken down in order, which may take long: the kernel does it.
  ::_exit(0);
}

}  // namespace leat
