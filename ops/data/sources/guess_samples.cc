// Guesses the columns of tables of SQLite, of tar shards, TFRecord and folders of images.
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"
#include "ops/data/sources/field_guess.h"
#include "ops/data/sources/image_column.h"
#include "ops/data/sources/sql_connection.h"
#include "ops/formats/npy.h"
#include "ops/formats/tar.h"
#include "ops/formats/tfrecord.h"
#include "ops/images/image.h"

namespace leat {
namespace {

constexpr uint64_t kSampleText = uint64_t{1} << 20;  // of a part that is read for the guess

// The options of a column of images of this size.
std::vector<std::string> image_options(const ImageHeader& header) {
  return {cat("size=", header.height), cat("size=", header.width)};
}

Status leave_out(GuessedData& out, std::string_view kind, std::string_view name,
                 std::string_view why) {
  out.notes.push_back(cat("the ", kind, " ", quoted_field(name), " is left out: ", why));
  return {};
}

// --- SQLite.

// The values of a column of a table.
struct SqlField {
  FieldGuess values;
  std::optional<size_t> blob;  // the size of the blobs
  bool odd = false;            // blobs of several sizes, or beside other values
  bool others = false;
};

void add_sql_value(const SqlConnection& row, int index, SqlField& field) {
  switch (row.kind(index)) {
    case SqlKind::integer:
      field.values.add_text(std::to_string(row.integer(index)));
      break;
    case SqlKind::number:
      field.values.add_text(shortest(row.number(index)));
      break;
    case SqlKind::text:
      field.values.add_string(row.bytes(index));
      break;
    case SqlKind::null:
      field.values.add_missing();
      return;
    case SqlKind::blob: {
      const size_t size = row.bytes(index).size();
      field.odd = field.odd || size == 0 || field.blob.value_or(size) != size;
      field.blob = size;
      return;
    }
  }
  field.others = true;
}

// --- Tar shards.

// The files of one extension.
struct ShardField {
  uint64_t longest = 0, first = 0, first_size = 0;  // of the first one: its place and size
};

Status add_shard_column(const ReadableFile& archive, const std::string& extension,
                        const ShardField& field, GuessedColumns& columns, GuessedData& out) {
  const bool image = is_image_extension(extension);
  const uint64_t size = std::min(field.first_size, image ? kEncodedImage : kSampleText);
  Bytes bytes(static_cast<size_t>(size));
  LEAT_RETURN_IF_ERROR(archive.read(field.first, bytes));
  const std::string ext = cat("ext=", extension);
  if (image) {
    const auto header = read_image_header(bytes);
    if (!header.ok()) return leave_out(out, "extension", extension, header.status().message());
    std::vector<std::string> options = image_options(*header);
    options.insert(options.begin(), ext);
    columns.add("image", "", options);
    return {};
  }
  if (extension == "npy" || extension.ends_with(".npy")) {
    const auto header = npy_format().parse_header(bytes, extension);
    if (!header.ok()) return leave_out(out, "extension", extension, header.status().message());
    std::vector<std::string> options{ext, cat("dtype=", column_type_name(header->dtype))};
    for (const int64_t dim : header->shape.dims()) options.push_back(cat("shape=", dim));
    columns.add(extension, "", options);
    return {};
  }
  if (extension == "json" || extension.ends_with(".json"))
    return leave_out(out, "extension", extension, "a job file names the fields of JSON");
  FieldGuess guess;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  guess.add_text(text);
  const bool label = extension == "cls" && guess.is_number();
  std::vector<std::string> options{ext};
  options.push_back(label
                        ? guess.options().at(0)
                        : cat("bytes=", std::clamp<uint64_t>(field.longest, 1, kMostColumnBytes)));
  columns.add(label ? "labels" : extension, "", options);
  return {};
}

// --- TFRecord.

// The values of one feature.
struct FeatureGuess {
  Feature::Kind kind = Feature::Kind::empty;
  std::optional<size_t> count;         // of values in a record
  size_t longest = 0;                  // of the texts
  std::optional<ImageHeader> image;    // of the first text
  bool mixed = false, counts = false;  // several kinds; several counts
  int64_t records = 0;                 // that have a value
};

Status add_feature(const Feature& feature, FeatureGuess& guess) {
  if (feature.kind() == Feature::Kind::empty) return {};
  size_t count = 0;
  if (feature.kind() == Feature::Kind::bytes) {
    LEAT_ASSIGN_OR_RETURN(const auto texts, feature.bytes());
    count = texts.size();
    for (const auto text : texts) guess.longest = std::max(guess.longest, text.size());
    if (guess.records == 0 && count == 1) {
      const auto header = read_image_header(texts[0]);
      if (header.ok()) guess.image = *header;
    }
  } else if (feature.kind() == Feature::Kind::floats) {
    LEAT_ASSIGN_OR_RETURN(const auto values, feature.floats());
    count = values.size();
  } else {
    LEAT_ASSIGN_OR_RETURN(const auto values, feature.integers());
    count = values.size();
  }
  guess.mixed = guess.mixed || (guess.records > 0 && guess.kind != feature.kind());
  guess.counts = guess.counts || guess.count.value_or(count) != count || count == 0;
  guess.kind = feature.kind();
  guess.count = count;
  ++guess.records;
  return {};
}

void add_feature_column(const std::string& name, const FeatureGuess& guess, int64_t records,
                        GuessedColumns& columns, GuessedData& out) {
  if (guess.mixed || guess.counts || guess.records == 0) {
    (void)leave_out(out, "feature", name,
                    guess.records == 0 ? "it has no value"
                    : guess.mixed      ? "it has values of different kinds"
                                       : "its lists have different sizes");
    return;
  }
  std::vector<std::string> options;
  if (guess.image) {
    options = image_options(*guess.image);
  } else if (guess.kind == Feature::Kind::bytes) {
    if (*guess.count > 1) {
      (void)leave_out(out, "feature", name, "it has lists of texts");
      return;
    }
    options = {cat("bytes=", std::clamp<uint64_t>(guess.longest, 1, kMostColumnBytes))};
  } else {
    options = {cat("dtype=", guess.kind == Feature::Kind::floats ? "float32" : "int64")};
    if (*guess.count > 1) options.push_back(cat("shape=", *guess.count));
    if (guess.records < records) options.push_back("fill=0");
  }
  columns.add(name, "feature", std::move(options));
}

// Ends a pass early: no error that anyone sees.
Status enough() { return cancelled("enough"); }

}  // namespace

Result<GuessedData> guess_sqlite(Files& files, const std::string& path, int64_t most_records) {
  GuessedData out{names_of_file("sqlite", path), {}};
  LEAT_RETURN_IF_ERROR(files.open(path).status());  // which refuses all but regular files
  LEAT_ASSIGN_OR_RETURN(auto connection, SqlConnection::open({"", path, path}));
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection->tables());
  if (tables.size() != 1) {
    return invalid_argument(cat("'", path, "': expected one table, found ",
                                tables.empty() ? "none" : join(tables, ", "),
                                tables.empty() ? "" : "; name one as in '{format: sqlite, files: ",
                                tables.empty() ? "" : cat(path, ", table: ", tables[0], "}'")));
  }
  LEAT_RETURN_IF_ERROR(connection->prepare(cat("SELECT * FROM ", sql_name(tables[0]))));
  const std::vector<std::string> names = connection->fields();
  std::vector<SqlField> fields(names.size());
  for (int64_t row = 0; row < most_records; ++row) {
    LEAT_ASSIGN_OR_RETURN(const bool more, connection->step());
    if (!more) break;
    for (size_t i = 0; i < fields.size(); ++i)
      add_sql_value(*connection, static_cast<int>(i), fields[i]);
  }
  GuessedColumns columns;
  for (size_t i = 0; i < fields.size(); ++i) {
    SqlField& field = fields[i];
    if (field.blob && (field.odd || field.others || field.values.missing() > 0)) {
      (void)leave_out(out, "column", names[i], "its blobs have different sizes");
      continue;
    }
    std::vector<std::string> options = field.values.options();
    if (field.blob) options = {"dtype=uint8", cat("shape=", *field.blob)};
    if (!field.blob) note_missing(names[i], field.values, out);
    columns.add(names[i], "from", options);
  }
  if (columns.empty())
    return invalid_argument(cat("'", path, "': expected a column that can be read, found none"));
  out.names.options = columns.take();
  out.names.options.insert(out.names.options.begin(), "table=" + tables[0]);
  return out;
}

Result<GuessedData> guess_webdataset(Files& files, const std::string& path, int64_t most_records) {
  GuessedData out{names_of_file("webdataset", path), {}};
  LEAT_ASSIGN_OR_RETURN(const auto archive, files.open(path));
  std::map<std::string, ShardField> fields;
  std::string key;
  int64_t samples = 0;
  const Status read = read_tar(*archive, [&](const TarMember& member) -> Status {
    const size_t slash = member.name.rfind('/');
    const size_t base = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = member.name.find('.', base);
    if (dot == std::string::npos || dot == base) return {};
    if (const std::string own = member.name.substr(0, dot); samples == 0 || own != key) {
      if (samples++ == most_records) return enough();
      key = own;
    }
    ShardField& field = fields[lower_case(member.name.substr(dot + 1))];
    if (field.longest == 0) field = {0, member.offset, member.size};
    field.longest = std::max(field.longest, member.size);
    return {};
  });
  if (!read.ok() && read.code() != Code::cancelled) return read;
  GuessedColumns columns;
  for (const auto& [extension, field] : fields)
    LEAT_RETURN_IF_ERROR(add_shard_column(*archive, extension, field, columns, out));
  if (columns.empty())
    return invalid_argument(cat("'", path, "': expected a sample that can be read, found none"));
  out.names.options = columns.take();
  return out;
}

Result<GuessedData> guess_tfrecord(Files& files, const std::string& path, int64_t most_records) {
  GuessedData out{names_of_file("tfrecord", path), {}};
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  std::map<std::string, FeatureGuess, std::less<>> features;
  int64_t records = 0;
  const Status read = read_tfrecords(*file, [&](TfRecordPlace place) -> Status {
    if (records == most_records) return enough();
    if (place.size > kEncodedImage) return {};  // readers report it
    Bytes bytes(static_cast<size_t>(place.size));
    if (!read_tfrecord(*file, place, bytes).ok()) return {};
    ++records;
    (void)read_example(bytes, [&](std::string_view name, const Feature& feature) {
      return add_feature(feature, features[std::string(name)]);
    });
    return {};
  });
  if (!read.ok() && read.code() != Code::cancelled) return read;
  GuessedColumns columns;
  for (const auto& [name, guess] : features) add_feature_column(name, guess, records, columns, out);
  if (columns.empty())
    return invalid_argument(cat("'", path, "': expected a record with a feature, found none"));
  out.names.options = columns.take();
  return out;
}

Result<GuessedData> guess_image_folder(Files& files, const std::string& path) {
  GuessedData out{names_of_file("image_folder", path), {}};
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> classes, files.list(path));
  Status first_bad;
  for (const std::string& name : classes) {
    if (name.starts_with('.')) continue;
    const auto images = files.list(cat(path, "/", name));
    // A file beside the folders has no list. A disk or a store that does not answer is an error.
    if (!images.ok() && images.status().code() == Code::unavailable) return images.status();
    if (!images.ok()) continue;
    for (const std::string& image : *images) {
      if (!is_image_name(image)) continue;
      const auto bytes = read_file(files, cat(path, "/", name, "/", image), kEncodedImage);
      if (!bytes.ok() && bytes.status().code() == Code::unavailable) return bytes.status();
      const auto header =
          bytes.ok() ? read_image_header(*bytes) : Result<ImageHeader>(bytes.status());
      if (header.ok()) {
        out.names.options = image_options(*header);
        return out;
      }
      if (first_bad.ok()) first_bad = header.status();
    }
  }
  return invalid_argument(cat(
      "'", path, "': expected a folder for each class, with images, found ",
      first_bad.ok() ? "none" : "none that is good: ", first_bad.ok() ? "" : first_bad.message()));
}

}  // namespace leat
