#include "daemon/wire/views.h"

#include <algorithm>

#include "daemon/jobs/grammar.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

capnp::Text::Reader text(const std::string& from) { return {from.data(), from.size()}; }

template <typename ListBuilder>
void write_texts(const std::vector<std::string>& from, ListBuilder out) {
  for (uint32_t i = 0; i < out.size(); ++i) out.set(i, text(from[i]));
}

std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader list) {
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const auto each : list) out.push_back(to_string(each));
  return out;
}

void write_epoch(const EpochResult& epoch, wire::EpochResult::Builder out) {
  out.setEpoch(epoch.epoch);
  out.setStep(epoch.step);
  out.setLoss(epoch.loss);
  out.setAccuracy(epoch.accuracy);
  out.setValLoss(epoch.val_loss);
  out.setValAccuracy(epoch.val_accuracy);
  out.setSeconds(epoch.seconds);
  out.setSamplesPerSecond(epoch.samples_per_second);
}

EpochResult read_epoch(wire::EpochResult::Reader in) {
  return {in.getEpoch(),   in.getStep(),        in.getLoss(),    in.getAccuracy(),
          in.getValLoss(), in.getValAccuracy(), in.getSeconds(), in.getSamplesPerSecond()};
}

void write_progress(const JobProgress& progress, wire::Progress::Builder out) {
  const ProgressReport& last = progress.last;
  out.setStep(last.step);
  out.setSteps(last.steps);
  out.setEpoch(last.epoch);
  out.setEpochs(last.epochs);
  out.setSamplesPerStep(last.samples_per_step);
  out.setRowsPerEpoch(last.rows_per_epoch);
  out.setRowsPerStep(last.rows_per_step);
  out.setLoss(last.loss);
  out.setAccuracy(last.accuracy);
  out.setValLoss(last.val_loss);
  out.setValAccuracy(last.val_accuracy);
  out.setStepsPerSecond(progress.steps_per_second);
  out.setSamplesPerSecond(progress.samples_per_second);
  out.setEtaSeconds(progress.eta_seconds);
  auto ended = out.initEnded(static_cast<uint32_t>(progress.epochs.size()));
  for (uint32_t i = 0; i < ended.size(); ++i) write_epoch(progress.epochs[i], ended[i]);
  out.setMetricsMissing(last.metrics_missing);
  out.setMetricsChangedUntil(last.metrics_changed_until);
  out.setStepsSkipped(last.steps_skipped);
}

JobProgress read_progress(wire::Progress::Reader in) {
  JobProgress progress;
  ProgressReport& last = progress.last;
  last.step = in.getStep();
  last.steps = in.getSteps();
  last.epoch = in.getEpoch();
  last.epochs = in.getEpochs();
  last.samples_per_step = in.getSamplesPerStep();
  last.rows_per_epoch = in.getRowsPerEpoch();
  last.rows_per_step = in.getRowsPerStep();
  last.loss = in.getLoss();
  last.accuracy = in.getAccuracy();
  last.val_loss = in.getValLoss();
  last.val_accuracy = in.getValAccuracy();
  progress.steps_per_second = in.getStepsPerSecond();
  progress.samples_per_second = in.getSamplesPerSecond();
  progress.eta_seconds = in.getEtaSeconds();
  for (const auto ended : in.getEnded()) progress.epochs.push_back(read_epoch(ended));
  if (!progress.epochs.empty()) last.ended = progress.epochs.back();
  last.metrics_missing = in.getMetricsMissing();
  last.metrics_changed_until = in.getMetricsChangedUntil();
  last.steps_skipped = in.getStepsSkipped();
  return progress;
}

void write_lost(const LostAssembly& lost, wire::LostAssembly::Builder out) {
  out.setNumber(lost.number);
  out.setAssembly(lost.assembly);
  out.setCause(text(lost.cause));
  out.setCulprit(text(lost.culprit));
  out.setFault(text(lost.fault));
  out.setBeganUnixMs(lost.began_ms);
  out.setFailedUnixMs(lost.failed_ms);
  out.setDetectedAfter(lost.detected_after);
  out.setRecoveredAfter(lost.recovered_after);
  out.setStoppedAt(lost.stopped_at);
  out.setWentOnFrom(lost.went_on_from);
  out.setSource(text(std::string(name_of(lost.source))));
}

LostAssembly read_lost(wire::LostAssembly::Reader in) {
  LostAssembly lost;
  lost.number = in.getNumber();
  lost.assembly = in.getAssembly();
  lost.cause = to_string(in.getCause());
  lost.culprit = to_string(in.getCulprit());
  lost.fault = to_string(in.getFault());
  lost.began_ms = in.getBeganUnixMs();
  lost.failed_ms = in.getFailedUnixMs();
  lost.detected_after = in.getDetectedAfter();
  lost.recovered_after = in.getRecoveredAfter();
  lost.stopped_at = in.getStoppedAt();
  lost.went_on_from = in.getWentOnFrom();
  lost.source = goes_on_from_named(to_string(in.getSource()));
  return lost;
}

// The enumerant of `all` with that name.
template <typename State, typename All>
Result<State> state_named(const All& all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](State state) { return name_of(state) == name; });
  if (found != all.end()) return *found;
  return internal_error(cat("state: expected one that this version knows, received '", name, "'"));
}

Status check_job_id(const std::string& id) {
  if (is_job_id(id)) return {};
  return internal_error(
      cat("a job: expected an id of small letters, digits and '-', received ", quoted_start(id)));
}

Status check_worker_name(const std::string& name) {
  if (is_worker_name(name)) return {};
  return internal_error(cat("a worker: expected a name of letters, digits, '-', '_' and '.', ",
                            "received ", quoted_start(name)));
}

}  // namespace

std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

void write_view(const JobView& view, wire::JobView::Builder out) {
  const JobCondition& condition = view.condition;
  const std::string state(name_of(condition.state));
  out.setNumber(view.number);
  out.setId(text(view.id));
  out.setName(text(view.name));
  out.setState(text(state));
  out.setReason(text(condition.reason));
  out.setSinceMs(condition.since_ms);
  out.setSubmittedMs(view.submitted_ms);
  out.setRestarts(condition.restarts);
  out.setAssembly(condition.assembly);
  out.setVersion(view.version);
  out.setNumWorkers(view.num_workers);
  out.setMinWorkers(view.min_workers);
  write_texts(condition.workers, out.initWorkers(static_cast<uint32_t>(condition.workers.size())));
  const JobResult result = parse_result(condition.result);
  out.setWeightsSha256(text(result.weights_sha256));
  out.setShards(result.shards);
  out.setSeed(result.seed);
  out.setCpu(text(result.cpu));
  out.setDependsOnTiming(result.depends_on_timing);
  write_progress(view.progress, out.initProgress());
  out.setLostAssemblies(view.history.count);
  auto history = out.initHistory(static_cast<uint32_t>(view.history.last.size()));
  for (uint32_t i = 0; i < history.size(); ++i) write_lost(view.history.last[i], history[i]);
}

Result<JobView> read_view(wire::JobView::Reader in) {
  JobView view;
  JobCondition& condition = view.condition;
  LEAT_ASSIGN_OR_RETURN(condition.state,
                        state_named<JobState>(kJobStates, to_string(in.getState())));
  view.number = in.getNumber();
  view.id = to_string(in.getId());
  LEAT_RETURN_IF_ERROR(check_job_id(view.id));
  view.name = to_string(in.getName());
  condition.reason = to_string(in.getReason());
  condition.since_ms = in.getSinceMs();
  view.submitted_ms = in.getSubmittedMs();
  condition.restarts = in.getRestarts();
  condition.assembly = in.getAssembly();
  view.version = in.getVersion();
  view.num_workers = in.getNumWorkers();
  view.min_workers = in.getMinWorkers();
  condition.workers = read_texts(in.getWorkers());
  for (const std::string& worker : condition.workers)
    LEAT_RETURN_IF_ERROR(check_worker_name(worker));
  condition.result = print_result({to_string(in.getWeightsSha256()), in.getShards(), in.getSeed(),
                                   to_string(in.getCpu()), in.getDependsOnTiming()});
  view.progress = read_progress(in.getProgress());
  view.history.count = in.getLostAssemblies();
  for (const auto lost : in.getHistory()) view.history.last.push_back(read_lost(lost));
  return view;
}

void write_view(const NodeView& view, wire::NodeView::Builder out) {
  const WorkerInfo& info = view.worker.info;
  const std::string state(name_of(view.worker.state));
  out.setName(text(info.worker.name));
  out.setIncarnation(info.worker.incarnation);
  out.setAddress(text(info.address));
  out.setState(text(state));
  out.setReason(text(view.worker.reason));
  out.setSinceMs(view.worker.since_ms);
  out.setSilentMs(static_cast<uint64_t>(view.worker.silent.count()));
  auto devices = out.initDevices(static_cast<uint32_t>(info.devices.size()));
  for (uint32_t i = 0; i < devices.size(); ++i) {
    devices[i].setKind(text(info.devices[i].kind));
    devices[i].setName(text(info.devices[i].name));
    devices[i].setMemoryBytes(info.devices[i].memory_bytes);
    devices[i].setThreads(info.devices[i].threads);
    devices[i].setDescription(text(info.devices[i].description));
  }
  write_texts(info.datasets, out.initDatasets(static_cast<uint32_t>(info.datasets.size())));
  out.setJob(text(view.job));
  out.setVersion(text(info.version));
}

Result<NodeView> read_view(wire::NodeView::Reader in) {
  constexpr std::array kStates = {WorkerState::ready, WorkerState::draining, WorkerState::stuck,
                                  WorkerState::lost};
  NodeView view;
  WorkerInfo& info = view.worker.info;
  LEAT_ASSIGN_OR_RETURN(view.worker.state,
                        state_named<WorkerState>(kStates, to_string(in.getState())));
  info.worker = {to_string(in.getName()), in.getIncarnation()};
  LEAT_RETURN_IF_ERROR(check_worker_name(info.worker.name));
  info.address = to_string(in.getAddress());
  view.worker.reason = to_string(in.getReason());
  view.worker.since_ms = in.getSinceMs();
  view.worker.silent = std::chrono::milliseconds(
      static_cast<int64_t>(std::min<uint64_t>(in.getSilentMs(), uint64_t{1} << 62)));
  for (const auto device : in.getDevices()) {
    info.devices.push_back({to_string(device.getKind()), to_string(device.getName()),
                            device.getMemoryBytes(), device.getThreads(),
                            to_string(device.getDescription())});
  }
  info.datasets = read_texts(in.getDatasets());
  view.job = to_string(in.getJob());
  if (!view.job.empty()) LEAT_RETURN_IF_ERROR(check_job_id(view.job));
  info.version = to_string(in.getVersion());
  return view;
}

void write_view(const ClusterView& view, wire::ClusterView::Builder out) {
  out.setName(text(view.name));
  out.setClusterId(text(view.id));
  out.setVersion(text(view.version));
  out.setGeneration(view.generation);
  out.setMembership(view.membership);
  out.setStartedMs(view.started_ms);
  out.setNowMs(view.now_ms);
  out.setAddress(text(view.rpc_address));
  out.setHttpAddress(text(view.http_address));
  if (!view.journal.ok()) write_status(view.journal, out.initJournal());
}

Result<ClusterView> read_view(wire::ClusterView::Reader in) {
  ClusterView view;
  view.name = to_string(in.getName());
  view.id = to_string(in.getClusterId());
  view.version = to_string(in.getVersion());
  view.generation = in.getGeneration();
  view.membership = in.getMembership();
  view.started_ms = in.getStartedMs();
  view.now_ms = in.getNowMs();
  view.rpc_address = to_string(in.getAddress());
  view.http_address = to_string(in.getHttpAddress());
  if (in.getJournal().getCode() != wire::Status::Code::OK) {
    view.journal = read_status(in.getJournal());
  }
  return view;
}

void write_view(const LogPage& page, wire::LogPage::Builder out) {
  out.setFirst(page.first);
  auto lines = out.initLines(static_cast<uint32_t>(page.lines.size()));
  for (uint32_t i = 0; i < lines.size(); ++i) {
    lines[i].setAtMs(page.lines[i].at_ms);
    lines[i].setWorker(text(page.lines[i].worker));
    lines[i].setText(text(page.lines[i].text));
  }
  out.setEnd(page.end);
  out.setComplete(page.complete);
}

Result<LogPage> read_view(wire::LogPage::Reader in) {
  LogPage page;
  page.first = in.getFirst();
  page.lines.reserve(in.getLines().size());
  for (const auto line : in.getLines()) {
    page.lines.push_back({line.getAtMs(), to_string(line.getWorker()), to_string(line.getText())});
  }
  page.end = in.getEnd();
  page.complete = in.getComplete();
  if (page.first > page.end || page.lines.size() > page.end - page.first) {
    return internal_error(cat("a page of a log: expected lines below ", page.end, ", received ",
                              page.lines.size(), " from line ", page.first));
  }
  return page;
}

}  // namespace leat
