// The head of an encrypted record (session_log.h): it binds the rows of the record to each other.
//
// Each row is encrypted by itself, so an older version of a row could be read as well as the newest
// one. The head has sums over all rows, which each change of a row changes with it, in the same
// transaction. A row counts as a hash of a secret and of what no other version of the row has: the
// salt of its encrypted value (sealed_values.h). The head is encrypted itself, with the secret, so
// only this process can tell which rows fit. Sums of such hashes are a hash of the set (AdHash of
// Bellare and Micciancio, with a key): a change costs no look at the other rows.
//
//   head   secret   │ sum of steps │ sum of the others
//          32 bytes   32 bytes       32 bytes
//
// An older copy of the whole record fits its own head.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/jobs/sqlite.h"
#include "daemon/lasting/record_values.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// A sum of hashes modulo 2^256.
class RowSetSum {
 public:
  void add(const Sha256Digest& hash);
  void subtract(const Sha256Digest& hash);
  bool operator==(const RowSetSum&) const = default;

  static constexpr size_t kBytes = 32;
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), sizeof words_};
  }
  void set(std::string_view bytes);

 private:
  std::array<uint64_t, 4> words_{};  // the lowest one first
};

// Threads: that of the database.
class RecordHead {
 public:
  // The head of an empty record. internal if the system has no random numbers.
  static Result<RecordHead> create();
  // Reads the head of a record. RecordValues::damaged() if it is none, or if the rows of the record
  // are others than those of its last change.
  static Result<RecordHead> open(SqliteDatabase& database, const RecordValues& values);
  // Writes it. REQUIRES: a transaction.
  Status write(SqliteDatabase& database, const RecordValues& values);

  // A request or an outcome of a step, as the database has it.
  void add_step_value(std::string_view sealed) { steps_.add(hash_of("value", salt_of(sealed))); }
  void remove_step_value(std::string_view sealed) {
    steps_.subtract(hash_of("value", salt_of(sealed)));
  }
  void add_applied(uint64_t step);
  // Rows of other tables have changed: write() makes their sum anew.
  void change_others() { others_changed_ = true; }

  // Makes the sum of steps anew of the rows that are there.
  Status sum_steps(SqliteDatabase& database);

  // The part of an encrypted value that no other one has.
  static std::string_view salt_of(std::string_view sealed) { return sealed.substr(0, 32); }

 private:
  Sha256Digest hash_of(std::string_view kind, std::string_view row) const;
  std::string print() const;
  // Nothing if print() has not made the text.
  static std::optional<RecordHead> read(std::string_view text);
  // True if the rows are those of the head.
  Result<bool> fits(SqliteDatabase& database) const;
  Result<RowSetSum> sum_of(SqliteDatabase& database, std::string_view rows) const;

  std::string secret_;
  RowSetSum steps_, others_;
  bool others_changed_ = false;
};

}  // namespace leat
