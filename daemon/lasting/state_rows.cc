#include "daemon/lasting/state_rows.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "daemon/lasting/record_head.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A value of more bytes is cut into rows: SQLite takes 1 GB in one.
constexpr size_t kPiece = size_t{64} << 20;

std::string variable_place(uint64_t step, std::string_view task, std::string_view name,
                           uint64_t piece, std::string_view dtype, std::string_view dims) {
  return place_of({"variable", cat(step), task, name, cat(piece), dtype, dims});
}
constexpr std::string_view kStatePlace = "state";

// The digest of all rows of a saved state, so that none can be taken away, renamed or exchanged for
// an older one: first the outcomes that are kept, then homes, then the pieces of variables, each in
// the order of its key. The salt of a piece stands for its bytes.
class StateDigest {
 public:
  explicit StateDigest(uint64_t step) { hash_.update(place_of({"step", cat(step)})); }
  void add_outcome(uint64_t step) { hash_.update(place_of({"outcome", cat(step)})); }
  void add_home(std::string_view resource, std::string_view device) {
    hash_.update(place_of({"home", resource, device}));
  }
  void add_piece(const RecordValues& values, std::string_view task, std::string_view name,
                 uint64_t piece, std::string_view stored) {
    hash_.update(place_of({"piece", task, name, cat(piece)}));
    if (values.binds()) hash_.update(place_of({RecordHead::salt_of(stored)}));
  }
  std::string finish() { return to_hex(hash_.finish()); }

 private:
  Sha256 hash_;
};

struct VariableType {
  DType dtype;
  Shape shape;
};

// The type of a variable as its row has it; nothing if that is none.
std::optional<VariableType> type_of(std::string_view dtype, std::string_view dims) {
  std::vector<int64_t> sizes(dims.size() / sizeof(int64_t));
  if (!sizes.empty()) std::memcpy(sizes.data(), dims.data(), sizes.size() * sizeof(int64_t));
  const auto type = dtype_from_name(dtype);
  const auto shape = Shape::checked(sizes);
  if (!type || !shape) return std::nullopt;
  return VariableType{*type, *shape};
}

// The digest of the saved state is in an encrypted record alone.
Status write_digest(SqliteDatabase& database, const RecordValues& values, std::string_view digest) {
  if (!values.seal()) return {};
  LEAT_ASSIGN_OR_RETURN(const RecordValue value, values.store(kStatePlace, digest));
  LEAT_ASSIGN_OR_RETURN(auto update, database.prepare("UPDATE seal SET state = ?"));
  return update.bind_blob(1, value.bytes()).run();
}

Status check_digest(SqliteDatabase& database, const RecordValues& values, std::string_view digest) {
  if (!values.seal()) return {};
  constexpr std::string_view kSubject = "the list of variables and outcomes";
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare("SELECT state FROM seal"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  LEAT_ASSIGN_OR_RETURN(const RecordValue value,
                        values.load(kStatePlace, row ? select.bytes(0) : "", 0, kSubject));
  return value.bytes() == digest ? Status() : values.damaged(kSubject);
}

// Adds the steps up to the state's whose outcomes are kept.
Status add_outcomes(SqliteDatabase& database, uint64_t step, StateDigest& digest) {
  LEAT_ASSIGN_OR_RETURN(auto select,
                        database.prepare("SELECT number FROM steps WHERE number <= ? AND "
                                         "outcome IS NOT NULL ORDER BY number"));
  select.bind(1, static_cast<int64_t>(step));
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return {};
    digest.add_outcome(static_cast<uint64_t>(select.integer(0)));
  }
}

// Reads the variables of the state's step.
Status read_variables(SqliteDatabase& database, const RecordValues& values, SavedState& state,
                      StateDigest& digest) {
  LEAT_ASSIGN_OR_RETURN(auto select,
                        database.prepare("SELECT task, name, piece, dtype, dims, value, crc "
                                         "FROM variables ORDER BY task, name, piece"));
  Tensor* value = nullptr;
  size_t filled = 0;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
    const bool begins = row && select.integer(2) == 0;
    if (value != nullptr && (!row || begins) && filled != value->bytes())
      return values.damaged("the list of variables");
    if (!row) return {};
    const std::string task(select.bytes(0)), name(select.bytes(1));
    const auto number = static_cast<uint64_t>(select.integer(2));
    digest.add_piece(values, task, name, number, select.bytes(5));
    const std::string subject = cat("variable '", name, "' of ", task);
    const std::string_view dims = select.bytes(4);
    LEAT_ASSIGN_OR_RETURN(
        const RecordValue stored,
        values.load(variable_place(state.step, task, name, number, select.bytes(3), dims),
                    select.bytes(5), select.integer(6), subject, record_crc(dims)));
    const std::string_view piece = stored.bytes();
    if (begins) {
      const auto type = type_of(select.bytes(3), dims);
      if (!type) return values.damaged(subject);
      LEAT_ASSIGN_OR_RETURN(Tensor made, Tensor::create(type->dtype, type->shape));
      value = &state.variables[task].insert_or_assign(name, std::move(made)).first->second;
      filled = 0;
    }
    if (value == nullptr || piece.size() > value->bytes() - filled) return values.damaged(subject);
    if (!piece.empty())
      std::memcpy(static_cast<char*>(value->raw()) + filled, piece.data(), piece.size());
    filled += piece.size();
  }
}

// The first piece of a value is there also if it is empty, and the type stands beside each.
Status write_variable(SqliteDatabase& database, const RecordValues& values, uint64_t step,
                      const std::string& task, const std::string& name, const Tensor& value,
                      StateDigest& digest) {
  LEAT_ASSIGN_OR_RETURN(auto insert,
                        database.prepare("INSERT INTO variables VALUES (?, ?, ?, ?, ?, ?, ?)"));
  const std::string_view bytes(static_cast<const char*>(value.raw()), value.bytes());
  const std::string_view dims = record_text(std::as_bytes(std::span(value.shape().dims())));
  size_t at = 0;
  do {
    const size_t number = at / kPiece;
    LEAT_ASSIGN_OR_RETURN(
        const RecordValue piece,
        values.store(variable_place(step, task, name, number, dtype_name(value.dtype()), dims),
                     bytes.substr(at, kPiece)));
    digest.add_piece(values, task, name, number, piece.bytes());
    LEAT_RETURN_IF_ERROR(insert.bind(1, task)
                             .bind(2, name)
                             .bind(3, static_cast<int64_t>(number))
                             .bind(4, dtype_name(value.dtype()))
                             .bind_blob(5, dims)
                             .bind_blob(6, piece.bytes())
                             .bind(7, values.checksum(piece.bytes(), record_crc(dims)))
                             .run());
    at += kPiece;
  } while (at < bytes.size());
  return {};
}

}  // namespace

Result<uint64_t> saved_step(SqliteDatabase& database) {
  LEAT_ASSIGN_OR_RETURN(auto select, database.prepare("SELECT step FROM saved"));
  LEAT_ASSIGN_OR_RETURN(const bool row, select.step());
  return row ? static_cast<uint64_t>(select.integer(0)) : 0;
}

Status write_state(SqliteDatabase& database, const RecordValues& values, const SavedState& state) {
  LEAT_RETURN_IF_ERROR(database.run("DELETE FROM variables; DELETE FROM homes"));
  StateDigest digest(state.step);
  LEAT_RETURN_IF_ERROR(add_outcomes(database, state.step, digest));
  LEAT_ASSIGN_OR_RETURN(auto home, database.prepare("INSERT INTO homes VALUES (?, ?)"));
  for (const auto& [resource, device] : state.homes) {
    digest.add_home(resource, device);
    LEAT_RETURN_IF_ERROR(home.bind(1, resource).bind(2, device).run());
  }
  for (const auto& [task, variables] : state.variables) {
    for (const auto& [name, value] : variables) {
      LEAT_RETURN_IF_ERROR(write_variable(database, values, state.step, task, name, value, digest));
    }
  }
  LEAT_ASSIGN_OR_RETURN(auto note, database.prepare("UPDATE saved SET step = ?"));
  LEAT_RETURN_IF_ERROR(note.bind(1, static_cast<int64_t>(state.step)).run());
  return write_digest(database, values, digest.finish());
}

Result<SavedState> read_state(SqliteDatabase& database, const RecordValues& values) {
  SavedState state;
  LEAT_ASSIGN_OR_RETURN(state.step, saved_step(database));
  StateDigest digest(state.step);
  LEAT_RETURN_IF_ERROR(add_outcomes(database, state.step, digest));
  LEAT_ASSIGN_OR_RETURN(auto homes,
                        database.prepare("SELECT resource, device FROM homes ORDER BY resource"));
  while (true) {
    LEAT_ASSIGN_OR_RETURN(const bool row, homes.step());
    if (!row) break;
    digest.add_home(homes.bytes(0), homes.bytes(1));
    state.homes.emplace(homes.bytes(0), homes.bytes(1));
  }
  LEAT_RETURN_IF_ERROR(read_variables(database, values, state, digest));
  LEAT_RETURN_IF_ERROR(check_digest(database, values, digest.finish()));
  return state;
}

}  // namespace leat
