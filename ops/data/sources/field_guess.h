// Finds the type of a field by its values, for ops/data/guess.h. Private to ops/data.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/guess.h"
#include "ops/data/sources/field_values.h"

namespace leat {

// The values of one field. Threads: one.
class FieldGuess {
 public:
  // A text that may be a number, or true or false, as in CSV.
  void add_text(std::string_view text);
  // A text that is none, as a string of JSON.
  void add_string(std::string_view text);
  void add_boolean() { ++booleans_; }
  void add_missing() { ++missing_; }
  int64_t missing() const { return missing_; }
  // True if the values become texts, as those of several kinds do.
  bool is_text() const { return texts_ > 0 || (booleans_ > 0 && numbers_ > 0); }
  bool is_mixed() const { return (texts_ > 0) + (numbers_ > 0) + (booleans_ > 0) > 1; }
  // True if every value so far was a number.
  bool is_number() const { return numbers_ > 0 && !is_mixed(); }
  // The options of the column, as "dtype=int64".
  std::vector<std::string> options() const;

 private:
  int64_t numbers_ = 0, booleans_ = 0, texts_ = 0, missing_ = 0;
  bool integers_ = true;
  size_t longest_ = 0;
};

// The columns that a guess has so far, as the texts of SourceOptions. Threads: one.
class GuessedColumns {
 public:
  // Adds a column for a field. Its name is that of the field with '_' for characters that a name
  // cannot have, and a number behind it if another column has that name; `key` gets the name of the
  // field if it is another one. An empty key gets nothing.
  void add(const std::string& field, const std::string& key, std::vector<std::string> options);
  bool empty() const { return names_.empty(); }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::set<std::string> names_;
  std::vector<std::string> texts_;
};

// Notes that 0 takes the place of values that a field lacks, if it is one of numbers.
void note_missing(const std::string& field, const FieldGuess& guess, GuessedData& out);

// A file as a data set of the format, with its path as the only file.
DatasetFiles names_of_file(std::string format, const std::string& path);

// The guesses of the formats. Errors are those of guess_dataset().
Result<GuessedData> guess_csv(Files& files, const std::string& path, char delimiter,
                              int64_t most_records);
Result<GuessedData> guess_jsonl(Files& files, const std::string& path, int64_t most_records);
Result<GuessedData> guess_sqlite(Files& files, const std::string& path, int64_t most_records);
Result<GuessedData> guess_webdataset(Files& files, const std::string& path, int64_t most_records);
Result<GuessedData> guess_tfrecord(Files& files, const std::string& path, int64_t most_records);
Result<GuessedData> guess_image_folder(Files& files, const std::string& path);

}  // namespace leat
