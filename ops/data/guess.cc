#include "ops/data/guess.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>

#include "devices/base/text.h"
#include "ops/data/sources/field_guess.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

bool ends_with_any(const std::string& path, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return path.ends_with(end); });
}

// An array as the only column, which has the name of the file.
GuessedData array_of_file(std::string format, const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  name = name.substr(0, name.find('.', 1));
  for (char& c : name) {
    if (!is_column_name(cat("a", c))) c = '_';
  }
  if (!is_column_name(name)) name.insert(0, "_");
  return {names_of_file(std::move(format), cat(name, "=", path)), {}};
}

}  // namespace

Result<GuessedData> guess_dataset(Files& files, const std::string& given, int64_t most_records) {
  std::string path = given;
  // The folders below it are "PATH/NAME", and a store takes "a//b" for another place than "a/b".
  while (is_store_path(path) && path.ends_with('/')) path.pop_back();
  constexpr std::string_view kNpy[] = {".npy", ".npy.gz"},
                             kIdx[] = {".idx", ".idx.gz", "-ubyte", "-ubyte.gz"},
                             kJson[] = {".jsonl", ".ndjson"},
                             kSql[] = {".sqlite", ".sqlite3", ".db"},
                             kRecords[] = {".tfrecord", ".tfrecords"};
  if (ends_with_any(path, kNpy)) return array_of_file("npy", path);
  if (ends_with_any(path, kIdx)) return array_of_file("idx", path);
  if (path.ends_with(".npz")) return GuessedData{names_of_file("npz", path), {}};
  if (path.ends_with(".safetensors")) return GuessedData{names_of_file("safetensors", path), {}};
  if (path.ends_with(".csv")) return guess_csv(files, path, ',', most_records);
  if (path.ends_with(".tsv")) return guess_csv(files, path, '\t', most_records);
  if (ends_with_any(path, kJson)) return guess_jsonl(files, path, most_records);
  if (ends_with_any(path, kSql)) return guess_sqlite(files, path, most_records);
  if (ends_with_any(path, kRecords)) return guess_tfrecord(files, path, most_records);
  if (path.ends_with(".tar")) return guess_webdataset(files, path, most_records);
  if (path.ends_with(".parquet")) {
    return unimplemented(cat("'", path, "': expected a format that Leat reads; convert it with ",
                             "deploy/convert-parquet ", path, " FOLDER, which needs pyarrow"));
  }
  const auto names = files.list(path);
  if (names.ok()) return guess_image_folder(files, path);
  // A store that refuses or does not answer is the error, not the name. HTTP alone has no lists.
  const Code code = names.status().code();
  if (code == Code::unavailable || (is_store_path(path) && code != Code::unimplemented))
    return names.status();
  return invalid_argument(cat("'", path, "': expected a name that tells the format, ",
                              kGuessedFiles, "; or a map as '{format: csv, files: ", path, "}'"));
}

}  // namespace leat
