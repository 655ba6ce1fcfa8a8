#include "daemon/lasting/session_log.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "daemon/jobs/sqlite.h"
#include "daemon/lasting/state_rows.h"
#include "daemon/lasting/wire_log.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr char kSchema[] = R"sql(
  PRAGMA application_id=1279611731;
  PRAGMA user_version=1;
  CREATE TABLE graph(version INTEGER PRIMARY KEY, ids BLOB, file BLOB, crc INTEGER) STRICT;
  CREATE TABLE callables(id INTEGER PRIMARY KEY, signature BLOB, crc INTEGER,
                         released INTEGER) STRICT;
  CREATE TABLE steps(number INTEGER PRIMARY KEY, request BLOB, request_crc INTEGER,
                     outcome BLOB, outcome_crc INTEGER, applied INTEGER) STRICT;
  CREATE TABLE variables(task TEXT, name TEXT, piece INTEGER, dtype TEXT, dims BLOB, value BLOB,
                         crc INTEGER, PRIMARY KEY(task, name, piece)) STRICT;
  CREATE TABLE homes(resource TEXT PRIMARY KEY, device TEXT) STRICT;
  CREATE TABLE saved(step INTEGER) STRICT;
  INSERT INTO saved VALUES (0);
)sql";
// An encrypted record has these, too: the id of its key, the digest of the saved state, what
// lists_of() tells of the other rows, and the head. Version 2 had no head.
constexpr char kSealedSchema[] = R"sql(
  PRAGMA user_version=3;
  CREATE TABLE seal(key BLOB, state BLOB, lists BLOB, head BLOB) STRICT;
)sql";
// Made with the first client, also in a record of before there was this table.
constexpr char kClients[] =
    "CREATE TABLE IF NOT EXISTS clients(number INTEGER PRIMARY KEY, name TEXT UNIQUE, crc INTEGER) "
    "STRICT";
constexpr std::string_view kApplication = "1279611731";
constexpr std::string_view kVersion = "1", kWithoutHead = "2", kSealedVersion = "3";
// A file that is to take the place of the record has the record's name with this behind it.
constexpr std::string_view kNext = ".next";

// The places of values, see record_values.h.
std::string request_place(uint64_t step) { return place_of({"request", cat(step)}); }
std::string outcome_place(uint64_t step) { return place_of({"outcome", cat(step)}); }
std::string callable_place(uint64_t id) { return place_of({"callable", cat(id)}); }
std::string graph_place(uint64_t version, std::string_view ids) {
  return place_of({"graph", cat(version), ids});
}
constexpr std::string_view kListsPlace = "lists";
// The name under which values are encrypted: none of this version can be read as one of version 2,
// which has no head.
std::string owner_of(const SessionRecord& record) { return place_of({"3", record.job}); }

Result<std::unique_ptr<SqliteDatabase>> open_database(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(auto database, SqliteDatabase::open(path, true));
  LEAT_RETURN_IF_ERROR(database->ask("PRAGMA locking_mode=EXCLUSIVE").status());
  LEAT_RETURN_IF_ERROR(database->ask("PRAGMA journal_mode=WAL").status());
  LEAT_RETURN_IF_ERROR(database->run("PRAGMA synchronous=FULL; PRAGMA cell_size_check=ON"));
  return database;
}

// Moves the write-ahead log into the file.
Status merge(SqliteDatabase& database, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const std::string busy, database.ask("PRAGMA wal_checkpoint(TRUNCATE)"));
  return busy == "0" ? Status() : unavailable(cat("'", path, "' is in use"));
}

const CheckpointKey* newest_key(const SessionRecord& record) {
  return record.keys == nullptr || record.keys->empty() ? nullptr : &record.keys->front();
}

// The graph's version, the number of callables, and a digest of those that were released, so that
// none can be taken away or come back.
Result<std::string> lists_of(SqliteDatabase& database) {
  LEAT_ASSIGN_OR_RETURN(const std::string graph, database.ask("SELECT max(version) FROM graph"));
  LEAT_ASSIGN_OR_RETURN(const std::string callables,
                        database.ask("SELECT count(*) FROM callables"));
  LEAT_ASSIGN_OR_RETURN(const std::string released,
                        database.ask("SELECT group_concat(id) FROM (SELECT id FROM callables "
                                     "WHERE released <> 0 ORDER BY id)"));
  return cat("graph ", graph, " callables ", callables, " released ",
             to_hex(sha256(record_bytes(released))));
}

Status write_lists(SqliteDatabase& database, const RecordValues& values) {
  if (!values.seal()) return {};
  LEAT_ASSIGN_OR_RETURN(const std::string lists, lists_of(database));
  LEAT_ASSIGN_OR_RETURN(const RecordValue value, values.store(kListsPlace, lists));
  LEAT_ASSIGN_OR_RETURN(auto update, database.prepare("UPDATE seal SET lists = ?"));
  return update.bind_blob(1, value.bytes()).run();
}

Status check_lists(SqliteDatabase& database, const RecordValues& values) {
  constexpr std::string_view kSubject = "the graph or the list of callables";
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare("SELECT lists FROM seal"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values.load(kListsPlace, row ? select.bytes(0) : "", 0, kSubject));
  LEAT_ASSIGN_OR_RETURN(const std::string lists, lists_of(database));
  return value.bytes() == lists ? Status() : values.damaged(kSubject);
}

// The checksum of the request is in the row, or in an encrypted record in front of the message.
Result<RecordValue> store_outcome(const RecordValues& values, uint64_t number,
                                  const KeptOutcome& kept) {
  const Packed packed = pack(kept.outcome);
  Bytes whole;
  if (values.seal()) {
    const auto request = std::as_bytes(std::span(&kept.request, 1));
    whole.assign(request.begin(), request.end());
  }
  const auto message = record_bytes(packed.text());
  whole.insert(whole.end(), message.begin(), message.end());
  if (!values.seal()) return RecordValue(std::move(whole));
  return values.store(outcome_place(number), record_text(whole));
}

// How the values of an encrypted record are read.
Result<RecordValues> values_of(const SessionRecord& record, SqliteDatabase& database, bool binds) {
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare("SELECT key FROM seal"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  const auto id = record_bytes(row ? select.bytes(0) : "");
  std::vector<std::string> names;
  if (record.keys != nullptr) {
    for (const CheckpointKey& key : *record.keys) {
      if (std::ranges::equal(key.id(), id))
        return RecordValues(record.path, SealedValues(key, binds ? owner_of(record) : record.job),
                            binds);
      names.push_back(CheckpointKey::text_of(key.id()));
    }
  }
  return failed_precondition(
      cat("'", record.path, "' is encrypted: expected its key ",
          to_hex(std::span(reinterpret_cast<const uint8_t*>(id.data()), id.size())),
          " (checkpoint_key_file), received ", names.empty() ? "none" : join(names, " and ")));
}

}  // namespace

SessionLog::SessionLog(std::unique_ptr<SqliteDatabase> database, RecordValues values,
                       std::optional<RecordHead> head)
    : database_(std::move(database)), values_(std::move(values)), head_(std::move(head)) {}
SessionLog::~SessionLog() = default;

// --- the file ---

Result<std::unique_ptr<SessionLog>> SessionLog::open(const SessionRecord& record) {
  LEAT_ASSIGN_OR_RETURN(auto log, open_unchanged(record));
  const CheckpointKey* const key = newest_key(record);
  const auto& seal = log->values_.seal();
  if (key == nullptr || (seal && seal->key() == key->id() && log->head_)) return log;
  auto encrypted = encrypt(std::move(log), record);
  if (encrypted.ok()) return encrypted;
  remove(cat(record.path, kNext));
  // Room may come, and the session waits for it.
  if (encrypted.status().code() == Code::resource_exhausted)
    return unavailable(encrypted.status().message());
  return encrypted;
}

Result<std::unique_ptr<SessionLog>> SessionLog::open_unchanged(const SessionRecord& record) {
  LEAT_ASSIGN_OR_RETURN(auto database, open_database(record.path));
  LEAT_ASSIGN_OR_RETURN(const std::string application, database->ask("PRAGMA application_id"));
  LEAT_ASSIGN_OR_RETURN(const std::string version, database->ask("PRAGMA user_version"));
  if (application == "0" && version == "0") {
    std::optional<SealedValues> seal;
    std::optional<RecordHead> head;
    if (const CheckpointKey* const key = newest_key(record)) {
      seal.emplace(*key, owner_of(record));
      LEAT_ASSIGN_OR_RETURN(head, RecordHead::create());
    }
    std::unique_ptr<SessionLog> log(new SessionLog(
        std::move(database), RecordValues(record.path, std::move(seal)), std::move(head)));
    LEAT_RETURN_IF_ERROR(log->transact([&] { return log->make_tables(); }));
    return log;
  }
  const bool sealed = version == kSealedVersion || version == kWithoutHead;
  if (application != kApplication || (version != kVersion && !sealed)) {
    return failed_precondition(
        cat("'", record.path, "': expected the record of a session of version ", kVersion, " to ",
            kSealedVersion, ", received application ", application, " version ", version));
  }
  if (version == kVersion) {
    return std::unique_ptr<SessionLog>(
        new SessionLog(std::move(database), RecordValues(record.path, std::nullopt)));
  }
  const bool has_head = version == kSealedVersion;
  LEAT_ASSIGN_OR_RETURN(RecordValues values, values_of(record, *database, has_head));
  std::unique_ptr<SessionLog> log(new SessionLog(std::move(database), std::move(values)));
  LEAT_RETURN_IF_ERROR(check_lists(*log->database_, log->values_));
  LEAT_RETURN_IF_ERROR(log->check_steps());
  if (!has_head) return log;
  LEAT_ASSIGN_OR_RETURN(log->head_, RecordHead::open(*log->database_, log->values_));
  return log;
}

Status SessionLog::make_tables() {
  LEAT_RETURN_IF_ERROR(database_->run(kSchema));
  if (!values_.seal()) return {};
  LEAT_RETURN_IF_ERROR(database_->run(kSealedSchema));
  LEAT_ASSIGN_OR_RETURN(auto insert, database_->prepare("INSERT INTO seal(key) VALUES (?)"));
  LEAT_RETURN_IF_ERROR(insert.bind_blob(1, record_text(values_.seal()->key())).run());
  LEAT_RETURN_IF_ERROR(database_->run(kClients));
  head_->change_others();
  LEAT_RETURN_IF_ERROR(write_lists(*database_, values_));
  return write_state(*database_, values_, {});
}

// The new file has all when it takes the place of the old one, which has no write-ahead log then: a
// crash leaves one or the other. Bytes in the clear stay where the old one was until the disk uses
// the place again.
Result<std::unique_ptr<SessionLog>> SessionLog::encrypt(std::unique_ptr<SessionLog> log,
                                                        const SessionRecord& record) {
  SessionRecord next = record;
  next.path += kNext;
  remove(next.path);
  {
    LEAT_ASSIGN_OR_RETURN(const auto copy, open_unchanged(next));
    LEAT_RETURN_IF_ERROR(copy->transact([&] { return log->copy_to(*copy); }));
    LEAT_RETURN_IF_ERROR(merge(*copy->database_, next.path));
  }
  LEAT_RETURN_IF_ERROR(merge(*log->database_, record.path));
  log.reset();
  LEAT_RETURN_IF_ERROR(real_files().rename(next.path, record.path));
  LEAT_RETURN_IF_ERROR(real_files().sync_directory(directory_of(record.path)));
  return open_unchanged(record);
}

Status SessionLog::copy_to(SessionLog& other) {
  LEAT_ASSIGN_OR_RETURN(const LoggedGraph sent, graph());
  if (sent.version > 0) LEAT_RETURN_IF_ERROR(other.write_graph(sent));
  LEAT_ASSIGN_OR_RETURN(const auto all, callables());
  for (const LoggedCallable& callable : all) {
    LEAT_RETURN_IF_ERROR(other.write_callable(callable.id, callable.signature));
    if (callable.released) LEAT_RETURN_IF_ERROR(other.write_release(callable.id));
  }
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> names, clients());
  if (!names.empty()) LEAT_RETURN_IF_ERROR(other.add_clients(names, names.size()));
  LEAT_ASSIGN_OR_RETURN(const SavedState state, saved());
  LEAT_ASSIGN_OR_RETURN(const StepOutcomes kept, outcomes());
  LEAT_RETURN_IF_ERROR(other.write_rows(state, kept));
  LEAT_ASSIGN_OR_RETURN(const uint64_t last, last_step());
  for (uint64_t number = state.step + 1; number <= last; ++number) {
    // Of a step that has failed, only the outcome is of use.
    if (const auto found = kept.find(number); found != kept.end()) {
      LEAT_RETURN_IF_ERROR(other.write_outcome(number, found->second));
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const auto step, next_step(number - 1));
    if (!step || step->number != number) return values_.damaged(cat("step ", number));
    LEAT_RETURN_IF_ERROR(other.write_step(*step).status());
  }
  return {};
}

void SessionLog::remove(const std::string& path) {
  std::error_code ignored;
  for (const char* end : {"", "-wal", "-shm"}) {
    for (const std::string_view next : {std::string_view(), kNext})
      std::filesystem::remove(cat(path, next, end), ignored);
  }
}

// --- the clients ---

namespace {

int64_t checksum_of_client(int64_t number, std::string_view name) {
  return record_crc(cat(number, " ", name));
}

}  // namespace

Result<std::vector<std::string>> SessionLog::clients() {
  LEAT_ASSIGN_OR_RETURN(
      const std::string tables,
      database_->ask("SELECT count(*) FROM sqlite_master WHERE type='table' AND name='clients'"));
  std::vector<std::string> all;
  if (tables == "0") return all;
  LEAT_ASSIGN_OR_RETURN(
      auto select, database_->prepare("SELECT number, name, crc FROM clients ORDER BY number"));
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return all;
    const std::string_view name = select.bytes(1);
    if (checksum_of_client(select.integer(0), name) != select.integer(2))
      return values_.damaged("a client");
    all.emplace_back(name);
  }
}

Result<std::vector<std::string>> SessionLog::clients_of(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(auto database, open_database(path));
  return SessionLog(std::move(database), RecordValues(path, std::nullopt)).clients();
}

Status SessionLog::add_clients(const std::vector<std::string>& clients, size_t most) {
  return transact([&]() -> Status {
    if (head_) head_->change_others();
    LEAT_RETURN_IF_ERROR(database_->run(kClients));
    LEAT_ASSIGN_OR_RETURN(const std::string last,
                          database_->ask("SELECT coalesce(max(number), 0) FROM clients"));
    int64_t number = std::strtoll(last.c_str(), nullptr, 10);
    for (const std::string& client : clients) {
      LEAT_ASSIGN_OR_RETURN(auto insert,
                            database_->prepare("INSERT OR REPLACE INTO clients VALUES (?, ?, ?)"));
      ++number;
      LEAT_RETURN_IF_ERROR(
          insert.bind(1, number).bind(2, client).bind(3, checksum_of_client(number, client)).run());
    }
    LEAT_ASSIGN_OR_RETURN(auto remove, database_->prepare("DELETE FROM clients WHERE number <= ?"));
    return remove.bind(1, number - static_cast<int64_t>(most)).run();
  });
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
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values_.load(graph_place(graph.version, ids), select.bytes(2),
                                     select.integer(3), "the graph"));
  const auto file = record_bytes(value.bytes());
  graph.file.assign(file.begin(), file.end());
  return graph;
}

Status SessionLog::write_graph(const LoggedGraph& graph) {
  LEAT_ASSIGN_OR_RETURN(auto insert, database_->prepare("INSERT INTO graph VALUES (?, ?, ?, ?)"));
  const std::string_view ids = record_text(std::as_bytes(std::span(graph.input_ids)));
  LEAT_ASSIGN_OR_RETURN(const RecordValue file,
                        values_.store(graph_place(graph.version, ids), record_text(graph.file)));
  return transact([&]() -> Status {
    if (head_) head_->change_others();
    LEAT_RETURN_IF_ERROR(database_->run("DELETE FROM graph"));
    LEAT_RETURN_IF_ERROR(insert.bind(1, static_cast<int64_t>(graph.version))
                             .bind_blob(2, ids)
                             .bind_blob(3, file.bytes())
                             .bind(4, values_.checksum(file.bytes()))
                             .run());
    return write_lists(*database_, values_);
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
    const auto id = static_cast<CallableId>(select.integer(0));
    LEAT_ASSIGN_OR_RETURN(const RecordValue value, values_.load(callable_place(id), select.bytes(1),
                                                                select.integer(2), "a callable"));
    all.push_back({id, unpack_signature(value.bytes()), select.integer(3) != 0});
  }
}

Status SessionLog::write_callable(CallableId id, const Signature& signature) {
  LEAT_ASSIGN_OR_RETURN(auto insert,
                        database_->prepare("INSERT INTO callables VALUES (?, ?, ?, 0)"));
  const Packed packed = pack(signature);
  LEAT_ASSIGN_OR_RETURN(const RecordValue value, values_.store(callable_place(id), packed.text()));
  return transact([&]() -> Status {
    if (head_) head_->change_others();
    LEAT_RETURN_IF_ERROR(insert.bind(1, static_cast<int64_t>(id))
                             .bind_blob(2, value.bytes())
                             .bind(3, values_.checksum(value.bytes()))
                             .run());
    return write_lists(*database_, values_);
  });
}

Status SessionLog::write_release(CallableId id) {
  LEAT_ASSIGN_OR_RETURN(auto update,
                        database_->prepare("UPDATE callables SET released = 1 WHERE id = ?"));
  return transact([&]() -> Status {
    if (head_) head_->change_others();
    LEAT_RETURN_IF_ERROR(update.bind(1, static_cast<int64_t>(id)).run());
    return write_lists(*database_, values_);
  });
}

// --- steps ---

Result<uint64_t> SessionLog::last_step() {
  LEAT_ASSIGN_OR_RETURN(const uint64_t saved, saved_step(*database_));
  LEAT_ASSIGN_OR_RETURN(auto select, database_->prepare("SELECT max(number) FROM steps"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  return std::max(saved, row ? static_cast<uint64_t>(select.integer(0)) : 0);
}

uint32_t SessionLog::checksum_of(const LoggedStep& step) { return record_crc(pack(step).text()); }

// The checksum of a request is that of its value in the clear: other code compares it.
Result<uint32_t> SessionLog::write_step(const LoggedStep& step) {
  const Packed packed = pack(step);
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values_.store(request_place(step.number), packed.text()));
  const int64_t checksum = values_.checksum(packed.text());
  LEAT_RETURN_IF_ERROR(transact([&] { return insert_step(step, value, checksum); }));
  return record_crc(packed.text());
}

Status SessionLog::insert_step(const LoggedStep& step, const RecordValue& request,
                               int64_t checksum) {
  LEAT_ASSIGN_OR_RETURN(
      auto insert,
      database_->prepare(
          "INSERT INTO steps(number, request, request_crc, applied) VALUES (?, ?, ?, ?)"));
  insert.bind(1, static_cast<int64_t>(step.number)).bind_blob(2, request.bytes()).bind(3, checksum);
  if (step.applied) {
    insert.bind(4, int64_t{1});
  } else {
    insert.bind_null(4);
  }
  if (head_) head_->add_step_value(request.bytes());
  if (head_ && step.applied) head_->add_applied(step.number);
  return insert.run();
}

Status SessionLog::write_applied(uint64_t number) {
  // It is in the file when the process ends, and is not worth a wait for the disk.
  LEAT_RETURN_IF_ERROR(database_->run("PRAGMA synchronous=NORMAL"));
  const Status written = transact([&]() -> Status {
    // A step counts once in the head.
    LEAT_ASSIGN_OR_RETURN(auto select, database_->prepare("SELECT number FROM steps WHERE number = "
                                                          "? AND applied IS NULL"));
    LEAT_ASSIGN_OR_RETURN(const bool row, select.bind(1, static_cast<int64_t>(number)).step());
    if (!row) return {};
    LEAT_ASSIGN_OR_RETURN(auto update,
                          database_->prepare("UPDATE steps SET applied = 1 WHERE number = ?"));
    if (head_) head_->add_applied(number);
    return update.bind(1, static_cast<int64_t>(number)).run();
  });
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
  const auto number = static_cast<uint64_t>(select.integer(0));
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values_.load(request_place(number), select.bytes(1), select.integer(2),
                                     cat("step ", number)));
  LEAT_ASSIGN_OR_RETURN(LoggedStep step, unpack_step(value.bytes()));
  step.applied = !select.is_null(3);
  step.request = record_crc(value.bytes());
  return std::optional<LoggedStep>(std::move(step));
}

// Without its request, a step whose outcome is taken away is damaged, and is not repeated.
Status SessionLog::write_failure(uint64_t number, uint32_t request, const Status& error) {
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        store_outcome(values_, number, KeptOutcome{error, request}));
  return transact([&]() -> Status {
    if (head_) {
      LEAT_ASSIGN_OR_RETURN(auto select,
                            database_->prepare("SELECT substr(request, 1, 32) FROM steps "
                                               "WHERE number = ? AND request IS NOT NULL"));
      LEAT_ASSIGN_OR_RETURN(const bool row, select.bind(1, static_cast<int64_t>(number)).step());
      if (!row) return values_.damaged(cat("step ", number));
      head_->remove_step_value(select.bytes(0));
      head_->add_step_value(value.bytes());
    }
    LEAT_ASSIGN_OR_RETURN(auto update,
                          database_->prepare("UPDATE steps SET request = NULL, outcome = ?, "
                                             "outcome_crc = ? WHERE number = ?"));
    return update.bind_blob(1, value.bytes())
        .bind(2, values_.checksum(value.bytes()))
        .bind(3, static_cast<int64_t>(number))
        .run();
  });
}

Status SessionLog::write_outcome(uint64_t number, const KeptOutcome& kept) {
  LEAT_ASSIGN_OR_RETURN(auto insert, database_->prepare("INSERT INTO steps(number, outcome, "
                                                        "outcome_crc, request_crc) "
                                                        "VALUES (?, ?, ?, ?)"));
  LEAT_ASSIGN_OR_RETURN(const RecordValue value, store_outcome(values_, number, kept));
  if (head_) head_->add_step_value(value.bytes());
  return insert.bind(1, static_cast<int64_t>(number))
      .bind_blob(2, value.bytes())
      .bind(3, values_.checksum(value.bytes()))
      .bind(4, values_.seal() ? 0 : int64_t{kept.request})
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
    const auto number = static_cast<uint64_t>(select.integer(0));
    LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                          values_.load(outcome_place(number), select.bytes(1), select.integer(2),
                                       cat("the outcome of step ", number)));
    std::string_view message = value.bytes();
    auto request = static_cast<uint32_t>(select.integer(3));
    if (values_.seal()) {
      std::memcpy(&request, message.data(), sizeof request);
      message.remove_prefix(sizeof request);
    }
    LEAT_ASSIGN_OR_RETURN(StepOutcome outcome, unpack_outcome(message));
    all.insert_or_assign(number, KeptOutcome{std::move(outcome), request});
  }
}

// A step that is not the last one has a row up to the next save, also if it failed.
Status SessionLog::check_steps() {
  LEAT_ASSIGN_OR_RETURN(const uint64_t saved, saved_step(*database_));
  LEAT_ASSIGN_OR_RETURN(
      auto select, database_->prepare("SELECT count(*), max(number) FROM steps WHERE number > ?"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.bind(1, static_cast<int64_t>(saved)).step());
  const auto count = static_cast<uint64_t>(row ? select.integer(0) : 0);
  if (count == 0 || static_cast<uint64_t>(select.integer(1)) == saved + count) return {};
  return values_.damaged(cat("the list of steps behind step ", saved));
}

// --- the state ---

Status SessionLog::transact(const std::function<Status()>& write) {
  if (database_->in_transaction()) return write();
  LEAT_RETURN_IF_ERROR(database_->run("BEGIN"));
  const std::optional<RecordHead> before = head_;
  Status written = write();
  if (written.ok() && head_) written = head_->write(*database_, values_);
  if (written.ok()) written = database_->run("COMMIT");
  if (written.ok()) return written;
  head_ = before;
  // Some errors have rolled it back already.
  if (database_->in_transaction()) (void)database_->run("ROLLBACK");
  return written;
}

Status SessionLog::save(const SavedState& state, const StepOutcomes& outcomes) {
  return transact([&] { return write_rows(state, outcomes); });
}

Status SessionLog::write_rows(const SavedState& state, const StepOutcomes& outcomes) {
  LEAT_ASSIGN_OR_RETURN(auto forget, database_->prepare("DELETE FROM steps WHERE number <= ?"));
  LEAT_RETURN_IF_ERROR(forget.bind(1, static_cast<int64_t>(state.step)).run());
  if (head_) {
    LEAT_RETURN_IF_ERROR(head_->sum_steps(*database_));
    head_->change_others();
  }
  for (const auto& [number, kept] : outcomes) {
    if (number > state.step) continue;  // its row is there
    LEAT_RETURN_IF_ERROR(write_outcome(number, kept));
  }
  return write_state(*database_, values_, state);
}

Result<SavedState> SessionLog::saved() { return read_state(*database_, values_); }

}  // namespace leat
