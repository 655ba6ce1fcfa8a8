#include "daemon/lasting/session_log.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "daemon/jobs/sqlite.h"
#include "daemon/wire/session_messages.h"
#include "daemon/wire/views.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

constexpr char kSchema[] = R"sql(
  PRAGMA application_id=1279611731;
  PRAGMA user_version=1;
  CREATE TABLE graph(version INTEGER PRIMARY KEY, ids BLOB, file BLOB, crc INTEGER) STRICT;
  CREATE TABLE callables(id INTEGER PRIMARY KEY, signature BLOB, crc INTEGER, released INTEGER) STRICT;
  CREATE TABLE steps(number INTEGER PRIMARY KEY, request BLOB, request_crc INTEGER,
                     outcome BLOB, outcome_crc INTEGER, applied INTEGER) STRICT;
  CREATE TABLE variables(task TEXT, name TEXT, piece INTEGER, dtype TEXT, dims BLOB, value BLOB,
                         crc INTEGER, PRIMARY KEY(task, name, piece)) STRICT;
  CREATE TABLE homes(resource TEXT PRIMARY KEY, device TEXT) STRICT;
  CREATE TABLE saved(step INTEGER) STRICT;
  INSERT INTO saved VALUES (0);
)sql";
constexpr std::string_view kApplication = "1279611731";
constexpr std::string_view kVersion = "1";
// A value of more bytes is cut into rows: SQLite takes 1 GB in one.
constexpr size_t kPiece = size_t{64} << 20;
constexpr size_t kMostOutcome = size_t{256} << 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> span_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
int64_t checksum(std::string_view bytes) { return crc32c(span_of(bytes)); }

// A message as bytes, aligned as Cap'n Proto reads them.
class Packed {
 public:
  explicit Packed(capnp::MessageBuilder& message) : words_(capnp::messageToFlatArray(message)) {}
  std::string_view text() const {
    const auto bytes = words_.asBytes();
    return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
  }

 private:
  kj::Array<capnp::word> words_;
};

// Reads a message from a copy. The checksum was compared, so that only this program wrote it.
class Unpacked {
 public:
  explicit Unpacked(std::string_view bytes)
      : words_(kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word))) {
    std::memcpy(words_.begin(), bytes.data(), words_.asBytes().size());
    reader_.emplace(words_, capnp::ReaderOptions{.traversalLimitInWords = words_.size() + 1024});
  }
  template <typename T>
  typename T::Reader root() {
    return reader_->getRoot<T>();
  }

 private:
  kj::Array<capnp::word> words_;
  std::optional<capnp::FlatArrayMessageReader> reader_;
};

Packed pack(const Signature& signature) {
  capnp::MallocMessageBuilder message;
  write_signature(signature, message.initRoot<wire::Signature>());
  return Packed(message);
}

Packed pack(const LoggedStep& step) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::StepRequest>();
  write_order({step.number, step.timeout, step.what}, out);
  out.setAnswered(step.answered);
  auto feeds = out.initFeeds(static_cast<uint32_t>(step.feeds.size()));
  for (uint32_t i = 0; i < feeds.size(); ++i) {
    write_type(step.feeds[i], feeds[i].initType());
    feeds[i].initContent().setBytes(bytes_of(step.feeds[i]));
  }
  return Packed(message);
}

Packed pack(const StepOutcome& outcome) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::LoggedOutcome>();
  size_t bytes = 0;
  if (outcome.ok()) {
    for (const Tensor& value : *outcome) bytes += value.bytes();
  }
  if (bytes > kMostOutcome) {
    const auto error = resource_exhausted(cat("the step was applied; its fetches, ",
                                              human_bytes(bytes), ", were too large to be kept"));
    write_status(error, out.initError());
    return Packed(message);
  }
  if (!outcome.ok()) {
    write_status(outcome.status(), out.initError());
    return Packed(message);
  }
  auto fetches = out.initFetches(static_cast<uint32_t>(outcome->size()));
  for (uint32_t i = 0; i < fetches.size(); ++i) {
    write_type((*outcome)[i], fetches[i].initType());
    fetches[i].setBytes(bytes_of((*outcome)[i]));
  }
  return Packed(message);
}

Result<LoggedStep> unpack_step(std::string_view bytes) {
  Unpacked message(bytes);
  const auto in = message.root<wire::StepRequest>();
  StepOrder order = read_order(in);
  LoggedStep step{order.number, std::move(order.what), order.timeout};
  step.answered = in.getAnswered();
  for (const auto each : in.getFeeds()) {
    LEAT_ASSIGN_OR_RETURN(const TensorType type, read_type(each.getType()));
    LEAT_ASSIGN_OR_RETURN(Tensor feed, make_tensor(type, bytes_of(each.getContent().getBytes())));
    step.feeds.push_back(std::move(feed));
  }
  return step;
}

Result<Tensor> unpack_value(wire::FetchedValue::Reader in) {
  LEAT_ASSIGN_OR_RETURN(const TensorType type, read_type(in.getType()));
  return make_tensor(type, bytes_of(in.getBytes()));
}

// The type of a variable as its row has it; nothing if that is none.
std::optional<TensorType> type_of(std::string_view dtype, std::string_view dims) {
  std::vector<int64_t> sizes(dims.size() / sizeof(int64_t));
  if (!sizes.empty()) std::memcpy(sizes.data(), dims.data(), sizes.size() * sizeof(int64_t));
  const auto type = dtype_from_name(dtype);
  const auto shape = Shape::checked(sizes);
  if (!type || !shape) return std::nullopt;
  return TensorType{*type, *shape};
}

// The outer status is that of reading it.
Result<StepOutcome> unpack_outcome(std::string_view bytes) {
  Unpacked message(bytes);
  const auto in = message.root<wire::LoggedOutcome>();
  if (in.isError()) return StepOutcome(read_status(in.getError()));
  std::vector<Tensor> fetches;
  for (const auto each : in.getFetches()) {
    LEAT_ASSIGN_OR_RETURN(Tensor value, unpack_value(each));
    fetches.push_back(std::move(value));
  }
  return StepOutcome(std::move(fetches));
}

}  // namespace

SessionLog::SessionLog(std::string path, std::unique_ptr<SqliteDatabase> database)
    : path_(std::move(path)), database_(std::move(database)) {}
SessionLog::~SessionLog() = default;

Result<std::unique_ptr<SessionLog>> SessionLog::open(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(auto database, SqliteDatabase::open(path, true));
  LEAT_RETURN_IF_ERROR(database->ask("PRAGMA locking_mode=EXCLUSIVE").status());
  LEAT_RETURN_IF_ERROR(database->ask("PRAGMA journal_mode=WAL").status());
  LEAT_RETURN_IF_ERROR(database->run("PRAGMA synchronous=FULL; PRAGMA cell_size_check=ON"));
  LEAT_ASSIGN_OR_RETURN(const std::string application, database->ask("PRAGMA application_id"));
  LEAT_ASSIGN_OR_RETURN(const std::string version, database->ask("PRAGMA user_version"));
  if (application == "0" && version == "0") {
    LEAT_RETURN_IF_ERROR(database->run(cat("BEGIN;", kSchema, "COMMIT").c_str()));
  } else if (application != kApplication || version != kVersion) {
    return failed_precondition(cat("'", path, "': expected the record of a session of version ",
                                   kVersion, ", received application ", application, " version ",
                                   version));
  }
  return std::unique_ptr<SessionLog>(new SessionLog(path, std::move(database)));
}

Status SessionLog::damaged(std::string_view subject) const {
  return failed_precondition(
      cat("'", path_, "': ", subject, " of the session is damaged on the disk"));
}

void SessionLog::remove(const std::string& path) {
  std::error_code ignored;
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end, ignored);
}

// --- the graph and the callables ---

Result<LoggedGraph> SessionLog::graph() {
  LEAT_ASSIGN_OR_RETURN(auto select,
                        database_->prepare("SELECT version, ids, file, crc FROM graph"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  LoggedGraph graph;
  if (!row) return graph;
  graph.version = static_cast<uint64_t>(select.integer(0));
  const std::string_view ids = select.bytes(1);
  graph.input_ids.resize(ids.size() / sizeof(uint32_t));
  if (!ids.empty())
    std::memcpy(graph.input_ids.data(), ids.data(), graph.input_ids.size() * sizeof(uint32_t));
  const auto file = span_of(select.bytes(2));
  graph.file.assign(file.begin(), file.end());
  if (checksum(text_of(graph.file)) != select.integer(3)) return damaged("the graph");
  return graph;
}

Status SessionLog::write_graph(const LoggedGraph& graph) {
  LEAT_ASSIGN_OR_RETURN(auto insert, database_->prepare("INSERT INTO graph VALUES (?, ?, ?, ?)"));
  const std::string_view file = text_of(graph.file);
  return transact([&]() -> Status {
    LEAT_RETURN_IF_ERROR(database_->run("DELETE FROM graph"));
    return insert.bind(1, static_cast<int64_t>(graph.version))
        .bind_blob(2, text_of(std::as_bytes(std::span(graph.input_ids))))
        .bind_blob(3, file)
        .bind(4, checksum(file))
        .run();
  });
}

Result<std::vector<LoggedCallable>> SessionLog::callables() {
  LEAT_ASSIGN_OR_RETURN(
      auto select,
      database_->prepare("SELECT id, signature, crc, released FROM callables ORDER BY id"));
  std::vector<LoggedCallable> all;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    if (checksum(select.bytes(1)) != select.integer(2)) return damaged("a callable");
    Unpacked message(select.bytes(1));
    all.push_back({static_cast<CallableId>(select.integer(0)),
                   read_signature(message.root<wire::Signature>()), select.integer(3) != 0});
  }
}

Status SessionLog::write_callable(CallableId id, const Signature& signature) {
  LEAT_ASSIGN_OR_RETURN(auto insert,
                        database_->prepare("INSERT INTO callables VALUES (?, ?, ?, 0)"));
  const Packed packed = pack(signature);
  return insert.bind(1, static_cast<int64_t>(id))
      .bind_blob(2, packed.text())
      .bind(3, checksum(packed.text()))
      .run();
}

Status SessionLog::write_release(CallableId id) {
  LEAT_ASSIGN_OR_RETURN(auto update,
                        database_->prepare("UPDATE callables SET released = 1 WHERE id = ?"));
  return update.bind(1, static_cast<int64_t>(id)).run();
}

// --- steps ---

Result<uint64_t> SessionLog::saved_step() {
  LEAT_ASSIGN_OR_RETURN(auto select, database_->prepare("SELECT step FROM saved"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  return row ? static_cast<uint64_t>(select.integer(0)) : 0;
}

Result<uint64_t> SessionLog::last_step() {
  LEAT_ASSIGN_OR_RETURN(const uint64_t saved, saved_step());
  LEAT_ASSIGN_OR_RETURN(auto select, database_->prepare("SELECT max(number) FROM steps"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  return std::max(saved, row ? static_cast<uint64_t>(select.integer(0)) : 0);
}

uint32_t SessionLog::checksum_of(const LoggedStep& step) {
  return static_cast<uint32_t>(checksum(pack(step).text()));
}

Result<uint32_t> SessionLog::write_step(const LoggedStep& step) {
  LEAT_ASSIGN_OR_RETURN(
      auto insert,
      database_->prepare("INSERT INTO steps(number, request, request_crc) VALUES (?, ?, ?)"));
  const Packed packed = pack(step);
  const int64_t sum = checksum(packed.text());
  LEAT_RETURN_IF_ERROR(insert.bind(1, static_cast<int64_t>(step.number))
                           .bind_blob(2, packed.text())
                           .bind(3, sum)
                           .run());
  return static_cast<uint32_t>(sum);
}

Status SessionLog::write_applied(uint64_t number) {
  LEAT_ASSIGN_OR_RETURN(auto update,
                        database_->prepare("UPDATE steps SET applied = 1 WHERE number = ?"));
  // It is in the file when the process ends, and is not worth a wait for the disk.
  LEAT_RETURN_IF_ERROR(database_->run("PRAGMA synchronous=NORMAL"));
  const Status written = update.bind(1, static_cast<int64_t>(number)).run();
  LEAT_RETURN_IF_ERROR(database_->run("PRAGMA synchronous=FULL"));
  return written;
}

Result<std::optional<LoggedStep>> SessionLog::next_step(uint64_t after) {
  LEAT_ASSIGN_OR_RETURN(
      auto select,
      database_->prepare("SELECT number, request, request_crc, applied FROM steps "
                         "WHERE number > ? AND outcome IS NULL ORDER BY number LIMIT 1"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.bind(1, static_cast<int64_t>(after)).step());
  if (!row) return std::optional<LoggedStep>();
  if (checksum(select.bytes(1)) != select.integer(2))
    return damaged(cat("step ", select.integer(0)));
  LEAT_ASSIGN_OR_RETURN(LoggedStep step, unpack_step(select.bytes(1)));
  step.applied = !select.is_null(3);
  step.request = static_cast<uint32_t>(select.integer(2));
  return std::optional<LoggedStep>(std::move(step));
}

Status SessionLog::write_failure(uint64_t number, const Status& error) {
  LEAT_ASSIGN_OR_RETURN(
      auto update,
      database_->prepare("UPDATE steps SET outcome = ?, outcome_crc = ? WHERE number = ?"));
  const Packed packed = pack(StepOutcome(error));
  return update.bind_blob(1, packed.text())
      .bind(2, checksum(packed.text()))
      .bind(3, static_cast<int64_t>(number))
      .run();
}

Result<StepOutcomes> SessionLog::outcomes() {
  LEAT_ASSIGN_OR_RETURN(
      auto select, database_->prepare("SELECT number, outcome, outcome_crc, request_crc FROM steps "
                                      "WHERE outcome IS NOT NULL ORDER BY number"));
  StepOutcomes all;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    if (checksum(select.bytes(1)) != select.integer(2))
      return damaged(cat("the outcome of step ", select.integer(0)));
    LEAT_ASSIGN_OR_RETURN(StepOutcome outcome, unpack_outcome(select.bytes(1)));
    all.insert_or_assign(static_cast<uint64_t>(select.integer(0)),
                         KeptOutcome{std::move(outcome), static_cast<uint32_t>(select.integer(3))});
  }
}

// --- the state ---

Status SessionLog::transact(const std::function<Status()>& write) {
  LEAT_RETURN_IF_ERROR(database_->run("BEGIN"));
  Status written = write();
  if (written.ok()) written = database_->run("COMMIT");
  // Some errors have rolled it back already.
  if (!written.ok() && database_->in_transaction()) (void)database_->run("ROLLBACK");
  return written;
}

Status SessionLog::save(const SavedState& state, const StepOutcomes& outcomes) {
  return transact([&] { return write_rows(state, outcomes); });
}

// The first piece of a value is there also if it is empty, and the type stands beside each.
Status SessionLog::write_variable(const std::string& task, const std::string& name,
                                  const Tensor& value) {
  LEAT_ASSIGN_OR_RETURN(auto insert,
                        database_->prepare("INSERT INTO variables VALUES (?, ?, ?, ?, ?, ?, ?)"));
  const std::string_view bytes(static_cast<const char*>(value.raw()), value.bytes());
  const std::string_view dims = text_of(std::as_bytes(std::span(value.shape().dims())));
  size_t at = 0;
  do {
    const std::string_view piece = bytes.substr(at, kPiece);
    const uint32_t sum = crc32c(span_of(piece), crc32c(span_of(dims)));
    LEAT_RETURN_IF_ERROR(insert.bind(1, task)
                             .bind(2, name)
                             .bind(3, static_cast<int64_t>(at / kPiece))
                             .bind(4, dtype_name(value.dtype()))
                             .bind_blob(5, dims)
                             .bind_blob(6, piece)
                             .bind(7, int64_t{sum})
                             .run());
    at += kPiece;
  } while (at < bytes.size());
  return {};
}

Status SessionLog::write_rows(const SavedState& state, const StepOutcomes& outcomes) {
  LEAT_RETURN_IF_ERROR(database_->run("DELETE FROM variables; DELETE FROM homes"));
  for (const auto& [task, variables] : state.variables) {
    for (const auto& [name, value] : variables)
      LEAT_RETURN_IF_ERROR(write_variable(task, name, value));
  }
  LEAT_ASSIGN_OR_RETURN(auto home, database_->prepare("INSERT INTO homes VALUES (?, ?)"));
  for (const auto& [resource, device] : state.homes)
    LEAT_RETURN_IF_ERROR(home.bind(1, resource).bind(2, device).run());
  LEAT_ASSIGN_OR_RETURN(auto forget, database_->prepare("DELETE FROM steps WHERE number <= ?"));
  LEAT_RETURN_IF_ERROR(forget.bind(1, static_cast<int64_t>(state.step)).run());
  LEAT_ASSIGN_OR_RETURN(
      auto keep, database_->prepare("INSERT INTO steps(number, outcome, outcome_crc, request_crc) "
                                    "VALUES (?, ?, ?, ?)"));
  for (const auto& [number, kept] : outcomes) {
    if (number > state.step) continue;  // its row is there
    const Packed packed = pack(kept.outcome);
    LEAT_RETURN_IF_ERROR(keep.bind(1, static_cast<int64_t>(number))
                             .bind_blob(2, packed.text())
                             .bind(3, checksum(packed.text()))
                             .bind(4, int64_t{kept.request})
                             .run());
  }
  LEAT_ASSIGN_OR_RETURN(auto note, database_->prepare("UPDATE saved SET step = ?"));
  return note.bind(1, static_cast<int64_t>(state.step)).run();
}

Result<SavedState> SessionLog::saved() {
  SavedState state;
  LEAT_ASSIGN_OR_RETURN(state.step, saved_step());
  LEAT_ASSIGN_OR_RETURN(auto homes, database_->prepare("SELECT resource, device FROM homes"));
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, homes.step());
    if (!row) break;
    state.homes.emplace(homes.bytes(0), homes.bytes(1));
  }
  LEAT_ASSIGN_OR_RETURN(auto select,
                        database_->prepare("SELECT task, name, piece, dtype, dims, value, crc "
                                           "FROM variables ORDER BY task, name, piece"));
  Tensor* value = nullptr;
  size_t filled = 0;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    const bool begins = row && select.integer(2) == 0;
    if (value != nullptr && (!row || begins) && filled != value->bytes())
      return damaged("the list of variables");
    if (!row) return state;
    const std::string subject = cat("variable '", select.bytes(1), "' of ", select.bytes(0));
    const std::string_view dims = select.bytes(4), piece = select.bytes(5);
    if (int64_t{crc32c(span_of(piece), crc32c(span_of(dims)))} != select.integer(6))
      return damaged(subject);
    if (begins) {
      const auto type = type_of(select.bytes(3), dims);
      if (!type) return damaged(subject);
      LEAT_ASSIGN_OR_RETURN(Tensor made, Tensor::create(type->dtype, type->shape));
      auto& variables = state.variables[std::string(select.bytes(0))];
      value =
          &variables.insert_or_assign(std::string(select.bytes(1)), std::move(made)).first->second;
      filled = 0;
    }
    if (value == nullptr || piece.size() > value->bytes() - filled) return damaged(subject);
    if (!piece.empty())
      std::memcpy(static_cast<char*>(value->raw()) + filled, piece.data(), piece.size());
    filled += piece.size();
  }
}

}  // namespace leat
