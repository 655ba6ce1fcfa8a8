#include "daemon/wire/registration.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "daemon/jobs/grammar.h"
#include "daemon/wire/views.h"
#include "daemon/wire/wires.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

// The readers take one entry more than join() allows, so that it can refuse the worker by the
// count, and a list without end costs no memory.
constexpr size_t kMaxListed = 1024;  // devices, data sets, runners
constexpr size_t kMaxAccelerators = 64;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

// True for the last part of a device's full name: a word and a number.
bool is_device_part(std::string_view name) {
  const size_t colon = name.find(':');
  const auto all = [](std::string_view part, bool (*is)(char)) {
    return !part.empty() && part.size() <= 16 && std::all_of(part.begin(), part.end(), is);
  };
  return colon != std::string_view::npos &&
         all(name.substr(0, colon), [](char c) { return c >= 'a' && c <= 'z'; }) &&
         all(name.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
}

// Copies a secret of a fixed size. The error says its size, but none of its bytes.
template <size_t N>
Status copy_secret(capnp::Data::Reader from, std::array<uint8_t, N>& to, std::string_view what) {
  if (from.size() != N)
    return invalid_argument(cat(what, ": expected ", N, " bytes, received ", from.size()));
  std::memcpy(to.data(), from.begin(), N);
  return {};
}

}  // namespace

void write_worker(const WorkerInfo& info, uint64_t incarnation,
                  std::span<const RunnerOrder> runners, wire::WorkerInfo::Builder out) {
  out.setName(info.worker.name);
  // The incarnation of this registration. A worker that the master has counted as lost draws a new
  // one.
  out.setIncarnation(incarnation);
  out.setDataAddress(info.address);
  out.setMachine(info.machine);
  out.setVersion(info.version);
  auto devices = out.initDevices(static_cast<unsigned>(info.devices.size()));
  for (unsigned i = 0; i < devices.size(); ++i) {
    devices[i].setKind(info.devices[i].kind);
    devices[i].setName(info.devices[i].name);
    devices[i].setMemoryBytes(info.devices[i].memory_bytes);
    devices[i].setThreads(info.devices[i].threads);
    devices[i].setDescription(info.devices[i].description);
  }
  auto datasets = out.initDatasets(static_cast<unsigned>(info.datasets.size()));
  for (unsigned i = 0; i < datasets.size(); ++i) datasets.set(i, info.datasets[i]);
  // A restarted master recognizes these runners by their tokens when they register.
  auto held = out.initRunners(static_cast<unsigned>(runners.size()));
  for (unsigned i = 0; i < held.size(); ++i) {
    held[i].setJob(runners[i].job);
    held[i].setAssembly(runners[i].assembly);
    held[i].setTask(runners[i].task);
    held[i].setToken(kj::arrayPtr(runners[i].token.data(), runners[i].token.size()));
  }
}

WorkerInfo read_worker(wire::WorkerInfo::Reader in) {
  WorkerInfo info;
  info.worker = {to_string(in.getName()), in.getIncarnation()};
  info.address = to_string(in.getDataAddress());
  info.machine = to_string(in.getMachine());
  for (const auto device : in.getDevices()) {
    info.devices.push_back({to_string(device.getKind()), to_string(device.getName()),
                            device.getMemoryBytes(), device.getThreads(),
                            to_string(device.getDescription())});
    if (info.devices.size() > kMaxListed) break;  // too many for join(), which says so
  }
  for (const auto dataset : in.getDatasets()) {
    info.datasets.push_back(to_string(dataset));
    if (info.datasets.size() > kMaxListed) break;
  }
  info.version = to_string(in.getVersion());
  for (const auto runner : in.getRunners()) {
    info.runners.push_back({to_string(runner.getJob()), runner.getAssembly(), runner.getTask()});
    if (info.runners.size() > kMaxListed) break;
  }
  return info;
}

Result<RunnerToken> read_token(capnp::Data::Reader in, std::string_view method) {
  // A token of another size would not be compared as a whole.
  RunnerToken token;
  if (in.size() != token.size()) {
    return invalid_argument(cat("Registry.", method, ": expected a token of ", token.size(),
                                " bytes, received ", in.size()));
  }
  std::copy(in.begin(), in.end(), token.begin());
  return token;
}

Result<std::vector<RunnerToken>> read_tokens(wire::WorkerInfo::Reader in) {
  std::vector<RunnerToken> tokens;
  for (const auto runner : in.getRunners()) {
    LEAT_ASSIGN_OR_RETURN(const auto token, read_token(runner.getToken(), "registerWorker"));
    tokens.push_back(token);
    if (tokens.size() > kMaxListed) break;
  }
  return tokens;
}

void write_runner(const RunnerInfo& info, std::span<const uint8_t> token,
                  wire::RunnerInfo::Builder out) {
  out.setJob(info.job);
  out.setAssembly(info.assembly);
  out.setTask(info.task);
  out.setToken(kj::arrayPtr(token.data(), token.size()));
  out.setIncarnation(info.incarnation);
  out.setDeviceName(info.device_name);
  out.setMemoryBytes(info.memory_bytes);
  out.setThreads(info.threads);
  out.setUnixAddress(info.unix_address);
  auto devices = out.initAccelerators(static_cast<unsigned>(info.accelerators.size()));
  for (unsigned i = 0; i < devices.size(); ++i) {
    const RunnerDevice& device = info.accelerators[i];
    devices[i].setName(device.name);
    devices[i].setKind(device.kind);
    devices[i].setMemoryBytes(device.memory_bytes);
    devices[i].setAlignment(device.alignment);
    devices[i].setDescription(device.description);
    write_wires(device.wires, devices[i].initWires(static_cast<unsigned>(device.wires.size())));
  }
}

Result<RunnerInfo> read_runner(wire::RunnerInfo::Reader in) {
  RunnerInfo info{to_string(in.getJob()),
                  in.getAssembly(),
                  in.getTask(),
                  in.getIncarnation(),
                  to_string(in.getDeviceName()),
                  in.getMemoryBytes(),
                  in.getThreads(),
                  to_string(in.getUnixAddress())};
  for (const auto device : in.getAccelerators()) {
    info.accelerators.push_back(
        {to_string(device.getName()), to_string(device.getKind()), device.getMemoryBytes(),
         device.getAlignment(), to_string(device.getDescription()), read_wires(device.getWires())});
    const RunnerDevice& last = info.accelerators.back();
    // Plans are laid out by these facts, so a wrong one must not get as far as a compilation.
    if (info.accelerators.size() > kMaxAccelerators || last.kind.empty() || last.kind == "cpu" ||
        !is_device_part(last.name) || !std::has_single_bit(last.alignment) ||
        last.alignment > kMaxAlignment) {
      return invalid_argument(cat("register: accelerator ", info.accelerators.size() - 1,
                                  ": expected one of at most ", kMaxAccelerators,
                                  ", with a name like 'gpu:0', a kind and a power of two as its "
                                  "alignment, received ",
                                  quoted_start(last.name), " of kind ", quoted_start(last.kind),
                                  ", alignment ", last.alignment));
    }
  }
  return info;
}

void write_order(const RunnerOrder& order, wire::RunnerSpec::Builder out) {
  out.setJob(order.job);
  out.setAssembly(order.assembly);
  out.setTask(order.task);
  out.setThreads(order.threads);
  out.setGpus(order.gpus);
  out.setMemory(order.memory);
  out.setChaos(order.chaos);
  out.setToken(kj::arrayPtr(order.token.data(), order.token.size()));
  out.setKey(kj::arrayPtr(order.key.data(), order.key.size()));
  out.setCredential(order.credential.c_str());
}

Result<RunnerOrder> read_order(wire::RunnerSpec::Reader spec) {
  RunnerOrder order;
  order.job = spec.getJob();
  // The id becomes a part of paths on the worker, so it must not contain anything else.
  if (!is_job_id(order.job)) {
    return invalid_argument(
        cat("a runner's order: expected a job's id, received ", quoted_start(order.job)));
  }
  order.assembly = spec.getAssembly();
  order.task = spec.getTask();
  order.threads = spec.getThreads();
  order.gpus = spec.getGpus();
  order.memory = spec.getMemory();
  order.chaos = spec.getChaos();
  LEAT_RETURN_IF_ERROR(copy_secret(spec.getToken(), order.token, "a runner's token"));
  LEAT_RETURN_IF_ERROR(copy_secret(spec.getKey(), order.key, "a runner's key"));
  order.credential = to_string(spec.getCredential());
  return order;
}

// The switches have no default, so that the compiler finds a fault that one of them does not name.
wire::LinkFault write_fault(LinkFault fault) {
  switch (fault) {
    case LinkFault::none:
      return wire::LinkFault::NONE;
    case LinkFault::closed:
      return wire::LinkFault::CLOSED;
    case LinkFault::damaged:
      return wire::LinkFault::DAMAGED;
    case LinkFault::lost:
      break;
  }
  return wire::LinkFault::LOST;
}

LinkFault read_fault(wire::LinkFault fault) {
  switch (fault) {
    case wire::LinkFault::NONE:
      return LinkFault::none;
    case wire::LinkFault::CLOSED:
      return LinkFault::closed;
    case wire::LinkFault::DAMAGED:
      return LinkFault::damaged;
    case wire::LinkFault::LOST:
      break;
  }
  return LinkFault::lost;
}

}  // namespace leat
