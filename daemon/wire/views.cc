#include "daemon/wire/views.h"

#include <capnp/dynamic.h>

#include <algorithm>

#include "daemon/jobs/grammar.h"
#include "daemon/jobs/job_facts.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

// The text itself, without a copy: Cap'n Proto copies it into the message.
capnp::Text::Reader text(const std::string& from) { return {from.data(), from.size()}; }

// Returns the enumerator in `all` with that name.
template <typename State, typename All>
Result<State> state_named(const All& all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](State state) { return name_of(state) == name; });
  if (found != all.end()) return *found;
  return internal_error(cat("state: expected one that this version knows, received '", name, "'"));
}

// The ids and names below become parts of paths and commands, so a peer must not send anything
// else.
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

// The name of a fact's field: "weights_sha256" and "Ms" give "weightsSha256Ms".
class FieldName {
 public:
  explicit FieldName(const Fact& fact, std::string_view unit = "") : FieldName(fact.key, unit) {}
  FieldName(std::string_view key, std::string_view unit) {
    bool upper = false;
    // An underscore is left out, and the letter behind it becomes a capital.
    for (const char c : key) {
      if (c != '_') text_ += upper && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = c == '_';
    }
    text_ += unit;
  }
  // The pointer is valid until the end of the expression that has made this object.
  operator kj::StringPtr() const { return {text_.data(), text_.size()}; }  // NOLINT: its purpose

 private:
  std::string text_;
};

// Writes the facts of a job into its message: see daemon/jobs/job_facts.h.
class FactWriter {
 public:
  explicit FactWriter(capnp::DynamicStruct::Builder out) : out_(out) {}

  void count(const Fact& fact, uint64_t value) { out_.set(FieldName(fact), value); }
  // 0 and the empty text stand for an unknown value, in the message as in the view.
  void known(const Fact& fact, uint64_t value) { out_.set(FieldName(fact), value); }
  void known(const Fact& fact, const std::string& value) { text(fact, value); }
  void integer(const Fact& fact, int64_t value) { out_.set(FieldName(fact), value); }
  void option(const Fact& fact, uint64_t value) { out_.set(FieldName(fact), value); }
  void text(const Fact& fact, const std::string& value) {
    out_.set(FieldName(fact), leat::text(value));
  }
  void names(const Fact& fact, const std::vector<std::string>& names) {
    auto list = out_.init(FieldName(fact), static_cast<unsigned>(names.size()))
                    .as<capnp::List<capnp::Text>>();
    write_texts(names, list);
  }
  void flag(const Fact& fact, bool value) { out_.set(FieldName(fact), value); }
  template <typename Enum>
  void choice(const Fact& fact, Enum value) {
    text(fact, std::string(name_of(value)));
  }
  void date(const Fact& fact, int64_t ms) { out_.set(FieldName(fact, "Ms"), ms); }
  void span(const Fact& fact, int64_t ms) { out_.set(FieldName(fact, "Ms"), ms); }
  void steps(const Fact& fact, int64_t steps) { out_.set(FieldName(fact), steps); }
  void number(const Fact& fact, double value) { out_.set(FieldName(fact), value); }
  void rate(const Fact& fact, double value) { out_.set(FieldName(fact), value); }
  void numbers(const Fact& fact, const std::vector<NamedNumber>& all) {
    auto list = out_.init(FieldName(fact), static_cast<unsigned>(all.size()))
                    .as<capnp::List<wire::NamedNumber>>();
    for (unsigned i = 0; i < all.size(); ++i) {
      list[i].setName(leat::text(all[i].name));
      list[i].setValue(all[i].value);
    }
  }
  // The reader computes such a fact again from the others.
  template <typename T>
  void derived(const Fact&, const T&) {}
  // A message has all of its fields, whether the group applies or not.
  template <typename Visit>
  void group(bool, Visit visit) {
    visit();
  }
  // A record is a struct in the message, and a list is a list of structs.
  template <typename Visit>
  void record(std::string_view key, Visit visit) {
    FactWriter below(out_.init(FieldName(key, "")).as<capnp::DynamicStruct>());
    visit(below);
  }
  template <typename T, typename Visit>
  void list(std::string_view key, const std::vector<T>& all, Visit visit) {
    auto list =
        out_.init(FieldName(key, ""), static_cast<unsigned>(all.size())).as<capnp::DynamicList>();
    for (unsigned i = 0; i < all.size(); ++i) {
      FactWriter each(list[i].as<capnp::DynamicStruct>());
      visit(each, all[i]);
    }
  }

 private:
  capnp::DynamicStruct::Builder out_;
};

// Reads the facts of a job from its message. A state that this version does not know is an error;
// other values are not checked.
class FactReader {
 public:
  explicit FactReader(capnp::DynamicStruct::Reader in) : in_(in) {}

  const Status& status() const { return status_; }

  template <typename Integer>
  void count(const Fact& fact, Integer& value) {
    // The number in the message may have more bits than the fact: one that does not fit is an
    // exception, which ends the call.
    value = in_.get(FieldName(fact)).as<Integer>();
  }
  template <typename Integer>
  void known(const Fact& fact, Integer& value) {
    count(fact, value);
  }
  void known(const Fact& fact, std::string& value) { text(fact, value); }
  void integer(const Fact& fact, int64_t& value) { count(fact, value); }
  template <typename Integer>
  void option(const Fact& fact, Integer& value) {
    count(fact, value);
  }
  void text(const Fact& fact, std::string& value) {
    value = to_string(in_.get(FieldName(fact)).as<capnp::Text>());
  }
  // The list belongs to the message, so its texts are copied.
  void names(const Fact& fact, std::vector<std::string>& names) {
    names = read_texts(in_.get(FieldName(fact)).as<capnp::List<capnp::Text>>());
  }
  void flag(const Fact& fact, bool& value) { value = in_.get(FieldName(fact)).as<bool>(); }
  void choice(const Fact& fact, JobState& state) {
    std::string name;
    text(fact, name);
    // A later version may have other states, which this one could not show.
    auto found = state_named<JobState>(kJobStates, name);
    if (found.ok()) {
      state = *found;
    } else {
      status_ = found.status();
    }
  }
  void choice(const Fact& fact, RecoverySource& from) {
    std::string name;
    text(fact, name);
    // An unknown name becomes RecoverySource::unknown, because the source is only shown.
    from = recovery_source_named(name);
  }
  void date(const Fact& fact, int64_t& ms) { ms = in_.get(FieldName(fact, "Ms")).as<int64_t>(); }
  void span(const Fact& fact, int64_t& ms) { date(fact, ms); }
  void steps(const Fact& fact, int64_t& value) { count(fact, value); }
  void number(const Fact& fact, double& value) { value = in_.get(FieldName(fact)).as<double>(); }
  void rate(const Fact& fact, double& value) { number(fact, value); }
  void numbers(const Fact& fact, std::vector<NamedNumber>& all) {
    all.clear();
    for (const auto each : in_.get(FieldName(fact)).as<capnp::List<wire::NamedNumber>>())
      all.push_back({to_string(each.getName()), each.getValue()});
  }
  template <typename T>
  void derived(const Fact&, const T&) {}
  template <typename Visit>
  void group(bool, Visit visit) {
    visit();
  }
  template <typename Visit>
  void record(std::string_view key, Visit visit) {
    FactReader below(in_.get(FieldName(key, "")).as<capnp::DynamicStruct>());
    visit(below);
  }
  template <typename T, typename Visit>
  void list(std::string_view key, std::vector<T>& all, Visit visit) {
    for (const auto item : in_.get(FieldName(key, "")).as<capnp::DynamicList>()) {
      FactReader each(item.as<capnp::DynamicStruct>());
      visit(each, all.emplace_back());
    }
  }

 private:
  capnp::DynamicStruct::Reader in_;
  Status status_;
};

}  // namespace

// A text is read with its length, because lines of a log may contain any bytes, also zeros.
std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

void write_view(const JobView& view, wire::JobView::Builder out) {
  FactWriter writer(capnp::toDynamic(out));
  visit_job(writer, view);
}

Result<JobView> read_view(wire::JobView::Reader in) {
  JobView view;
  FactReader reader(capnp::toDynamic(in));
  visit_job(reader, view);
  LEAT_RETURN_IF_ERROR(reader.status());
  LEAT_RETURN_IF_ERROR(check_job_id(view.id));
  for (const std::string& worker : view.condition.workers)
    LEAT_RETURN_IF_ERROR(check_worker_name(worker));
  // The message has each result once. In a list of jobs it has none.
  if (!view.progress.epochs.empty()) view.progress.last.ended = view.progress.epochs.back();
  return view;
}

std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader list) {
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const auto each : list) out.push_back(to_string(each));
  return out;
}

void write_traffic(const LinkCounters& traffic, wire::Traffic::Builder out) {
  out.setFramesSent(traffic.frames_sent);
  out.setFramesReceived(traffic.frames_received);
  out.setBytesSent(traffic.bytes_sent);
  out.setBytesReceived(traffic.bytes_received);
  out.setValuesSent(traffic.values_sent);
  out.setValuesReceived(traffic.values_received);
  out.setLateValues(traffic.late_values);
  out.setBytesByWire(traffic.bytes_by_wire);
}

LinkCounters read_traffic(wire::Traffic::Reader in) {
  return {in.getFramesSent(), in.getFramesReceived(), in.getBytesSent(),  in.getBytesReceived(),
          in.getValuesSent(), in.getValuesReceived(), in.getLateValues(), in.getBytesByWire()};
}

namespace {

void write_reserved(const ReservedMemory& memory, wire::Reserved::Builder out) {
  out.setVariables(memory.variables);
  out.setActivations(memory.activations);
  out.setConstants(memory.constants);
  out.setTransfers(memory.transfers);
  out.setFetches(memory.fetches);
  out.setData(memory.data);
}

ReservedMemory read_reserved(wire::Reserved::Reader in) {
  return {in.getVariables(), in.getActivations(), in.getConstants(),
          in.getTransfers(), in.getFetches(),     in.getData()};
}

}  // namespace

void write_usage(const WorkerUsage& usage, wire::Usage::Builder out) {
  out.setCpuMs(usage.cpu_ms);
  out.setResidentBytes(usage.resident_bytes);
  write_reserved(usage.host, out.initHost());
  write_reserved(usage.accelerators, out.initAccelerators());
}

WorkerUsage read_usage(wire::Usage::Reader in) {
  return {in.getCpuMs(), in.getResidentBytes(), read_reserved(in.getHost()),
          read_reserved(in.getAccelerators())};
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
  write_texts(view.jobs, out.initJobs(static_cast<uint32_t>(view.jobs.size())));
  out.setVersion(text(info.version));
  out.setProgress(view.worker.progress);
  write_traffic(view.worker.traffic, out.initTraffic());
  out.setMachine(text(info.machine));
  write_usage(view.worker.usage, out.initUsage());
  out.setWaiting(view.worker.waiting);
  out.setStepSeconds(view.worker.step_seconds);
}

Result<NodeView> read_view(wire::NodeView::Reader in) {
  constexpr std::array kStates = {WorkerState::ready, WorkerState::draining, WorkerState::stuck,
                                  WorkerState::lost};
  NodeView view;
  WorkerInfo& info = view.worker.info;
  LEAT_ASSIGN_OR_RETURN(view.worker.state,
                        state_named<WorkerState>(kStates, to_string(in.getState())));
  // The names and ids are checked as they are read. The other texts are only shown, and escaped
  // then.
  info.worker = {to_string(in.getName()), in.getIncarnation()};
  LEAT_RETURN_IF_ERROR(check_worker_name(info.worker.name));
  info.address = to_string(in.getAddress());
  view.worker.reason = to_string(in.getReason());
  view.worker.since_ms = in.getSinceMs();
  // A larger number would become negative.
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
  view.jobs = read_texts(in.getJobs());
  for (const std::string& job : view.jobs) LEAT_RETURN_IF_ERROR(check_job_id(job));
  info.version = to_string(in.getVersion());
  view.worker.progress = in.getProgress();
  view.worker.traffic = read_traffic(in.getTraffic());
  info.machine = to_string(in.getMachine());
  view.worker.usage = read_usage(in.getUsage());
  view.worker.waiting = in.getWaiting();
  view.worker.step_seconds = in.getStepSeconds();
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
  // An unset status has the code ok.
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

void write_view(const Diagnosis& view, wire::Diagnosis::Builder out) {
  out.setKind(view.kind);
  out.setSubject(view.subject);
  out.setSentence(view.sentence);
  write_texts(view.chain, out.initChain(static_cast<uint32_t>(view.chain.size())));
  out.setSeconds(view.seconds);
  out.setAdvice(view.advice);
}

Diagnosis read_view(wire::Diagnosis::Reader in) {
  Diagnosis view;
  view.kind = to_string(in.getKind());
  view.subject = to_string(in.getSubject());
  view.sentence = to_string(in.getSentence());
  for (const auto line : in.getChain()) view.chain.push_back(to_string(line));
  view.seconds = in.getSeconds();
  view.advice = to_string(in.getAdvice());
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
  // The next page is asked for by these numbers, so wrong ones could make a client ask without end.
  if (page.first > page.end || page.lines.size() > page.end - page.first) {
    return internal_error(cat("a page of a log: expected lines below ", page.end, ", received ",
                              page.lines.size(), " from line ", page.first));
  }
  return page;
}

}  // namespace leat
