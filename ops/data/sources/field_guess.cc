#include "ops/data/sources/field_guess.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// The rule by which the sources read a number, so that a guess never refuses what was seen.
FieldType type_of(const std::string& dtype) {
  static constexpr SourceOption kTable[] = {kDtypeOption};
  const std::vector<std::string> texts{cat("dtype=", dtype)};
  auto type = FieldType::make(*SourceOptions::parse(kTable, texts));
  return *std::move(type);
}

bool reads_as(const FieldType& type, std::string_view text) {
  std::byte ignored[8];
  return type.store_text(text, ignored).ok();
}

}  // namespace

void FieldGuess::add_text(std::string_view text) {
  static const FieldType kInteger = type_of("int64"), kNumber = type_of("float64");
  longest_ = std::max(longest_, text.size());
  if (text == "true" || text == "false" || text == "True" || text == "False") {
    ++booleans_;
  } else if (!reads_as(kNumber, text)) {
    ++texts_;
  } else {
    ++numbers_;
  }
  if (booleans_ + texts_ > 0) return;
  integers_ = integers_ && reads_as(kInteger, text);
}

void FieldGuess::add_string(std::string_view text) {
  longest_ = std::max(longest_, text.size());
  ++texts_;
}

std::vector<std::string> FieldGuess::options() const {
  if (is_text()) return {cat("bytes=", std::clamp<size_t>(longest_, 1, kMostColumnBytes))};
  std::vector<std::string> out{cat("dtype=", booleans_ > 0 ? "bool"
                                             : integers_   ? "int64"
                                                           : "float64")};
  if (missing_ > 0) out.push_back("fill=0");
  return out;
}

void GuessedColumns::add(const std::string& field, const std::string& key,
                         std::vector<std::string> options) {
  std::string name;
  for (const char c : field.substr(0, 190)) name += is_column_name(cat("a", c)) ? c : '_';
  if (!is_column_name(name)) name.insert(0, "_");
  const std::string wanted = name;
  for (int number = 2; !names_.insert(name).second; ++number) name = cat(wanted, "_", number);
  texts_.push_back(cat("columns:", name, "="));
  if (!key.empty() && name != field) options.insert(options.begin(), cat(key, "=", field));
  for (const std::string& each : options) texts_.push_back(cat("columns:", name, ":", each));
}

void note_missing(const std::string& field, const FieldGuess& guess, GuessedData& out) {
  if (guess.missing() == 0 || guess.is_text()) return;
  out.notes.push_back(cat("the field ", quoted_field(field), " has no value in ", guess.missing(),
                          " of the records, 0 takes its place"));
}

DatasetFiles names_of_file(std::string format, const std::string& path) {
  DatasetFiles names;
  names.format = std::move(format);
  names.files = {path};
  return names;
}

}  // namespace leat
