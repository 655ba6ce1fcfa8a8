// Calls that block run on the run's strand; calls on the path of a step run on the loop's thread.
#include <algorithm>
#include <utility>

#include "daemon/hosts/partition_recording.h"
#include "daemon/runner/wire_runner_service.h"
#include "daemon/wire/recording_file.h"
#include "daemon/wire/registration.h"
#include "daemon/wire/run_messages.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kUploadDeadline{60'000};
constexpr std::chrono::seconds kNews{1};  // for the master to take them
// The most host memory that all uploads may hold together. A blob counts as far as it has arrived.
constexpr uint64_t kMostUploaded = uint64_t{4} << 30;

// A copy, because the message is freed with the call and the work may come later.
Bytes bytes_of(capnp::Data::Reader data) {
  const auto* begin = reinterpret_cast<const std::byte*>(data.begin());
  return Bytes(begin, begin + data.size());
}

Result<BlobInfo> blob_info(uint64_t size, capnp::Data::Reader digest) {
  BlobInfo info{.size = size, .sha256 = {}};
  LEAT_ASSIGN_OR_RETURN(info.sha256, read_digest(digest));
  return info;
}

template <typename Params>
RunPart part_of(const Params& params) {
  return {params.getRun(), params.getPartition()};
}

// The partition of a run that is connected. The run is held, so that its release waits for the
// call.
struct ConnectedRun {
  std::shared_ptr<LiveRun> live;
  std::shared_ptr<HostedPartition> partition;
};

Result<ConnectedRun> connected_run(JobRunner& runner, const RunPart& part) {
  LEAT_ASSIGN_OR_RETURN(const std::shared_ptr<HostedRun> run, runner.runs().find(part));
  LEAT_ASSIGN_OR_RETURN(std::shared_ptr<LiveRun> live, run->live());
  std::shared_ptr<HostedPartition> partition = run->partition();
  if (!partition) return failed_precondition(cat("run ", part.run, " was released"));
  return ConnectedRun{std::move(live), std::move(partition)};
}

// The methods run on the loop's thread and must not block it. Work that blocks answers by a
// promise.
class RunnerServer final : public Service<wire::Runner> {
 public:
  RunnerServer(RpcLoop& loop, JobRunner& runner) : loop_(loop), runner_(runner) {}

 protected:
  kj::Promise<void> prepare(PrepareContext context) override {
    const auto params = context.getParams();
    return uploaded(
        context, params.getPlanSize(), params.getPlanSha256(),
        [&](const BlobInfo& info) {
          // The run exists from the call on, before its plan has arrived, so that abort and release
          // find it.
          return runner_.runs().expect(part_of(params), info.sha256);
        },
        [](HostedRun& run, const Bytes& bytes) { return run.prepare(bytes); });
  }

  kj::Promise<void> connect(ConnectContext context) override {
    const auto setup = read_setup(context.getParams().getSetup());
    if (!setup.ok()) return reply(context, setup.status());
    return on_strand(context, "connecting a run",
                     [setup = *setup](HostedRun& run) { return run.connect(setup); });
  }

  kj::Promise<void> extend(ExtendContext context) override {
    const auto params = context.getParams();
    const auto run = runner_.runs().find_live(part_of(params));
    if (!run.ok()) return reply(context, run.status());
    std::vector<std::pair<uint32_t, Bytes>> feeds;
    for (const auto feed : params.getFeeds())
      feeds.emplace_back(feed.getIndex(), bytes_of(feed.getValue()));
    // This is on the path of every step, so it goes to no other thread.
    return reply(context, (*run)->extend(params.getLimit(), feeds));
  }

  kj::Promise<void> hold(HoldContext context) override {
    const auto run = runner_.runs().find_live(part_of(context.getParams()));
    auto outcome = context.getResults().initOutcome();
    if (!run.ok()) {
      write_status(run.status(), outcome.initError());
    } else {
      outcome.initOk().setLimit((*run)->hold());
    }
    return kj::READY_NOW;
  }

  kj::Promise<void> fence(FenceContext context) override {
    const auto run = runner_.runs().find_live(part_of(context.getParams()));
    if (run.ok()) (*run)->fence(context.getParams().getLimit());
    return reply(context, run.status());
  }

  kj::Promise<void> feed(FeedContext context) override {
    const auto params = context.getParams();
    const uint32_t index = params.getIndex();
    return uploaded(
        context, params.getSize(), params.getSha256(),
        [&](const BlobInfo&) { return runner_.runs().find(part_of(params)); },
        [index](HostedRun& run, const Bytes& bytes) -> Status {
          LEAT_ASSIGN_OR_RETURN(const auto live, run.live());
          return live->feed(index, bytes);
        });
  }

  kj::Promise<void> renumber(RenumberContext context) override {
    const auto run = runner_.runs().find_live(part_of(context.getParams()));
    return reply(context,
                 run.ok() ? (*run)->renumber(context.getParams().getStep()) : run.status());
  }

  kj::Promise<void> abort(AbortContext context) override {
    auto there = answered_elsewhere<void>(loop_, "aborting a run");
    runner_.runs().abort(part_of(context.getParams()), read_status(context.getParams().getCause()),
                         there.done);
    return answered(context, kj::mv(there.promise));
  }

  kj::Promise<void> release(ReleaseContext context) override {
    auto there = answered_elsewhere<void>(loop_, "releasing a run");
    runner_.runs().release(part_of(context.getParams()), there.done);
    return answered(context, kj::mv(there.promise));
  }

  kj::Promise<void> describe(DescribeContext context) override {
    const auto run = runner_.runs().find(part_of(context.getParams()));
    auto outcome = context.getResults().initOutcome();
    if (!run.ok()) {
      write_status(run.status(), outcome.initError());
    } else {
      auto state = outcome.initOk();
      state.setTurns((*run)->work().turns);
      // A run that is not connected has turns, but waits for nothing.
      if (const auto live = (*run)->live_or_null()) {
        state.setWaitsFor(live->waits_for());
        state.setProfile(live->profile());
        write_standing(live->standing(), state);
      }
    }
    return kj::READY_NOW;
  }

  kj::Promise<void> record(RecordContext context) override {
    const auto params = context.getParams();
    const auto run = connected_run(runner_, part_of(params));
    if (!run.ok()) return reply(context, run.status());
    if (params.getFirst() >= params.getEnd()) {
      return reply(context, invalid_argument(cat("record: expected turns to record, received [",
                                                 params.getFirst(), ", ", params.getEnd(), ")")));
    }
    run->partition->run().recorder().start(params.getFirst(), params.getEnd());
    return reply(context, Status());
  }

  kj::Promise<void> recorded(RecordedContext context) override {
    const RunPart part = part_of(context.getParams());
    return offered(context, "taking a recording", [&](const auto& done) {
      const auto run = connected_run(runner_, part);
      if (!run.ok()) return done(run.status());
      StepRecording recording;
      recording.partitions.push_back(take_recording(runner_.host(), *run->partition));
      done(write_recording(recording));
    });
  }

  kj::Promise<void> readVariables(ReadVariablesContext context) override {
    return offered(context, "reading variables",
                   [&](auto done) { runner_.data().read_variables(std::move(done)); });
  }

  kj::Promise<void> takeSnapshot(TakeSnapshotContext context) override {
    std::vector<std::string> names;
    for (const auto name : context.getParams().getNames()) names.emplace_back(name.cStr());
    if (const auto run = read_optional(context.getParams().getRun())) {
      const auto step = static_cast<int64_t>(context.getParams().getStep());
      const RunPart part{*run, context.getParams().getPartition()};
      return reply(context, runner_.data().take_snapshot_in_passing(part, step, std::move(names)));
    }
    // Without a run the copy is made on the job's strand, after all allowed steps.
    auto there = answered_elsewhere<void>(loop_, "taking a snapshot");
    runner_.data().take_snapshot(static_cast<int64_t>(context.getParams().getStep()),
                                 std::move(names), there.done);
    return answered(context, kj::mv(there.promise));
  }

  kj::Promise<void> readSnapshot(ReadSnapshotContext context) override {
    return offered(context, "reading a snapshot", [&](auto done) {
      runner_.data().read_snapshot(static_cast<int64_t>(context.getParams().getStep()),
                                   std::move(done));
    });
  }

  kj::Promise<void> writeSnapshot(WriteSnapshotContext context) override {
    const auto params = context.getParams();
    auto there = answered_elsewhere<CheckpointPart>(loop_, "writing a snapshot");
    runner_.data().write_snapshot(static_cast<int64_t>(params.getStep()),
                                  {params.getFolder().cStr(), params.getPart(), params.getParts()},
                                  there.done);
    return there.promise.then([context](Result<CheckpointPart> part) mutable {
      auto outcome = context.getResults().initOutcome();
      if (!part.ok()) return write_status(part.status(), outcome.initError());
      auto out = outcome.initOk();
      out.setBytes(part->bytes);
      out.setSha256(part->sha256);
    });
  }

  kj::Promise<void> writeVariables(WriteVariablesContext context) override {
    const auto params = context.getParams();
    // The number becomes an enum below, so it has to be one of its values.
    if (params.getRestore() > wire::Restore::SOME) {
      return refuse_upload(context, invalid_argument(cat("restore: expected 0 to 3, received ",
                                                         static_cast<int>(params.getRestore()))));
    }
    const auto what = static_cast<Restore>(params.getRestore());
    const auto step = read_optional(params.getStep());
    return receive(context, blob_info(params.getSize(), params.getSha256()),
                   [&loop = loop_, &runner = runner_, what, step](Blob file) {
                     auto there = answered_elsewhere<void>(loop, "writing variables");
                     runner.data().write_variables(std::move(file), what, step, there.done);
                     return kj::mv(there.promise);
                   });
  }

  kj::Promise<void> advance(AdvanceContext context) override {
    const auto params = context.getParams();
    RunnerAssembly to{params.getAssembly(), {}, params.getTask()};
    if (params.getKey().size() != to.key.size()) {
      return reply(context, invalid_argument(cat("advance: key: expected ", to.key.size(),
                                                 " bytes, received ", params.getKey().size())));
    }
    std::copy(params.getKey().begin(), params.getKey().end(), to.key.begin());
    auto there = answered_elsewhere<void>(loop_, "advancing");
    runner_.runs().advance(to, there.done);
    return answered(context, kj::mv(there.promise));
  }

  kj::Promise<void> inspectDataset(InspectDatasetContext context) override {
    const auto params = context.getParams();
    auto there = answered_elsewhere<DatasetReport>(loop_, "inspecting a data set");
    runner_.data().inspect_dataset(read_dataset_files(params.getFiles()),
                                   read_class_check(params.getCheck()), there.done);
    return there.promise.then([context](Result<DatasetReport> report) mutable {
      auto outcome = context.getResults().initOutcome();
      if (!report.ok()) return write_status(report.status(), outcome.initError());
      write_dataset(*report, outcome.initOk());
    });
  }

  kj::Promise<void> arm(ArmContext context) override {
    const auto params = context.getParams();
    if (!runner_.arm) return reply(context, unimplemented("this runner takes no faults"));
    std::vector<ArmedFault> faults;
    for (const auto each : params.getFaults()) {
      // One entry that cannot be read refuses the whole list, so that the list is replaced as a
      // whole.
      const auto fault = parse_chaos_fault(each.getFault().cStr());
      if (!fault.ok()) return reply(context, fault.status());
      faults.push_back({each.getIndex(), *fault, each.getDue()});
    }
    runner_.arm(std::move(faults), std::chrono::milliseconds(params.getRanMs()));
    return reply(context, Status());
  }

  kj::Promise<void> held(HeldContext context) override {
    auto there = answered_elsewhere<Held>(loop_, "telling what is held");
    runner_.data().held(there.done);
    return there.promise.then([context](Result<Held> held) mutable {
      auto outcome = context.getResults().initOutcome();
      if (!held.ok()) return write_status(held.status(), outcome.initError());
      write_held(*held, outcome.initOk());
    });
  }

 private:
  template <typename Context>
  static kj::Promise<void> reply(Context& context, const Status& status) {
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  template <typename Context>
  static kj::Promise<void> answered(Context context, kj::Promise<Status> promise) {
    return promise.then(
        [context](Status status) mutable { answer(status, context.getResults().initOutcome()); });
  }

  // Answers with a file for download, which `read` produces on another thread.
  template <typename Context, typename Read>
  kj::Promise<void> offered(Context context, std::string_view what, const Read& read) {
    struct Described {
      BlobInfo info;
      std::shared_ptr<const Blob> blob;
    };
    auto there = answered_elsewhere<Described>(loop_, what);
    read([done = there.done](Result<Bytes> file) {
      if (!file.ok()) return done(file.status());
      const auto blob = std::make_shared<const Blob>(std::move(*file));
      done(Described{leat::describe(*blob), blob});
    });
    return there.promise.then([context](Result<Described> file) mutable {
      auto outcome = context.getResults().initOutcome();
      if (!file.ok()) return write_status(file.status(), outcome.initError());
      auto blob = outcome.initOk();
      blob.setSize(file->info.size);
      blob.setSha256(kj::arrayPtr(file->info.sha256.data(), file->info.sha256.size()));
      blob.setContent(offer_download(file->blob));
    });
  }

  // Does `work`, which blocks, on the strand of the run that the call names.
  static kj::Promise<Status> work_on(RpcLoop& loop, std::shared_ptr<HostedRun> run,
                                     std::string_view what,
                                     std::function<Status(HostedRun&)> work) {
    auto there = answered_elsewhere<void>(loop, what);
    ControlThreads::Strand& strand = run->strand();
    // The reference is taken before `run` is moved into the work below.
    strand.post(
        [run = std::move(run), work = std::move(work), done = there.done] { done(work(*run)); });
    return kj::mv(there.promise);
  }
  template <typename Context>
  kj::Promise<void> on_strand(Context context, std::string_view what,
                              std::function<Status(HostedRun&)> work) {
    const auto run = runner_.runs().find(part_of(context.getParams()));
    if (!run.ok()) return reply(context, run.status());
    return answered(context, work_on(loop_, *run, what, std::move(work)));
  }

  template <typename Context>
  static kj::Promise<void> refuse_upload(Context& context, const Status& status) {
    write_status(status, context.getResults().initOutcome().initError());
    return kj::READY_NOW;
  }
  // Answers with an upload; `take` gets its blob.
  template <typename Context>
  kj::Promise<void> receive(Context& context, const Result<BlobInfo>& info,
                            std::function<kj::Promise<Status>(Blob)> take) {
    if (!info.ok()) return refuse_upload(context, info.status());
    const UploadLimits limits{.bytes = kMostUploaded, .deadline = kUploadDeadline};
    auto upload =
        receive_upload_elsewhere(*info, limits, budget_, loop_.context().timer, std::move(take));
    if (!upload.ok()) return refuse_upload(context, upload.status());
    context.getResults().initOutcome().setOk(*upload);
    return kj::READY_NOW;
  }
  // The same for a blob of a run. `find` returns the run; `work` blocks.
  template <typename Context, typename Find, typename Work>
  kj::Promise<void> uploaded(Context& context, uint64_t size, capnp::Data::Reader digest,
                             const Find& find, Work work) {
    // The digest and the run are checked before the upload, so that no bytes come in vain.
    const auto info = blob_info(size, digest);
    if (!info.ok()) return refuse_upload(context, info.status());
    const Result<std::shared_ptr<HostedRun>> run = find(*info);
    if (!run.ok()) return refuse_upload(context, run.status());
    return receive(context, info, [&loop = loop_, run = *run, work](Blob blob) {
      const auto bytes = std::make_shared<const Bytes>(std::move(blob));
      return work_on(loop, run, "taking an upload",
                     [bytes, work](HostedRun& run) { return work(run, *bytes); });
    });
  }

  RpcLoop& loop_;
  JobRunner& runner_;
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(kMostUploaded);
};

}  // namespace

wire::Runner::Client make_runner_service(RpcLoop& loop, JobRunner& runner) {
  return kj::heap<RunnerServer>(loop, runner);
}

Status register_runner(RpcClient& master, RpcLoop& loop, JobRunner& runner,
                       std::chrono::nanoseconds deadline) {
  return master.call<wire::Registry>(
      "Registry.registerRunner", deadline, [&loop, &runner](wire::Registry::Client registry) {
        const RunnerConfig& config = runner.config();
        const RunnerAssembly assembly = runner.runs().assembly();
        auto request = registry.registerRunnerRequest();
        RunnerInfo info{config.job,
                        assembly.number,
                        assembly.task,
                        config.incarnation,
                        runner.runs().devices().front().name,
                        runner.memory_bytes(),
                        static_cast<uint32_t>(runner.threads()),
                        runner.unix_address()};
        info.accelerators = runner.accelerators();
        write_runner(info, config.token, request.initInfo());
        request.setRunner(make_runner_service(loop, runner));
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

void tell_of_starved(RpcClient& master, const StarvedInput& starved) {
  // The answer changes nothing.
  (void)master.call<wire::Registry>(
      "Registry.inputStarved", kNews, [&starved](wire::Registry::Client registry) {
        auto request = registry.inputStarvedRequest();
        request.setAssembly(starved.assembly);
        request.setHow(starved.how);
        request.setWaitedMs(static_cast<uint64_t>(starved.waited.count()));
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

void tell_of_failed_device(RpcClient& master, uint64_t assembly, const std::string& how) {
  // The answer changes nothing.
  (void)master.call<wire::Registry>(
      "Registry.deviceFailed", kNews, [assembly, &how](wire::Registry::Client registry) {
        auto request = registry.deviceFailedRequest();
        request.setAssembly(assembly);
        request.setHow(how);
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

}  // namespace leat
