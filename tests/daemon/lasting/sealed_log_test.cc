// Tests the encryption of the record of a lasting session: no value is in its files, and a row that
// was changed, exchanged or taken away is an error.
#include <sqlite3.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "daemon/jobs/sqlite.h"
#include "daemon/lasting/session_log.h"
#include "daemon/lasting/state_rows.h"
#include "daemon/lasting/wire_log.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

std::shared_ptr<const CheckpointKeys> keys_of(const std::vector<std::string>& secrets) {
  return must(make_checkpoint_keys(secrets));
}
std::string secret(char each) { return std::string(32, each); }

Tensor filled(float value) { return Tensor::of<float>(Shape{600}, std::vector<float>(600, value)); }
// Eight equal numbers, as filled() has them in memory.
std::string bytes_of(float value) {
  std::string bytes(8 * sizeof value, '\0');
  for (size_t i = 0; i < 8; ++i) std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  return bytes;
}

LoggedStep step_of(uint64_t number, float value) {
  LoggedStep step;
  step.number = number;
  step.what = Signature{{"x"}, {"y"}, {"train"}, true};
  step.feeds = {filled(value)};
  return step;
}

constexpr float kKept = 8.5f, kFirst = 2.5f, kSecond = 3.5f, kFourth = 1.25f, kSixth = 1.75f;

// A record with each kind of value: a graph, callables, two variables, the outcome of a step before
// the save, and behind it a step that was applied, one that failed, and one that was taken.
void fill(SessionLog& log) {
  must(log.write_graph({1, {0}, std::vector<std::byte>(3'000, std::byte{0x5a})}));
  must(log.write_callable(1, {{"a"}, {}, {"hidden target"}, true}));
  must(log.write_callable(2, {{"b"}, {}, {"u"}, true}));
  must(log.write_release(1));
  for (uint64_t number = 1; number <= 3; ++number) must(log.write_step(step_of(number, kKept)));
  must(log.add_clients({"first", "second"}, 9));
  SavedState state;
  state.step = 3;
  state.variables["job:worker/task:0"] = {{"v", filled(kFirst)}, {"w", filled(kSecond)}};
  state.homes = {{"leat.Variable 'v'", "task:0/cpu:0"}, {"leat.Variable 'w'", "task:0/cpu:0"}};
  StepOutcomes outcomes;
  outcomes.insert_or_assign(
      2, KeptOutcome{StepOutcome(std::vector<Tensor>{filled(kKept)}), 0x12345678});
  must(log.save(state, outcomes));
  must(log.write_step(step_of(4, kFourth)));
  must(log.write_applied(4));
  const uint32_t request = must(log.write_step(step_of(5, kFourth)));
  must(log.write_failure(5, request, invalid_argument("it does not fit")));
  must(log.write_step(step_of(6, kSixth)));
}

// Reads all of it; fails if a value is another one than fill() wrote. Steps may be missing at the
// end.
Status read_all(SessionLog& log) {
  LEAT_ASSIGN_OR_RETURN(const LoggedGraph graph, log.graph());
  CHECK(graph.version == 1);
  CHECK(graph.input_ids == std::vector<uint32_t>{0});
  CHECK(graph.file == std::vector<std::byte>(3'000, std::byte{0x5a}));
  LEAT_ASSIGN_OR_RETURN(const auto callables, log.callables());
  REQUIRE(callables.size() == 2);
  CHECK(callables[0].signature.targets == std::vector<std::string>{"hidden target"});
  CHECK(callables[1].signature.targets == std::vector<std::string>{"u"});
  LEAT_ASSIGN_OR_RETURN(const SavedState state, log.saved());
  CHECK(state.step == 3);
  CHECK(state.homes.size() == 2);
  CHECK(state.variables.at("job:worker/task:0").at("v").identical(filled(kFirst)));
  CHECK(state.variables.at("job:worker/task:0").at("w").identical(filled(kSecond)));
  LEAT_ASSIGN_OR_RETURN(const StepOutcomes outcomes, log.outcomes());
  for (const auto& [number, kept] : outcomes) {
    if (number == 2) {
      CHECK(kept.outcome->at(0).identical(filled(kKept)));
      CHECK(kept.request == 0x12345678);
    } else {
      CHECK(number == 5);
      CHECK(kept.outcome.status().message() == "it does not fit");
      CHECK(kept.request == SessionLog::checksum_of(step_of(5, kFourth)));
    }
  }
  for (uint64_t after = 3; after < 6;) {
    LEAT_ASSIGN_OR_RETURN(const auto step, log.next_step(after));
    if (!step) break;
    after = step->number;
    CHECK((after == 4 || after == 6));
    CHECK(step->feeds[0].identical(filled(after == 4 ? kFourth : kSixth)));
    CHECK(step->request == SessionLog::checksum_of(*step));
  }
  return {};
}

// Goes on behind fill() with values of its own: a graph, a callable, a saved state and steps.
void go_on(SessionLog& log, float value) {
  must(log.write_graph({2, {0}, std::vector<std::byte>(3'000, std::byte(int(value)))}));
  must(log.write_callable(3, {{"a"}, {}, {cat("target ", value)}, true}));
  SavedState state;
  state.step = 6;
  state.variables["job:worker/task:0"] = {{"v", filled(value)}, {"w", filled(value)}};
  state.homes = {{"leat.Variable 'v'", "task:0/cpu:0"}};
  StepOutcomes outcomes;
  outcomes.insert_or_assign(6, KeptOutcome{StepOutcome(std::vector<Tensor>{filled(value)}), 1});
  must(log.save(state, outcomes));
  for (uint64_t number = 7; number <= 9; ++number) must(log.write_step(step_of(number, value)));
  must(log.write_applied(7));
  must(log.add_clients({cat("client ", value)}, 9));
}

// Reads all values, whatever they are.
Status look(const SessionRecord& record) {
  LEAT_ASSIGN_OR_RETURN(const auto log, SessionLog::open(record));
  LEAT_RETURN_IF_ERROR(log->graph().status());
  LEAT_RETURN_IF_ERROR(log->callables().status());
  LEAT_RETURN_IF_ERROR(log->clients().status());
  LEAT_RETURN_IF_ERROR(log->outcomes().status());
  LEAT_ASSIGN_OR_RETURN(const SavedState state, log->saved());
  for (uint64_t after = state.step;;) {
    LEAT_ASSIGN_OR_RETURN(const auto step, log->next_step(after));
    if (!step) return {};
    after = step->number;
  }
}

struct SealedRecord {
  explicit SealedRecord(const std::vector<std::string>& secrets) { use(secrets); }
  void use(const std::vector<std::string>& secrets) { record.keys = keys_of(secrets); }
  Status read() const {
    LEAT_ASSIGN_OR_RETURN(const auto log, SessionLog::open(record));
    return read_all(*log);
  }
  void run(const std::string& sql) const {
    must(must(SqliteDatabase::open(record.path, false))->run(sql.c_str()));
  }
  std::string bytes() const {
    std::ifstream in(record.path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(record.path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // The files of the folder that have these bytes somewhere.
  int files_with(const std::string& wanted) const {
    int count = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder.path())) {
      std::ifstream in(each.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      count += bytes.find(wanted) != std::string::npos ? 1 : 0;
    }
    return count;
  }
  bool has_values() const {
    int found = files_with(std::string(32, '\x5a')) + files_with("hidden target");
    for (const float each : {kKept, kFirst, kSecond, kFourth, kSixth})
      found += files_with(bytes_of(each));
    return found > 0;
  }

  TemporaryDirectory folder;
  SessionRecord record{folder.path() + "/session.db", "session-1"};
};

// While it lives, SQLite opens a record that is to take the place of another one with this limit.
class LimitOfNext {
 public:
  using Set = int (*)(sqlite3* database);
  explicit LimitOfNext(Set set) {
    set_ = set;
    REQUIRE(sqlite3_auto_extension(reinterpret_cast<void (*)()>(&on_open)) == SQLITE_OK);
  }
  ~LimitOfNext() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&on_open)); }
  LimitOfNext(const LimitOfNext&) = delete;
  LimitOfNext& operator=(const LimitOfNext&) = delete;

 private:
  static int on_open(sqlite3* database, char**, const sqlite3_api_routines*) {
    const std::string_view path = sqlite3_db_filename(database, "main");
    return path.ends_with(".next") ? set_(database) : SQLITE_OK;
  }
  static inline Set set_ = nullptr;
};

}  // namespace

TEST_CASE("an encrypted record of a session has no value in its files, and gives all of them") {
  SealedRecord file({secret('k')});
  {
    const auto log = must(SessionLog::open(file.record));
    fill(*log);
    must(read_all(*log));
    CHECK_FALSE(file.has_values());  // also in the write-ahead log
  }
  CHECK_FALSE(file.has_values());
  const auto log = must(SessionLog::open(file.record));
  must(read_all(*log));
  CHECK(must(log->last_step()) == 6);
  CHECK(must(log->next_step(3))->applied);
  CHECK_FALSE(must(log->next_step(4))->applied);
  CHECK(must(log->callables())[0].released);
  // Values that equal each other, or have few bytes, tell nothing by a checksum.
  const std::string sums =
      "SELECT coalesce(sum(request_crc), 0) + coalesce(sum(outcome_crc), 0) + "
      "(SELECT sum(crc) FROM variables) FROM steps";
  const TemporaryDirectory copy;
  std::filesystem::copy_file(file.record.path, copy / "copy.db");
  CHECK(must(must(SqliteDatabase::open(copy / "copy.db", false))->ask(sums)) == "0");
}

TEST_CASE("a record in the clear is encrypted when there is a key, and again with the next one") {
  SealedRecord file({});
  fill(*must(SessionLog::open(file.record)));
  CHECK(file.has_values());
  must(file.read());
  file.use({secret('a')});
  must(file.read());
  CHECK_FALSE(file.has_values());
  // The next key reads it with the one before beside it once, and alone from then on.
  file.use({secret('b')});
  const Status lacking = file.read();
  CHECK(lacking.code() == Code::failed_precondition);
  CHECK_THAT(lacking.message(), Catch::Contains("session.db' is encrypted: expected its key"));
  file.use({secret('b'), secret('a')});
  must(file.read());
  file.use({secret('b')});
  // The clients are in the clear: a master that starts again asks for them without a key.
  const std::vector<std::string> clients{"first", "second"};
  CHECK(must(SessionLog::clients_of(file.record.path)) == clients);
  const auto log = must(SessionLog::open(file.record));
  must(read_all(*log));
  CHECK(must(log->last_step()) == 6);
  CHECK(must(log->next_step(3))->applied);
  CHECK(must(log->callables())[0].released);
  CHECK_FALSE(must(log->callables())[1].released);
  CHECK(must(log->clients()) == clients);
  // It goes on, and only the record is in the folder.
  must(log->write_step(step_of(7, kKept)));
  CHECK_FALSE(file.has_values());
  CHECK_FALSE(std::filesystem::exists(file.record.path + ".next"));
}

TEST_CASE(
    "a record that finds no room to be encrypted waits, and one with a row too large does not") {
  SealedRecord file({});
  fill(*must(SessionLog::open(file.record)));
  const std::string good = file.bytes();
  file.use({secret('a')});
  {
    const LimitOfNext few_pages([](sqlite3* database) {
      return sqlite3_exec(database, "PRAGMA max_page_count=12", nullptr, nullptr, nullptr);
    });
    const Status full = file.read();
    CHECK(full.code() == Code::unavailable);
    CHECK_THAT(full.message(), Catch::Contains("session.db.next': database or disk is full"));
  }
  {
    const LimitOfNext short_rows([](sqlite3* database) {
      sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 2'000);
      return SQLITE_OK;
    });
    const Status large = file.read();
    CHECK(large.code() == Code::invalid_argument);
    CHECK_THAT(large.message(), Catch::Contains("session.db.next': string or blob too big"));
  }
  CHECK(file.bytes() == good);
  CHECK_FALSE(std::filesystem::exists(file.record.path + ".next"));
  must(file.read());
  CHECK_FALSE(file.has_values());
}

TEST_CASE("a record that a crash left half encrypted is as it was, and is encrypted again") {
  SealedRecord file({});
  fill(*must(SessionLog::open(file.record)));
  std::ofstream(file.record.path + ".next") << "the beginning of the new one";
  std::ofstream(file.record.path + ".next-wal") << "and of its write-ahead log";
  file.use({secret('a')});
  must(file.read());
  CHECK_FALSE(file.has_values());
  CHECK_FALSE(std::filesystem::exists(file.record.path + ".next"));
  std::ofstream(file.record.path + ".next") << "once more";
  SessionLog::remove(file.record.path);
  CHECK(std::filesystem::is_empty(file.folder.path()));
}

TEST_CASE("an encrypted record is not read without its key, or as that of another session") {
  SealedRecord file({secret('k')});
  fill(*must(SessionLog::open(file.record)));
  const std::string good = file.bytes();
  file.use({});
  CHECK_THAT(file.read().message(), Catch::Contains("(checkpoint_key_file), received none"));
  file.use({secret('o')});
  CHECK_THAT(file.read().message(), Catch::Contains("is encrypted: expected its key"));
  CHECK(file.bytes() == good);
  file.use({secret('k')});
  file.record.job = "session-2";
  CHECK_THAT(file.read().message(), Catch::Contains("expected it as it was encrypted"));
}

TEST_CASE("a row of an encrypted record that is exchanged, forged or taken away is refused") {
  SealedRecord file({secret('k')});
  fill(*must(SessionLog::open(file.record)));
  const std::string good = file.bytes();
  SealedRecord other({secret('k')});
  other.record.job = "session-2";
  fill(*must(SessionLog::open(other.record)));
  const std::string exchange =
      "UPDATE steps SET number = -number WHERE number IN (4, 6);"
      "UPDATE steps SET number = 10 + number WHERE number < 0";
  for (const std::string& attack : {
           std::string("UPDATE variables SET name = 'x' WHERE name = 'v';"
                       "UPDATE variables SET name = 'v' WHERE name = 'w';"
                       "UPDATE variables SET name = 'w' WHERE name = 'x'"),
           std::string(
               "UPDATE variables SET value = (SELECT value FROM variables WHERE name = 'w')"),
           std::string("UPDATE variables SET dtype = 'i32'"),
           std::string("UPDATE variables SET dims = zeroblob(8)"),
           std::string("UPDATE variables SET value = zeroblob(length(value))"),
           std::string("UPDATE variables SET value = substr(value, 1, 1000) WHERE name = 'v'"),
           std::string("UPDATE variables SET task = 'job:worker/task:1' WHERE name = 'v'"),
           std::string("DELETE FROM variables WHERE name = 'v'"),
           std::string("DELETE FROM variables"),
           std::string("DELETE FROM homes WHERE resource = 'leat.Variable ''w'''"),
           std::string("UPDATE homes SET device = 'task:1/cpu:0'"),
           std::string("UPDATE saved SET step = 4"),
           std::string("UPDATE saved SET step = 2"),
           std::string("UPDATE seal SET state = NULL"),
           std::string("UPDATE seal SET lists = state"),
           std::string("UPDATE seal SET key = zeroblob(8)"),
           std::string("DELETE FROM seal"),
           std::string("DELETE FROM graph"),
           std::string("UPDATE graph SET version = 2"),
           std::string("UPDATE graph SET ids = x'05000000'"),
           std::string("DELETE FROM callables WHERE id = 2"),
           std::string("UPDATE callables SET id = 3 WHERE id = 1"),
           std::string("UPDATE callables SET signature = (SELECT signature FROM callables "
                       "WHERE id = 2) WHERE id = 1"),
           std::string("UPDATE callables SET released = 0 WHERE id = 1"),
           std::string("UPDATE callables SET released = 1 WHERE id = 2"),
           std::string("UPDATE callables SET released = 1 - released"),
           std::string("DELETE FROM steps WHERE number = 2"),
           std::string("UPDATE steps SET outcome = NULL WHERE number = 2"),
           std::string("DELETE FROM steps WHERE number = 4"),
           std::string("DELETE FROM steps WHERE number = 5"),
           std::string("UPDATE steps SET outcome = NULL WHERE number = 5"),
           std::string("UPDATE steps SET request = NULL WHERE number = 4"),
           std::string("UPDATE steps SET request = (SELECT request FROM steps WHERE number = 6) "
                       "WHERE number = 4"),
           std::string("UPDATE steps SET outcome = (SELECT outcome FROM steps WHERE number = 2) "
                       "WHERE number = 4"),
           std::string("UPDATE steps SET outcome = request WHERE number = 5"),
           std::string("PRAGMA user_version=1"),
           exchange,
           cat("ATTACH '", other.record.path, "' AS other;",
               "UPDATE steps SET request = (SELECT request FROM other.steps WHERE number = 4) "
               "WHERE number = 4"),
           cat("ATTACH '", other.record.path, "' AS other;",
               "UPDATE variables SET value = (SELECT value FROM other.variables o "
               "WHERE o.name = variables.name)"),
       }) {
    INFO(attack);
    file.write(good);
    must(file.read());
    file.run(attack);
    const Status refused = file.read();
    CHECK(refused.code() == Code::failed_precondition);
    CHECK_THAT(refused.message(), Catch::Contains("session.db'"));
  }
}

TEST_CASE("an older version of a row, or one of another history, is refused in its place") {
  SealedRecord file({secret('k')});
  fill(*must(SessionLog::open(file.record)));
  // Another history of the same session: of a copy that went on by itself.
  SessionRecord other = file.record, before = file.record;
  other.path = file.folder.path() + "/other.db";
  before.path = file.folder.path() + "/before.db";
  std::filesystem::copy_file(file.record.path, other.path);
  go_on(*must(SessionLog::open(other)), 4.75f);
  go_on(*must(SessionLog::open(file.record)), 2.25f);
  std::filesystem::copy_file(file.record.path, before.path);
  {
    const auto log = must(SessionLog::open(file.record));
    must(log->write_release(3));
    must(log->write_failure(8, 1, cancelled("its client cancelled it")));
  }
  must(look(other));
  must(look(before));
  const std::string good = file.bytes();
  const std::string attach =
      cat("ATTACH '", other.path, "' AS other; ATTACH '", before.path, "' AS before;");
  for (const std::string& attack : {
           std::string("DELETE FROM steps WHERE number = 8;"
                       "INSERT INTO steps SELECT * FROM before.steps WHERE number = 8"),
           std::string("UPDATE callables SET released = 0 WHERE id = 3;"
                       "UPDATE seal SET lists = (SELECT lists FROM before.seal)"),
           std::string("UPDATE steps SET request = (SELECT request FROM other.steps o "
                       "WHERE o.number = steps.number) WHERE number = 7"),
           std::string("UPDATE steps SET request = (SELECT request FROM other.steps o "
                       "WHERE o.number = steps.number) WHERE number = 9"),
           std::string("UPDATE steps SET outcome = (SELECT outcome FROM other.steps o "
                       "WHERE o.number = steps.number) WHERE number = 6"),
           std::string("UPDATE graph SET file = (SELECT file FROM other.graph)"),
           std::string("UPDATE callables SET signature = (SELECT signature FROM other.callables o "
                       "WHERE o.id = callables.id) WHERE id = 3"),
           std::string("UPDATE variables SET value = (SELECT value FROM other.variables o "
                       "WHERE o.name = variables.name) WHERE name = 'w'"),
           std::string("UPDATE variables SET value = (SELECT value FROM other.variables o "
                       "WHERE o.name = variables.name);"
                       "UPDATE seal SET state = (SELECT state FROM other.seal)"),
           std::string("UPDATE seal SET head = (SELECT head FROM other.seal)"),
           std::string("UPDATE seal SET head = (SELECT head FROM before.seal)"),
           std::string("UPDATE seal SET head = NULL"),
           std::string("DELETE FROM steps WHERE number = 9"),
           std::string("DELETE FROM steps WHERE number >= 8"),
           std::string("UPDATE steps SET applied = NULL WHERE number = 7"),
           std::string("UPDATE steps SET applied = 1 WHERE number = 9"),
           std::string("DELETE FROM clients WHERE name = 'client 2.25'"),
           std::string("DELETE FROM clients; INSERT INTO clients SELECT * FROM other.clients"),
           std::string("PRAGMA user_version=2"),
       }) {
    INFO(attack);
    file.write(good);
    must(look(file.record));
    file.run(attach + attack);
    const Status refused = look(file.record);
    CHECK(refused.code() == Code::failed_precondition);
    CHECK_THAT(refused.message(), Catch::Contains("session.db'"));
  }
}

TEST_CASE("an encrypted record of before there was a head is read, and gets one") {
  SealedRecord file({secret('k')});
  SavedState state;
  state.step = 3;
  state.variables["job:worker/task:0"] = {{"v", filled(kFirst)}};
  {
    const auto database = must(SqliteDatabase::open(file.record.path, true));
    must(database->run(
        "PRAGMA application_id=1279611731; PRAGMA user_version=2;"
        "CREATE TABLE graph(version INTEGER PRIMARY KEY, ids BLOB, file BLOB, crc INTEGER) STRICT;"
        "CREATE TABLE callables(id INTEGER PRIMARY KEY, signature BLOB, crc INTEGER, "
        "released INTEGER) STRICT;"
        "CREATE TABLE steps(number INTEGER PRIMARY KEY, request BLOB, request_crc INTEGER, "
        "outcome BLOB, outcome_crc INTEGER, applied INTEGER) STRICT;"
        "CREATE TABLE variables(task TEXT, name TEXT, piece INTEGER, dtype TEXT, dims BLOB, "
        "value BLOB, crc INTEGER, PRIMARY KEY(task, name, piece)) STRICT;"
        "CREATE TABLE homes(resource TEXT PRIMARY KEY, device TEXT) STRICT;"
        "CREATE TABLE saved(step INTEGER) STRICT; INSERT INTO saved VALUES (0);"
        "CREATE TABLE seal(key BLOB, state BLOB, lists BLOB) STRICT"));
    const CheckpointKey& key = file.record.keys->front();
    const RecordValues values(file.record.path, SealedValues(key, file.record.job), false);
    const RecordValue lists =
        must(values.store("lists", cat("graph  callables 0 released ", to_hex(sha256({})))));
    auto seal = must(database->prepare("INSERT INTO seal VALUES (?, NULL, ?)"));
    must(seal.bind_blob(1, record_text(key.id())).bind_blob(2, lists.bytes()).run());
    must(write_state(*database, values, state));
    const RecordValue request =
        must(values.store(place_of({"request", "4"}), pack(step_of(4, kFourth)).text()));
    auto step = must(database->prepare("INSERT INTO steps VALUES (4, ?, 0, NULL, NULL, NULL)"));
    must(step.bind_blob(1, request.bytes()).run());
  }
  const auto reads = [&] {
    const auto log = must(SessionLog::open(file.record));
    const SavedState saved = must(log->saved());
    CHECK(saved.step == 3);
    CHECK(saved.variables.at("job:worker/task:0").at("v").identical(filled(kFirst)));
    CHECK(must(log->next_step(3))->feeds[0].identical(filled(kFourth)));
  };
  reads();
  reads();
  // From then on its rows are bound, and it is not taken for one of before.
  const std::string good = file.bytes();
  file.run("DELETE FROM steps");
  CHECK_THAT(look(file.record).message(), Catch::Contains("the set of rows"));
  file.write(good);
  file.run("PRAGMA user_version=2");
  CHECK_THAT(look(file.record).message(), Catch::Contains("expected it as it was encrypted"));
}

TEST_CASE("a flip of any byte of an encrypted record is refused, or changes no value") {
  SealedRecord file({secret('k')});
  fill(*must(SessionLog::open(file.record)));
  file.run("VACUUM");  // so no page is of rows that were deleted
  const std::string good = file.bytes();
  size_t refused = 0, tried = 0;
  for (size_t at = 0; at < good.size(); at += 149, ++tried) {
    INFO(at);
    std::string bad = good;
    bad[at] ^= 64;
    file.write(bad);
    const Status status = file.read();  // which compares each value that it reads
    refused += status.ok() ? 0 : 1;
    if (!status.ok()) CHECK_THAT(status.message(), Catch::Contains("session.db'"));
    SessionLog::remove(file.record.path);
  }
  // The values are a third of the file; most of the rest are pages of small tables.
  CHECK(4 * refused > tried);
}

}  // namespace leat
