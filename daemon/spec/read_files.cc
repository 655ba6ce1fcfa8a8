#include "daemon/spec/read_files.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "daemon/base/yaml_document.h"
#include "daemon/spec/names.h"
#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/mixture.h"

namespace leat {
namespace {

using namespace job_names;

// Refuses keys that do not apply to this format, because they would be ignored otherwise.
void refuse_keys_of_files(YamlMap& map, std::string_view format,
                          std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (map.has(key)) map.fail(key, cat("is not a key of ", format));
  }
}

// Brings a path below the root to its normal form; an error of `key` if it leaves the root.
std::string path_below_root(YamlMap& map, std::string_view key, const std::string& received) {
  // In normal form, ".." can only be at the beginning, where it would lead out of the root.
  const auto path = std::filesystem::path(received).lexically_normal();
  if (path.is_relative() && *path.begin() != "..") return path.string();
  map.fail(key, "expected the path of a file below data.root, received '" + received + "'");
  return received;
}

std::string read_path(YamlMap& map, std::string_view key) {
  std::string path;
  if (!map.get_string(key, Need::required, path, "the path of a file below data.root")) return "";
  return path_below_root(map, key, path);
}

void read_columns_of_files(YamlMap& map, Job::Files& files) {
  if (map.has("files")) {
    refuse_keys_of_files(map, "a data set with files", {"features", "labels"});
    files.files = read_named_texts(map.get_map("files", Need::required), true);
    if (files.files.empty()) map.fail("files", "expected at least one column, received none");
    return;
  }
  const std::string features = read_path(map, "features");
  const std::string labels = read_path(map, "labels");
  files.files = {"features=" + features, "labels=" + labels};
}

void read_patterns(YamlMap& map, Job::Files& files) {
  std::vector<std::string> paths;
  if (std::string one; map.is_list("files")) {
    map.get_strings("files", Need::required, paths);
  } else if (map.get_string("files", Need::required, one, "the path of a file below data.root")) {
    paths = {one};
  }
  for (const std::string& path : paths) files.files.push_back(path_below_root(map, "files", path));
}

void read_windows(YamlMap& map, Job::Files& files) {
  constexpr IntRange kTokens = {.min = 1, .max = int64_t{1} << 24};
  map.get_int("window", Need::required, kTokens, files.window);
  files.stride = files.window;
  map.get_int("stride", Need::optional, kTokens, files.stride);
  size_t index = 0;
  map.get_choice("dtype", Need::optional, kTokenTypes, index);
  files.dtype = *dtype_from_name(kTokenTypes[index]);
}

// --- The parts of a mixture, as options.

constexpr std::string_view kSources = "sources";

MixturePart part_of_files(const std::string& name, double weight, const Job::Files& files) {
  MixturePart part{name, weight, {}};
  part.names.format = files.format;
  part.names.files = files.files;
  part.names.window = files.window;
  part.names.stride = files.stride;
  part.names.element = files.dtype;
  part.names.options = files.options;
  return part;
}

void read_sources(YamlMap& map, Job::Files& files) {
  YamlMap sources = map.get_map(kSources, Need::required);
  if (sources.present() && sources.keys().empty())
    map.fail(kSources, "expected at least one data set, received none");
  for (const std::string& name : sources.keys()) {
    YamlMap source = sources.get_map(name, Need::required);
    if (!is_column_name(name)) {
      sources.fail(
          name,
          cat("expected a name of letters, digits, '_', '.', '-' and '/', received '", name, "'"));
    }
    double weight = 1;
    source.get_float("weight", Need::optional, {.min = 1e-6, .max = 1e6}, weight);
    Job::Files own;
    read_data_files(std::move(source), own);
    add_mixture_part(part_of_files(name, weight, own), files.options);
  }
  sources.finish();
}

// Adds "sources: {NAME: {weight: 2, format: ...}}" for a mixture.
void print_sources(const Job::Files& files, std::vector<std::string>& entries) {
  DatasetFiles names;
  names.options = files.options;
  std::vector<std::string> parts;
  for (const MixturePart& part : mixture_parts(names)) {
    Job::Files own{part.names.format, part.names.files,   part.names.window,
                   part.names.stride, part.names.element, part.names.options};
    parts.push_back(cat(yaml_string(part.name), ": {weight: ", shortest(part.weight), ", ",
                        print_data_files(own).substr(1)));
  }
  entries.push_back(cat(kSources, ": {", join(parts, ", "), "}"));
}

// --- Options of a table, as texts.

// Reads one option, with `prefix` before its key in the texts.
void read_option(YamlMap& map, const SourceOption& option, const std::string& prefix,
                 std::vector<std::string>& texts) {
  std::vector<std::string> values;
  const Need need = option.required ? Need::required : Need::optional;
  const bool lists = option.kind == OptionKind::texts || option.kind == OptionKind::integers ||
                     option.kind == OptionKind::numbers;
  if (!map.get_scalars(option.name, need, lists, values)) return;
  for (const std::string& value : values) {
    const Status fits = check_option(option, value);
    if (!fits.ok()) {
      map.fail(option.name, fits.message());
      return;
    }
    texts.push_back(cat(prefix, option.name, "=", value));
  }
}

// Reads the options of one column: a map, or the value of the option that is the shorthand.
void read_column_options(YamlMap& map, const std::string& name, const SourceOption& option,
                         std::vector<std::string>& texts) {
  const std::string prefix = cat(option.name, ":", name, ":");
  texts.push_back(cat(option.name, ":", name, "="));
  if (!is_column_name(name)) {
    map.fail(name, cat("expected a name of letters, digits, '_', '.', '-' and '/', received '",
                       name, "'"));
  }
  if (!map.is_map(name)) {
    const SourceOption* shorthand = find_option(option.of_column, option.shorthand);
    if (!shorthand) {
      map.get_map(name, Need::required);  // which refuses it
      return;
    }
    SourceOption named = *shorthand;
    named.name = name;
    std::vector<std::string> read;
    read_option(map, named, "", read);
    for (const std::string& each : read)
      texts.push_back(cat(prefix, option.shorthand, each.substr(name.size())));
    return;
  }
  YamlMap column = map.get_map(name, Need::required);
  for (const SourceOption& each : option.of_column) read_option(column, each, prefix, texts);
  column.finish();
}

void read_options(YamlMap& map, std::span<const SourceOption> table,
                  std::vector<std::string>& texts) {
  for (const SourceOption& option : table) {
    if (option.kind != OptionKind::columns) {
      read_option(map, option, "", texts);
      continue;
    }
    if (option.name == kSources) continue;  // read_sources() has read it
    YamlMap columns = map.get_map(option.name, option.required ? Need::required : Need::optional);
    if (!columns.present()) continue;
    if (columns.keys().empty())
      map.fail(option.name, "expected at least one column, received none");
    for (const std::string& name : columns.keys())
      read_column_options(columns, name, option, texts);
    columns.finish();
  }
}

// Prints the values of an option as the job file has them.
std::string print_values(const SourceOption& option, const std::vector<std::string>& values) {
  const bool plain = option.kind == OptionKind::integer || option.kind == OptionKind::integers ||
                     option.kind == OptionKind::number || option.kind == OptionKind::numbers ||
                     option.kind == OptionKind::flag;
  std::vector<std::string> out;
  for (const std::string& value : values) out.push_back(plain ? value : yaml_string(value));
  return out.size() == 1 ? out[0] : "[" + join(out, ", ") + "]";
}

// Adds the entries "key: value" of a table's options, in its order.
void print_options(std::span<const SourceOption> table, const SourceOptions& options,
                   std::vector<std::string>& entries) {
  for (const SourceOption& option : table) {
    if (option.kind != OptionKind::columns) {
      if (options.has(option.name))
        entries.push_back(cat(option.name, ": ", print_values(option, options.texts(option.name))));
      continue;
    }
    if (option.name == kSources) continue;  // print_sources() prints it
    std::vector<std::string> columns;
    for (const auto& [name, values] : options.columns()) {
      std::vector<std::string> inner;
      print_options(option.of_column, values, inner);
      columns.push_back(cat(yaml_string(name), ": {", join(inner, ", "), "}"));
    }
    if (!columns.empty()) entries.push_back(cat(option.name, ": {", join(columns, ", "), "}"));
  }
}

std::string print_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> quoted;
  for (const std::string& path : paths) quoted.push_back(yaml_string(path));
  return "[" + join(quoted, ", ") + "]";
}

void print_names(const Job::Files& files, const SourceFormat& format,
                 std::vector<std::string>& entries) {
  switch (format.files_form()) {
    case FilesForm::none:
    case FilesForm::sources:
      return;
    case FilesForm::one:
      entries.push_back(cat("files: ", yaml_string(files.files.empty() ? "" : files.files[0])));
      return;
    case FilesForm::patterns:
      entries.push_back(cat("files: ", print_paths(files.files)));
      return;
    case FilesForm::columns:
      break;
  }
  // The short form, if there is nothing else.
  if (files.files.size() == 2 && files.files[0].starts_with("features=") &&
      files.files[1].starts_with("labels=")) {
    entries.push_back(cat("features: ", yaml_string(files.files[0].substr(9))));
    entries.push_back(cat("labels: ", yaml_string(files.files[1].substr(7))));
    return;
  }
  entries.push_back(cat("files: ", print_named_texts(files.files)));
}

}  // namespace

std::vector<std::string> read_named_texts(YamlMap map, bool paths) {
  std::vector<std::string> out;
  for (const std::string& name : map.keys()) {
    std::string value;
    if (paths) {
      value = read_path(map, name);
    } else {
      map.get_string(name, Need::required, value, "the name of a column");
    }
    out.push_back(cat(name, "=", value));
    if (!is_column_name(name)) {
      map.fail(name, cat("expected a name of letters, digits, '_', '.', '-' and '/', received '",
                         name, "'"));
    }
    const auto view = parse_column_view(out.back());
    if (!paths && !value.empty() && !view.ok()) map.fail(name, view.status().message());
  }
  map.finish();
  return out;
}

std::string print_named_texts(const std::vector<std::string>& items) {
  std::vector<std::string> entries;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    entries.push_back(
        cat(yaml_string(item.substr(0, equals)), ": ", yaml_string(item.substr(equals + 1))));
  }
  return "{" + join(entries, ", ") + "}";
}

void read_data_files(YamlMap map, Job::Files& files) {
  std::vector<std::string_view> names;
  for (const SourceFormat* each : source_formats()) names.push_back(each->name());
  size_t index = 0;
  const bool known = map.get_choice("format", Need::required, names, index);
  const SourceFormat& format = *source_formats()[index];
  files.format = std::string(format.name());
  const bool tokens = known && files.format == "tokens";
  if (known && format.files_form() != FilesForm::columns)
    refuse_keys_of_files(map, files.format, {"features", "labels"});
  if (known && !tokens) {
    for (const std::string_view key : {"window", "stride", "dtype"}) {
      if (!find_option(format.options(), key)) refuse_keys_of_files(map, files.format, {key});
    }
  }
  switch (format.files_form()) {
    case FilesForm::none:
      break;
    case FilesForm::sources:
      read_sources(map, files);
      break;
    case FilesForm::one:
      files.files = {read_path(map, "files")};
      break;
    case FilesForm::patterns:
      read_patterns(map, files);
      break;
    case FilesForm::columns:
      read_columns_of_files(map, files);
      break;
  }
  if (tokens) read_windows(map, files);
  read_options(map, format.options(), files.options);
  // Errors between options have no key of their own: `format` gets them, once each option parses.
  const auto options = SourceOptions::parse(format.options(), files.options);
  if (known && options.ok() && !tokens && format.files_form() != FilesForm::sources) {
    DatasetFiles names_only;
    names_only.format = files.format;
    names_only.files = files.files;
    const Status checked = format.check(names_only, *options);
    if (!checked.ok()) map.fail("format", checked.message());
  }
  map.finish();
}

std::string print_data_files(const Job::Files& files) {
  std::vector<std::string> entries{cat("format: ", files.format)};
  const SourceFormat* format = find_source_format(files.format);
  if (!format) return "{" + entries[0] + "}";
  print_names(files, *format, entries);
  if (files.format == "tokens") {
    entries.push_back(cat("window: ", files.window));
    entries.push_back(cat("stride: ", files.stride));
    entries.push_back(cat("dtype: ", dtype_name(files.dtype)));
  }
  const auto options = SourceOptions::parse(format->options(), files.options);
  if (format->files_form() == FilesForm::sources) print_sources(files, entries);
  if (options.ok()) print_options(format->options(), *options, entries);
  return "{" + join(entries, ", ") + "}";
}

}  // namespace leat
