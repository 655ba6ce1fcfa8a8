#include "daemon/wire/run_messages.h"

#include <algorithm>
#include <span>

#include "daemon/wire/views.h"
#include "daemon/wire/wires.h"
#include "devices/base/text.h"
#include "ops/state/commits.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

// The bytes themselves: they must live until they are written to a message.
capnp::Data::Reader bytes_in(std::span<const uint8_t> bytes) {
  return {bytes.data(), bytes.size()};
}

// The slots of an endpoint are left out: they exist only in the process of their partition.
void write_peer(const Endpoint& peer, wire::Peer::Builder out) {
  out.setTask(peer.task);
  out.setNode(peer.node);
  out.setIncarnation(peer.incarnation);
  out.setDataAddress(peer.data_address);
  out.setMachine(peer.machine);
  out.setUnixAddress(peer.unix_address);
  write_wires(peer.wires, out.initWires(static_cast<unsigned>(peer.wires.size())));
}

Endpoint read_peer(wire::Peer::Reader in) {
  Endpoint peer;
  peer.task = in.getTask();
  peer.node = in.getNode();
  peer.incarnation = in.getIncarnation();
  peer.data_address = in.getDataAddress();
  peer.machine = in.getMachine();
  peer.unix_address = in.getUnixAddress();
  peer.wires = read_wires(in.getWires());
  return peer;
}

// A shape of a data set. Each size must be one that a tensor may have.
Result<Shape> read_shape(capnp::List<int64_t>::Reader dims) {
  std::vector<int64_t> sizes;
  for (const int64_t dim : dims) sizes.push_back(dim);
  if (const auto shape = Shape::checked(sizes)) return *shape;
  return invalid_argument(cat("a shape: received [", join(sizes, ","), "]"));
}

}  // namespace

void write_optional(std::optional<uint64_t> number, wire::OptionalNumber::Builder out) {
  if (number) out.setNumber(*number);
}

std::optional<uint64_t> read_optional(wire::OptionalNumber::Reader in) {
  if (!in.isNumber()) return std::nullopt;
  return in.getNumber();
}

void write_setup(const RunSetup& setup, wire::RunSetup::Builder out) {
  out.setName(setup.options.name);
  out.setSeed(setup.options.seed);
  out.setFirstStep(setup.options.first_step);
  out.setProfile(setup.options.profile);
  out.setEndless(setup.options.endless);
  out.setTrains(setup.options.trains);
  out.setCluster(bytes_in(setup.cluster));
  out.setAssembly(setup.assembly);
  out.setPlanSha256(bytes_in(setup.plan));
  out.setTransport(setup.transport);
  auto peers = out.initPeers(static_cast<unsigned>(setup.peers.size()));
  for (unsigned p = 0; p < peers.size(); ++p) write_peer(setup.peers[p], peers[p]);
  out.setDataRoot(setup.data_root);
}

Result<RunSetup> read_setup(wire::RunSetup::Reader in) {
  RunSetup setup;
  setup.options.name = in.getName();
  setup.options.seed = in.getSeed();
  setup.options.first_step = in.getFirstStep();
  setup.options.profile = in.getProfile();
  setup.options.endless = in.getEndless();
  setup.options.trains = in.getTrains();
  // Checked before the copy, which goes to an array of this size.
  if (in.getCluster().size() != setup.cluster.size()) {
    return invalid_argument(cat("setup: cluster: expected ", setup.cluster.size(),
                                " bytes, received ", in.getCluster().size()));
  }
  std::copy(in.getCluster().begin(), in.getCluster().end(), setup.cluster.begin());
  setup.assembly = in.getAssembly();
  LEAT_ASSIGN_OR_RETURN(setup.plan, read_digest(in.getPlanSha256()));
  // HostedRun checks the rest: only it knows the plan that the numbers must fit.
  setup.transport = in.getTransport();
  for (const auto peer : in.getPeers()) setup.peers.push_back(read_peer(peer));
  setup.data_root = in.getDataRoot();
  return setup;
}

void write_held(const Held& held, wire::Held::Builder out) {
  out.setWhole(held.whole);
  out.setStep(held.step);
  auto rows = out.initRows(static_cast<unsigned>(held.rows.size()));
  for (unsigned r = 0; r < rows.size(); ++r) {
    const std::vector<double>& values = held.rows[r].values;
    rows[r].setStep(held.rows[r].step);
    rows[r].setValues(kj::arrayPtr(values.data(), values.size()));
  }
}

Result<Held> read_held(wire::Held::Reader in) {
  Held held;
  held.whole = in.getWhole();
  held.step = in.getStep();
  for (const auto row : in.getRows()) {
    const auto values = row.getValues();
    // The rows are metrics of steps that the variables contain, so they ascend and end below
    // `step`. The limits bound the memory that a peer can make this process take.
    const bool ascends = held.rows.empty() || held.rows.back().step < row.getStep();
    if (!ascends || row.getStep() >= held.step || held.rows.size() == Commits::kMostRows ||
        values.size() > static_cast<unsigned>(Commits::kMostValues))
      return invalid_argument(cat("what it holds: received a row of step ", row.getStep(), ", of ",
                                  values.size(), " values, below step ", held.step));
    held.rows.push_back({row.getStep(), {}});
    for (const double value : values) held.rows.back().values.push_back(value);
  }
  return held;
}

// An ok failure stays unset, because that is its default.
void write_report(const RunReport& report, wire::RunReport::Builder out) {
  out.setRun(report.part.run);
  out.setPartition(report.part.partition);
  out.setTurns(report.turns);
  out.setFirstRow(report.first_row);
  out.setRowOffset(report.row_offset);
  auto rows = out.initRows(static_cast<unsigned>(report.rows.size()));
  for (unsigned i = 0; i < rows.size(); ++i) {
    const Bytes& row = report.rows[i];
    rows.set(i, kj::arrayPtr(reinterpret_cast<const kj::byte*>(row.data()), row.size()));
  }
  if (!report.failure.ok()) write_status(report.failure, out.initFailure());
  out.setDerived(report.derived);
  out.setInputWaitUs(report.input_wait_us);
  out.setStepsAhead(report.steps_ahead);
}

RunReport read_report(wire::RunReport::Reader in) {
  RunReport report;
  report.part = {in.getRun(), in.getPartition()};
  report.turns = in.getTurns();
  report.first_row = in.getFirstRow();
  report.row_offset = in.getRowOffset();
  for (const auto row : in.getRows()) {
    const auto bytes = std::as_bytes(std::span(row.begin(), row.size()));
    report.rows.emplace_back(bytes.begin(), bytes.end());
    report.bytes += bytes.size();
  }
  if (in.getFailure().getCode() != wire::Status::Code::OK)
    report.failure = read_status(in.getFailure());
  report.derived = in.getDerived();
  report.input_wait_us = in.getInputWaitUs();
  report.steps_ahead = in.getStepsAhead();
  return report;
}

namespace {

unsigned list_size(const auto& items) { return static_cast<unsigned>(items.size()); }

}  // namespace

void write_standing(const RunStanding& standing, wire::RunState::Builder out) {
  const RunSight& sight = standing.sight;
  out.setDoing(static_cast<uint8_t>(sight.state));
  out.setInstruction(sight.instruction);
  out.setTurn(sight.turn);
  out.setTurns(sight.finished);
  out.setAllowed(sight.allowed);
  out.setTiles(sight.tiles);
  out.setUnchangedMs(standing.unchanged_ms);
  out.setNowNs(standing.now_ns);
}

Result<RunStanding> read_standing(wire::RunState::Reader in) {
  if (in.getDoing() > static_cast<uint8_t>(RunSight::State::blocked)) {
    return invalid_argument(cat("state of a run: expected what it does as a number from 0 to 4, ",
                                "received ", static_cast<int>(in.getDoing())));
  }
  RunStanding standing;
  standing.sight = {static_cast<RunSight::State>(in.getDoing()),
                    in.getInstruction(),
                    in.getTurn(),
                    in.getTurns(),
                    in.getAllowed(),
                    in.getTiles()};
  standing.unchanged_ms = in.getUnchangedMs();
  standing.now_ns = in.getNowNs();
  return standing;
}

void write_dataset_files(const DatasetFiles& names, wire::DatasetFiles::Builder out) {
  out.setRoot(names.root);
  out.setFormat(names.format);
  write_texts(names.files, out.initFiles(list_size(names.files)));
  write_texts(names.columns, out.initColumns(list_size(names.columns)));
  out.setWindow(names.window);
  out.setStride(names.stride);
  if (names.element != DType::invalid) out.setElement(std::string(dtype_name(names.element)));
  if (!names.options.empty()) write_texts(names.options, out.initOptions(list_size(names.options)));
}

DatasetFiles read_dataset_files(wire::DatasetFiles::Reader in) {
  DatasetFiles names;
  names.root = in.getRoot();
  names.format = in.getFormat();
  names.files = read_texts(in.getFiles());
  names.columns = read_texts(in.getColumns());
  names.window = in.getWindow();
  names.stride = in.getStride();
  // A type that this build does not know is refused when the files are opened.
  names.element = dtype_from_name(in.getElement().cStr()).value_or(DType::invalid);
  names.options = read_texts(in.getOptions());
  return names;
}

void write_class_check(const ClassCheck& check, wire::ClassCheck::Builder out) {
  out.setColumn(check.column);
  out.setClasses(check.classes);
  out.setIgnores(check.ignore_index.has_value());
  out.setIgnoreIndex(check.ignore_index.value_or(0));
}

ClassCheck read_class_check(wire::ClassCheck::Reader in) {
  ClassCheck check{in.getColumn(), in.getClasses(), {}};
  if (in.getIgnores()) check.ignore_index = in.getIgnoreIndex();
  return check;
}

void write_dataset(const DatasetReport& report, wire::DatasetView::Builder out) {
  const DatasetInfo& info = report.info;
  out.setCount(static_cast<uint64_t>(info.count));
  auto columns = out.initColumns(list_size(info.columns));
  for (unsigned c = 0; c < columns.size(); ++c) {
    const ColumnInfo& column = info.columns[c];
    columns[c].setName(column.name);
    columns[c].setDtype(std::string(dtype_name(column.dtype)));
    auto shape = columns[c].initShape(static_cast<unsigned>(column.shape.rank()));
    for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, column.shape[static_cast<int>(i)]);
  }
  auto first_rows = out.initFirstRows(list_size(info.first_rows));
  for (unsigned f = 0; f < first_rows.size(); ++f) first_rows.set(f, info.first_rows[f]);
  write_texts(report.files, out.initFiles(list_size(report.files)));
  write_texts(report.prints, out.initPrints(list_size(report.prints)));
  if (!report.notes.empty()) write_texts(report.notes, out.initNotes(list_size(report.notes)));
  if (!report.classes.empty())
    write_texts(report.classes, out.initClasses(list_size(report.classes)));
}

Result<DatasetReport> read_dataset(wire::DatasetView::Reader in) {
  DatasetReport report;
  // A count of 2^63 or more becomes negative, and is refused below.
  report.info.count = static_cast<int64_t>(in.getCount());
  for (const auto each : in.getColumns()) {
    // The types are names, so one that this build does not know is found here.
    const auto dtype = dtype_from_name(each.getDtype().cStr());
    if (!dtype) {
      return invalid_argument(cat("a data set: column '", each.getName().cStr(), "' is of type '",
                                  each.getDtype().cStr(), "', which is unknown"));
    }
    ColumnInfo column{each.getName(), *dtype, {}};
    LEAT_ASSIGN_OR_RETURN(column.shape, read_shape(each.getShape()));
    report.info.columns.push_back(std::move(column));
  }
  for (const int64_t row : in.getFirstRows()) {
    const bool first = report.info.first_rows.empty();
    if (row > report.info.count || (first ? row != 0 : row < report.info.first_rows.back())) {
      return invalid_argument(cat("a data set: expected first rows of files that ascend from 0 to ",
                                  report.info.count, ", received ", row));
    }
    report.info.first_rows.push_back(row);
  }
  report.files = read_texts(in.getFiles());
  report.prints = read_texts(in.getPrints());
  report.notes = read_texts(in.getNotes());
  report.classes = read_texts(in.getClasses());
  if (report.info.count > 0 && report.files.size() == report.prints.size()) return report;
  return invalid_argument(cat("a data set: received ", report.info.count, " rows in ",
                              report.files.size(), " files with ", report.prints.size(),
                              " fingerprints"));
}

}  // namespace leat
