#include "tests/daemon/remote/scripted_runner.h"

#include <capnp/message.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "daemon/remote/wire_remote_host.h"
#include "daemon/wire/recording_file.h"
#include "daemon/wire/run_messages.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "tests/must.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"

namespace leat::testing {

struct ScriptedRunner::Script {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<std::string, Ending> endings;
  std::map<std::string, Called> called;
  std::vector<std::string> calls;
  std::string waits_for, features_print = "1 byte";
  std::vector<RecordedPartition> recordings{RecordedPartition()};

  // Records a call, and returns how it ends.
  Ending begin(const std::string& method, const std::string& what) {
    Called hook;
    Ending ending = Status();
    {
      const std::lock_guard lock(mutex);
      calls.push_back(what);
      changed.notify_all();
      if (const auto found = called.find(method); found != called.end()) hook = found->second;
      if (const auto found = endings.find(method); found != endings.end()) ending = found->second;
    }
    if (hook) hook();
    return ending;
  }
};

class ScriptedRunner::Server final : public Service<wire::Runner> {
 public:
  Server(RpcLoop& loop, std::shared_ptr<Script> script) : loop_(loop), script_(std::move(script)) {}

 protected:
  kj::Promise<void> prepare(PrepareContext context) override {
    const auto in = context.getParams();
    return uploaded(context, "prepare", cat("prepare ", in.getRun(), " ", in.getPartition()),
                    in.getPlanSize(), in.getPlanSha256());
  }
  kj::Promise<void> connect(ConnectContext context) override {
    const auto in = context.getParams();
    const auto setup = in.getSetup();
    return ended(context, "connect",
                 cat("connect ", in.getRun(), " ", setup.getName().cStr(), " ",
                     setup.getTransport().cStr(), " to ", setup.getPeers().size()));
  }
  kj::Promise<void> extend(ExtendContext context) override {
    const auto in = context.getParams();
    std::string what = cat("extend ", in.getRun(), " ", in.getLimit());
    for (const auto feed : in.getFeeds())
      what += cat(" feed ", feed.getIndex(), " of ", feed.getValue().size());
    return ended(context, "extend", what);
  }
  kj::Promise<void> feed(FeedContext context) override {
    const auto in = context.getParams();
    return uploaded(context, "feed",
                    cat("feed ", in.getRun(), " ", in.getIndex(), " of ", in.getSize()),
                    in.getSize(), in.getSha256());
  }
  kj::Promise<void> renumber(RenumberContext context) override {
    const auto in = context.getParams();
    return ended(context, "renumber", cat("renumber ", in.getRun(), " ", in.getStep()));
  }
  kj::Promise<void> abort(AbortContext context) override {
    const auto in = context.getParams();
    return ended(context, "abort",
                 cat("abort ", in.getRun(), " ", read_status(in.getCause()).to_string()));
  }
  kj::Promise<void> release(ReleaseContext context) override {
    return ended(context, "release", cat("release ", context.getParams().getRun()));
  }
  kj::Promise<void> describe(DescribeContext context) override {
    const auto ending = script_->begin("describe", "describe");
    if (!ending) return kj::NEVER_DONE;
    auto outcome = context.getResults().initOutcome();
    if (!ending->ok()) {
      write_status(*ending, outcome.initError());
    } else {
      const std::lock_guard lock(script_->mutex);
      outcome.initOk().setWaitsFor(script_->waits_for);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> record(RecordContext context) override {
    const auto in = context.getParams();
    return ended(context, "record", cat("record ", in.getFirst(), " to ", in.getEnd()));
  }
  kj::Promise<void> recorded(RecordedContext context) override {
    return offered(context, "recorded", [&] {
      StepRecording recording;
      const std::lock_guard lock(script_->mutex);
      recording.partitions.push_back(script_->recordings.front());
      if (script_->recordings.size() > 1) script_->recordings.erase(script_->recordings.begin());
      return write_recording(recording);
    });
  }
  kj::Promise<void> readVariables(ReadVariablesContext context) override {
    return offered(context, "readVariables", [] { return must(format_safetensors({})); });
  }
  kj::Promise<void> writeVariables(WriteVariablesContext context) override {
    const auto in = context.getParams();
    return uploaded(context, "writeVariables",
                    cat("writeVariables ", static_cast<unsigned>(in.getRestore())), in.getSize(),
                    in.getSha256());
  }
  kj::Promise<void> inspectDataset(InspectDatasetContext context) override {
    const auto in = context.getParams();
    const auto ending =
        script_->begin("inspectDataset", cat("inspectDataset ", in.getFiles().getRoot().cStr(), " ",
                                             in.getFiles().getFiles()[0].cStr()));
    if (!ending) return kj::NEVER_DONE;
    auto outcome = context.getResults().initOutcome();
    if (!ending->ok()) {
      write_status(*ending, outcome.initError());
      return kj::READY_NOW;
    }
    auto out = outcome.initOk();
    const std::lock_guard lock(script_->mutex);
    DatasetReport report;
    report.info.count = 200;
    report.info.columns = {{"features", DType::u8, Shape{1, 8, 8}}, {"labels", DType::u8, {}}};
    report.files = read_dataset_files(in.getFiles()).files;
    report.prints = {script_->features_print, "2 bytes"};
    write_dataset(report, out);
    return kj::READY_NOW;
  }

 private:
  // Offers the blob that `make` returns.
  template <typename Context, typename Make>
  kj::Promise<void> offered(Context& context, const std::string& method, Make make) {
    const auto ending = script_->begin(method, method);
    if (!ending) return kj::NEVER_DONE;
    auto outcome = context.getResults().initOutcome();
    if (!ending->ok()) {
      write_status(*ending, outcome.initError());
      return kj::READY_NOW;
    }
    const auto blob = std::make_shared<const Blob>(make());
    const BlobInfo info = leat::describe(*blob);
    auto out = outcome.initOk();
    out.setSize(info.size);
    out.setSha256({info.sha256.data(), info.sha256.size()});
    out.setContent(offer_download(blob));
    return kj::READY_NOW;
  }
  template <typename Context>
  kj::Promise<void> ended(Context& context, const std::string& method, const std::string& what) {
    const auto ending = script_->begin(method, what);
    if (!ending) return kj::NEVER_DONE;
    answer(*ending, context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  template <typename Context>
  kj::Promise<void> uploaded(Context& context, const std::string& method, const std::string& what,
                             uint64_t size, capnp::Data::Reader sha256) {
    const auto ending = script_->begin(method, what);
    if (!ending) return kj::NEVER_DONE;
    auto outcome = context.getResults().initOutcome();
    if (!ending->ok()) {
      write_status(*ending, outcome.initError());
      return kj::READY_NOW;
    }
    const BlobInfo info{size, must(read_digest(sha256))};
    auto take = [script = script_](Blob) -> kj::Promise<Status> {
      const auto taken = script->begin("upload", "upload");
      if (!taken) return kj::NEVER_DONE;
      return *taken;
    };
    outcome.setOk(must(receive_upload_elsewhere(info, UploadLimits(), budget_,
                                                loop_.context().timer, std::move(take))));
    return kj::READY_NOW;
  }

  RpcLoop& loop_;
  const std::shared_ptr<Script> script_;
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>();
};

ScriptedRunner::ScriptedRunner(RpcLoop& loop, uint32_t task)
    : loop_(loop), script_(std::make_shared<Script>()) {
  RunnerFacts facts;
  facts.node = cat("node-", task);
  facts.job = "small";
  facts.assembly = 1;
  facts.task = task;
  facts.incarnation = 100 + task;
  facts.device_name = cat("job:worker/task:", task, "/cpu:0");
  facts.memory_bytes = uint64_t{1} << 30;
  REQUIRE(loop_.run([&] {
    remote_ =
        make_remote_host(loop_, facts, wire::Runner::Client(kj::heap<Server>(loop_, script_)));
  }));
}

ScriptedRunner::~ScriptedRunner() = default;

void ScriptedRunner::ends(const std::string& method, Ending ending) {
  const std::lock_guard lock(script_->mutex);
  script_->endings[method] = std::move(ending);
}

void ScriptedRunner::when(const std::string& method, Called called) {
  const std::lock_guard lock(script_->mutex);
  script_->called[method] = std::move(called);
}

std::vector<std::string> ScriptedRunner::calls() const {
  const std::lock_guard lock(script_->mutex);
  return script_->calls;
}

size_t ScriptedRunner::await_calls(const std::string& beginning, size_t count) const {
  std::unique_lock lock(script_->mutex);
  size_t found = 0;
  const bool came = script_->changed.wait_for(lock, std::chrono::seconds(30), [&] {
    found = static_cast<size_t>(std::count_if(script_->calls.begin(), script_->calls.end(),
                                              [&](auto& c) { return c.starts_with(beginning); }));
    return found >= count;
  });
  INFO(beginning << ", of " << join(script_->calls, "; "));
  REQUIRE(came);
  return found;
}

Status ScriptedRunner::report(const ScriptedReport& report) {
  Status taken;
  REQUIRE(loop_.run([&] {
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<wire::Registry::ReportParams>().initReports(1);
    list[0].setRun(report.run);
    list[0].setPartition(remote_->facts().task);
    list[0].setTurns(report.turns);
    list[0].setFirstRow(report.first_row);
    list[0].setRowOffset(report.row_offset);
    auto rows = list[0].initRows(static_cast<unsigned>(report.rows.size()));
    for (unsigned r = 0; r < rows.size(); ++r) {
      rows.set(r,
               {reinterpret_cast<const kj::byte*>(report.rows[r].data()), report.rows[r].size()});
    }
    if (!report.failure.ok()) write_status(report.failure, list[0].initFailure());
    list[0].setDerived(report.derived);
    taken = take_reports(*remote_, list.asReader());
  }));
  return taken;
}

void ScriptedRunner::waits_for(const std::string& text) {
  const std::lock_guard lock(script_->mutex);
  script_->waits_for = text;
}

void ScriptedRunner::features_print(const std::string& text) {
  const std::lock_guard lock(script_->mutex);
  script_->features_print = text;
}

void ScriptedRunner::records(std::vector<RecordedPartition> recordings) {
  const std::lock_guard lock(script_->mutex);
  script_->recordings = std::move(recordings);
}

}  // namespace leat::testing
