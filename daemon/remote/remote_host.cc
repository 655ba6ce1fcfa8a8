#include "daemon/remote/remote_host.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "daemon/remote/remote_run.h"
#include "daemon/remote/run_looks.h"
#include "daemon/remote/wire_remote_host.h"
#include "daemon/remote/wire_runner_channel.h"
#include "daemon/wire/run_messages.h"
#include "ops/formats/safetensors.h"
#include "scheduler/capnp/plan_file.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

using Client = wire::Runner::Client;

constexpr auto kVariablesDeadline = std::chrono::seconds(60);
// Runs beside steps, and may write to a slow disk.
constexpr auto kSnapshotDeadline = std::chrono::seconds(300);
constexpr auto kInspectDeadline = std::chrono::seconds(60);
constexpr int kRunBits = 32;                   // of a run's number within its assembly
constexpr uint64_t kHeadersBytes = 64u << 20;  // of a file of variables, in addition to their bytes

// Reads, on the loop, a blob that an answer offers.
kj::Promise<Result<Blob>> download_blob(wire::Blob::Reader from, uint64_t max_bytes) {
  const auto digest = read_digest(from.getSha256());
  if (!digest.ok()) return Result<Blob>(digest.status());
  return download(from.getContent(), BlobInfo{from.getSize(), *digest}, max_bytes);
}

// The most bytes of a file with the variables of a runner.
uint64_t most_variables(const RunnerFacts& facts) {
  uint64_t bytes = facts.memory_bytes + kHeadersBytes;
  for (const RunnerDevice& device : facts.accelerators) bytes += device.memory_bytes;
  return bytes;
}

// Makes a call and waits for it until `stop` is requested. The call then ends later by itself, and
// its outcome is ignored.
template <typename F>
auto stoppable(RunnerChannel& channel, std::string_view doing, const std::stop_token& stop,
               F function) {
  using O = Outcome<typename rpc_internal::PromisedBy<std::invoke_result_t<F&, Client&>>::type>;
  struct Wait {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::optional<O> outcome;
  };
  const auto wait = std::make_shared<Wait>();
  const auto due = std::chrono::steady_clock::now() + kSnapshotDeadline;
  // The callback shares `wait`, because it may come when this function has returned.
  channel.start(doing, kSnapshotDeadline, std::move(function), [wait](O outcome) {
    {
      const std::lock_guard lock(wait->mutex);
      wait->outcome.emplace(std::move(outcome));
    }
    wait->changed.notify_one();
  });
  std::unique_lock lock(wait->mutex);
  if (wait->changed.wait_until(lock, stop, due, [&] { return wait->outcome.has_value(); }))
    return std::move(*wait->outcome);
  const std::string what = cat(doing, " on ", channel.facts().node);
  return stop.stop_requested() ? O(cancelled(cat(what, ": it is not wanted any more")))
                               : O(no_answer(what, kSnapshotDeadline));
}

}  // namespace

RemoteHost::RemoteHost(std::shared_ptr<RunnerChannel> channel) : channel_(std::move(channel)) {}
RemoteHost::~RemoteHost() = default;

const RunnerFacts& RemoteHost::facts() const { return channel_->facts(); }
void RemoteHost::lost(const Status& cause) { channel_->lost(cause); }
Status RemoteHost::status() const { return channel_->status(); }
std::vector<PlanDevice> RemoteHost::devices() const {
  std::vector<PlanDevice> devices{{facts().device_name, "cpu", facts().memory_bytes}};
  for (const RunnerDevice& device : facts().accelerators) {
    devices.push_back({cat(task_of(facts().device_name), "/", device.name), device.kind,
                       device.memory_bytes, device.alignment});
  }
  return devices;
}
void RemoteHost::join(std::shared_ptr<AssemblyRuns> assembly) { assembly_ = std::move(assembly); }

// The name goes to the runner with the setup of each run.
void RemoteHost::set_data_root(const std::string&, const std::string& root) { data_root_ = root; }

Result<DatasetReport> RemoteHost::inspect(const DatasetFiles& files, const ClassCheck& check) {
  return channel_->call(kInspectingData, kInspectDeadline, [files, check](Client& runner) {
    auto request = runner.inspectDatasetRequest();
    write_dataset_files(files, request.initFiles());
    write_class_check(check, request.initCheck());
    return request.send().then([](auto&& response) -> Result<DatasetReport> {
      auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      return read_dataset(outcome.getOk());
    });
  });
}

Result<std::unique_ptr<PartitionRun>> RemoteHost::prepare(std::shared_ptr<const Plan> plan,
                                                          uint32_t partition, const std::string&,
                                                          uint64_t run) {
  // A lost runner is refused before the plan is encoded.
  LEAT_RETURN_IF_ERROR(status());
  // With the assembly in its number, late reports of an earlier assembly match none of its runs.
  run |= assembly_->assembly << kRunBits;
  LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, encode_plan_for(*plan, partition));
  // Each runner gets the plan with its own partition only.
  auto blob = std::make_shared<const Bytes>(pack_plan(encoded));
  auto state = std::make_shared<RemoteRunState>(RunPart{run, partition}, std::move(plan), channel_,
                                                assembly_->group(run));
  return std::unique_ptr<PartitionRun>(
      new RemoteRun(std::move(state), assembly_, std::move(blob), data_root_));
}

Result<std::map<std::string, Tensor>> RemoteHost::read_variables(const std::string&) {
  const uint64_t most = most_variables(facts());
  auto read = [most](Client& runner) {
    return runner.readVariablesRequest().send().then(
        [most](auto&& response) -> kj::Promise<Result<Blob>> {
          auto outcome = response.getOutcome();
          if (outcome.isError()) return Result<Blob>(read_status(outcome.getError()));
          return download_blob(outcome.getOk(), most);
        });
  };
  const std::string doing = "reading the variables";
  LEAT_ASSIGN_OR_RETURN(const Blob blob,
                        channel_->call(doing, kVariablesDeadline, std::move(read)));
  LEAT_ASSIGN_OR_RETURN(SafeTensors file,
                        parse_safetensors(blob, cat("the variables of ", facts().node)));
  return std::move(file.tensors);
}

Status RemoteHost::write_variables(const std::string&, const std::map<std::string, Tensor>& values,
                                   Restore what, std::optional<uint64_t> step) {
  SafeTensors file;
  file.tensors = values;
  LEAT_ASSIGN_OR_RETURN(Bytes bytes, format_safetensors(file));
  auto blob = std::make_shared<const Blob>(std::move(bytes));
  return channel_->call("writing the variables", kVariablesDeadline,
                        [blob, info = describe(*blob), what, step](Client& runner) {
                          auto request = runner.writeVariablesRequest();
                          request.setSize(info.size);
                          request.setSha256({info.sha256.data(), info.sha256.size()});
                          request.setRestore(static_cast<wire::Restore>(what));
                          write_optional(step, request.initStep());
                          return send_blob(std::move(request), blob);
                        });
}

Status RemoteHost::take_snapshot(const std::string&, int64_t step,
                                 const std::vector<std::string>& names) {
  return channel_->call("taking a snapshot", kVariablesDeadline, [step, names](Client& runner) {
    auto request = runner.takeSnapshotRequest();
    request.setStep(static_cast<uint64_t>(step));
    auto list = request.initNames(static_cast<unsigned>(names.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, names[i]);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  });
}

Status RemoteHost::read_snapshot(int64_t step, const TakeBytes& take, const std::stop_token& stop) {
  const uint64_t most = most_variables(facts());
  LEAT_ASSIGN_OR_RETURN(
      const Blob blob,
      stoppable(*channel_, "reading a snapshot", stop, [step, most](Client& runner) {
        auto request = runner.readSnapshotRequest();
        request.setStep(static_cast<uint64_t>(step));
        return request.send().then([most](auto&& response) -> kj::Promise<Result<Blob>> {
          auto outcome = response.getOutcome();
          if (outcome.isError()) return Result<Blob>(read_status(outcome.getError()));
          return download_blob(outcome.getOk(), most);
        });
      }));
  return take(blob);
}

Result<CheckpointPart> RemoteHost::write_snapshot(int64_t step, const PartPlace& place,
                                                  const std::stop_token& stop) {
  return stoppable(*channel_, kWritingSnapshot, stop, [step, place](Client& runner) {
    auto request = runner.writeSnapshotRequest();
    request.setStep(static_cast<uint64_t>(step));
    request.setFolder(place.folder);
    request.setPart(static_cast<uint32_t>(place.index));
    request.setParts(static_cast<uint32_t>(place.parts));
    return request.send().then([](auto&& response) -> Result<CheckpointPart> {
      auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      return CheckpointPart{outcome.getOk().getBytes(), outcome.getOk().getSha256().cStr()};
    });
  });
}

Status RemoteHost::arm(const std::vector<ArmedFault>& faults, std::chrono::milliseconds ran) {
  return channel_->call("arming faults", kCallDeadline, [faults, ran](Client& runner) {
    auto request = runner.armRequest();
    request.setRanMs(static_cast<uint64_t>(ran.count()));
    auto list = request.initFaults(static_cast<unsigned>(faults.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].setIndex(faults[i].index);
      list[i].setFault(to_string(faults[i].fault));
      list[i].setDue(faults[i].due);
    }
    return request.send().then([](auto&& response) { return outcome_of(response); });
  });
}

Result<Held> RemoteHost::held(const std::string&) {
  return channel_->call("asking what it holds", kCallDeadline, [](Client& runner) {
    return runner.heldRequest().send().then([](auto&& response) -> Result<Held> {
      auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      return read_held(outcome.getOk());
    });
  });
}

std::shared_ptr<RemoteHost> make_remote_host(RpcLoop& loop, RunnerFacts facts,
                                             wire::Runner::Client runner) {
  return std::make_shared<RemoteHost>(
      std::make_shared<RunnerChannel>(loop, std::move(facts), kj::mv(runner)));
}

}  // namespace leat
