#include "daemon/lasting/record_head.h"

#include <sys/random.h>

#include <cstring>

#include "daemon/checkpoint/sealed_values.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr std::string_view kHeadPlace = "head";

// The rows that count, each with its kind. The state and the lists in `seal` stand for the rows of
// variables and homes and for the step of the saved state.
constexpr std::string_view kSteps =
    "SELECT 'value', substr(request, 1, 32) FROM steps WHERE request IS NOT NULL "
    "UNION ALL SELECT 'value', substr(outcome, 1, 32) FROM steps WHERE outcome IS NOT NULL "
    "UNION ALL SELECT 'applied', number FROM steps WHERE applied IS NOT NULL";
constexpr std::string_view kOthers =
    "SELECT 'value', substr(file, 1, 32) FROM graph "
    "UNION ALL SELECT 'value', substr(signature, 1, 32) FROM callables "
    "UNION ALL SELECT 'released', id FROM callables WHERE released <> 0 "
    "UNION ALL SELECT 'value', substr(state, 1, 32) FROM seal "
    "UNION ALL SELECT 'value', substr(lists, 1, 32) FROM seal "
    "UNION ALL SELECT 'client', number || ' ' || name FROM clients";

std::array<uint64_t, 4> words_of(const Sha256Digest& hash) {
  std::array<uint64_t, 4> words;
  static_assert(sizeof words == sizeof hash);
  std::memcpy(words.data(), hash.data(), sizeof words);
  return words;
}

}  // namespace

void RowSetSum::add(const Sha256Digest& hash) {
  const auto more = words_of(hash);
  uint64_t carry = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t sum = words_[i] + more[i];
    const uint64_t with = sum + carry;
    carry = (sum < more[i] ? 1 : 0) + (with < sum ? 1 : 0);
    words_[i] = with;
  }
}

void RowSetSum::subtract(const Sha256Digest& hash) {
  const auto less = words_of(hash);
  uint64_t borrow = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t difference = words_[i] - less[i];
    const uint64_t with = difference - borrow;
    borrow = (words_[i] < less[i] ? 1 : 0) + (difference < borrow ? 1 : 0);
    words_[i] = with;
  }
}

void RowSetSum::set(std::string_view bytes) {
  std::memcpy(words_.data(), bytes.data(), std::min(bytes.size(), sizeof words_));
}

Result<RecordHead> RecordHead::create() {
  RecordHead head;
  head.secret_.resize(kSecretBytes);
  if (::getrandom(head.secret_.data(), kSecretBytes, 0) != static_cast<ssize_t>(kSecretBytes))
    return internal_error("random numbers: expected 32 bytes of the system");
  return head;
}

std::optional<RecordHead> RecordHead::read(std::string_view text) {
  if (text.size() != kSecretBytes + 2 * RowSetSum::kBytes) return std::nullopt;
  RecordHead head;
  head.secret_ = text.substr(0, kSecretBytes);
  head.steps_.set(text.substr(kSecretBytes, RowSetSum::kBytes));
  head.others_.set(text.substr(kSecretBytes + RowSetSum::kBytes));
  return head;
}

std::string RecordHead::print() const { return cat(secret_, steps_.bytes(), others_.bytes()); }

Sha256Digest RecordHead::hash_of(std::string_view kind, std::string_view row) const {
  Sha256 hash;
  hash.update(secret_);
  hash.update(place_of({kind, row}));
  return hash.finish();
}

void RecordHead::add_applied(uint64_t step) { steps_.add(hash_of("applied", cat(step))); }

Result<RowSetSum> RecordHead::sum_of(SqliteDatabase& database, std::string_view rows) const {
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare(rows));
  RowSetSum sum;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return sum;
    sum.add(hash_of(select.bytes(0), select.bytes(1)));
  }
}

Status RecordHead::sum_steps(SqliteDatabase& database) {
  LEAT_ASSIGN_OR_RETURN(steps_, sum_of(database, kSteps));
  return {};
}

Status RecordHead::write(SqliteDatabase& database, const RecordValues& values) {
  if (others_changed_) {
    LEAT_ASSIGN_OR_RETURN(others_, sum_of(database, kOthers));
    others_changed_ = false;
  }
  LEAT_ASSIGN_OR_RETURN(const RecordValue value, values.store(kHeadPlace, print()));
  LEAT_ASSIGN_OR_RETURN(auto update, database.prepare("UPDATE seal SET head = ?"));
  return update.bind_blob(1, value.bytes()).run();
}

Result<RecordHead> RecordHead::open(SqliteDatabase& database, const RecordValues& values) {
  constexpr std::string_view kSubject = "the head";
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare("SELECT head FROM seal"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values.load(kHeadPlace, row ? select.bytes(0) : "", 0, kSubject));
  auto head = read(value.bytes());
  if (!head) return values.damaged(kSubject);
  LEAT_ASSIGN_OR_RETURN(const bool fits, head->fits(database));
  if (!fits) return values.damaged("the set of rows (one may be of an older copy)");
  return *std::move(head);
}

Result<bool> RecordHead::fits(SqliteDatabase& database) const {
  LEAT_ASSIGN_OR_RETURN(const RowSetSum steps, sum_of(database, kSteps));
  LEAT_ASSIGN_OR_RETURN(const RowSetSum others, sum_of(database, kOthers));
  return steps == steps_ && others == others_;
}

}  // namespace leat
