#include "daemon/wire/run_messages.h"

#include <algorithm>
#include <span>

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
}

Endpoint read_peer(wire::Peer::Reader in) {
  Endpoint peer;
  peer.task = in.getTask();
  peer.node = in.getNode();
  peer.incarnation = in.getIncarnation();
  peer.data_address = in.getDataAddress();
  peer.machine = in.getMachine();
  peer.unix_address = in.getUnixAddress();
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
  out.setRun(report.run);
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
}

RunReport read_report(wire::RunReport::Reader in) {
  RunReport report;
  report.run = in.getRun();
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
  return report;
}

void write_dataset(const DatasetReport& report, wire::DatasetView::Builder out) {
  // The list was made with as many entries as the shape has.
  const auto write_shape = [](const Shape& shape, auto list) {
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, shape[static_cast<int>(i)]);
  };
  const DatasetInfo& info = report.info;
  out.setCount(static_cast<uint64_t>(info.count));
  write_shape(info.record_shape,
              out.initRecordShape(static_cast<unsigned>(info.record_shape.rank())));
  out.setRecordDtype(std::string(dtype_name(info.record_dtype)));
  write_shape(info.label_shape, out.initLabelShape(static_cast<unsigned>(info.label_shape.rank())));
  out.setLabelDtype(std::string(dtype_name(info.label_dtype)));
  out.setFeaturesPrint(report.features_print);
  out.setLabelsPrint(report.labels_print);
}

Result<DatasetReport> read_dataset(wire::DatasetView::Reader in) {
  DatasetReport report;
  // A count of 2^63 or more becomes negative, and is refused below.
  report.info.count = static_cast<int64_t>(in.getCount());
  LEAT_ASSIGN_OR_RETURN(report.info.record_shape, read_shape(in.getRecordShape()));
  LEAT_ASSIGN_OR_RETURN(report.info.label_shape, read_shape(in.getLabelShape()));
  // The types are names, so one that this build does not know is found here.
  const auto record = dtype_from_name(in.getRecordDtype().cStr());
  const auto label = dtype_from_name(in.getLabelDtype().cStr());
  if (report.info.count <= 0 || !record || !label) {
    return invalid_argument(cat("a data set: received ", report.info.count, " records of ",
                                in.getRecordDtype().cStr(), " with labels of ",
                                in.getLabelDtype().cStr()));
  }
  report.info.record_dtype = *record;
  report.info.label_dtype = *label;
  report.features_print = in.getFeaturesPrint().cStr();
  report.labels_print = in.getLabelsPrint().cStr();
  return report;
}

}  // namespace leat
