#include "ops/data/dataset_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/data/path_text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/mixture.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// True if `path` is `root` or is below it. Both are absolute and normal.
bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// The address of a folder of a store, to which "/NAME" is added. "a//b" is another key than "a/b".
std::string without_last_slashes(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Reads one bound of a slice: nothing, or an integer.
Result<std::optional<int64_t>> parse_bound(std::string_view text, std::string_view whole) {
  if (text.empty()) return std::optional<int64_t>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return std::optional(value);
  return invalid_argument(
      cat("a column: expected NAME=COLUMN[BEGIN:END] with integers, received '", whole, "'"));
}

Status check_arrays(const DatasetFiles& names) {
  std::set<std::string> columns;
  if (names.files.empty()) {
    return invalid_argument("files: expected at least one column, received none");
  }
  for (const std::string& each : names.files) {
    LEAT_ASSIGN_OR_RETURN(const auto named, parse_named_file(each));
    if (columns.insert(named.first).second) continue;
    return invalid_argument(cat("files: the column '", named.first, "' is there twice"));
  }
  return {};
}

Status check_files(const DatasetFiles& names, FilesForm form) {
  const size_t count = names.files.size();
  switch (form) {
    case FilesForm::sources:
      return {};  // a reader of a graph has the names that the parts had when they were found
    case FilesForm::none:
      if (count == 0) return {};
      return invalid_argument(cat("files: expected none, received ", count));
    case FilesForm::columns:
      return check_arrays(names);
    case FilesForm::one:
      if (count == 1) return {};
      return invalid_argument(cat("files: expected one file, received ", count));
    case FilesForm::patterns:
      if (count > 0) return {};
      return invalid_argument(cat("files: expected at least one file of ",
                                  names.format == "tokens" ? "tokens" : "records",
                                  ", received none"));
  }
  return {};
}

}  // namespace

DatasetFiles labelled_files(std::string format, const std::string& features,
                            const std::string& labels, std::string root) {
  DatasetFiles names;
  names.format = std::move(format);
  names.files = {"features=" + features, "labels=" + labels};
  names.root = std::move(root);
  return names;
}

bool is_column_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/';
         });
}

Result<ColumnView> parse_column_view(std::string_view text) {
  ColumnView view;
  const size_t equals = text.find('='), bracket = text.find('[');
  const size_t from = equals == std::string_view::npos ? 0 : equals + 1;
  view.column = std::string(text.substr(from, bracket == std::string_view::npos
                                                  ? std::string_view::npos
                                                  : bracket - std::min(bracket, from)));
  view.name = equals == std::string_view::npos ? view.column : std::string(text.substr(0, equals));
  if (!is_column_name(view.name) || !is_column_name(view.column)) {
    return invalid_argument(
        cat("a column: expected NAME=COLUMN or NAME=COLUMN[BEGIN:END], received '", text, "'"));
  }
  if (bracket == std::string_view::npos) return view;
  const size_t colon = text.find(':', bracket);
  if (colon == std::string_view::npos || text.back() != ']') {
    return invalid_argument(
        cat("a column: expected NAME=COLUMN[BEGIN:END], received '", text, "'"));
  }
  LEAT_ASSIGN_OR_RETURN(view.begin,
                        parse_bound(text.substr(bracket + 1, colon - bracket - 1), text));
  LEAT_ASSIGN_OR_RETURN(view.end,
                        parse_bound(text.substr(colon + 1, text.size() - colon - 2), text));
  return view;
}

Result<std::pair<std::string, std::string>> parse_named_file(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == std::string_view::npos || !is_column_name(name)) {
    return invalid_argument(cat("files: expected COLUMN=PATH, received '", text, "'"));
  }
  return std::pair{std::string(name), std::string(text.substr(equals + 1))};
}

Status check_dataset_files(const DatasetFiles& names) {
  const SourceFormat* format = find_source_format(names.format);
  if (!format) {
    return invalid_argument(
        cat("format: expected ", source_format_names(), ", received '", names.format, "'"));
  }
  LEAT_RETURN_IF_ERROR(check_files(names, format->files_form()));
  LEAT_ASSIGN_OR_RETURN(const auto options, SourceOptions::parse(format->options(), names.options));
  LEAT_RETURN_IF_ERROR(format->check(names, options));
  std::set<std::string> columns;
  for (const std::string& each : names.columns) {
    LEAT_ASSIGN_OR_RETURN(const ColumnView view, parse_column_view(each));
    if (columns.insert(view.name).second) continue;
    return invalid_argument(cat("columns: the column '", view.name, "' is there twice"));
  }
  return {};
}

bool reads_store(const DatasetFiles& names) {
  if (!names.root.empty()) return is_store_path(names.root);
  const bool own = std::any_of(names.files.begin(), names.files.end(), [](std::string_view each) {
    // A file that is a column has the column's name before its path.
    const size_t equals = each.find('=');
    return is_store_path(each) ||
           (equals != std::string_view::npos && is_store_path(each.substr(equals + 1)));
  });
  if (own || names.format != "mixture") return own;
  const std::vector<MixturePart> parts = mixture_parts(names);
  return std::any_of(parts.begin(), parts.end(),
                     [](const MixturePart& part) { return reads_store(part.names); });
}

// Looks at the text of the path only; links are followed later, in resolve_below().
bool leaves_root(const fs::path& path) {
  return path.is_absolute() || std::find(path.begin(), path.end(), fs::path("..")) != path.end();
}

Result<std::string> resolve_below(const std::string& root, const std::string& path) {
  if (path.empty()) return invalid_argument("a data set's path: expected a file, received ''");
  if (root.empty()) return is_store_path(path) ? without_last_slashes(path) : path;
  const fs::path relative(path);
  if (leaves_root(relative)) {
    return invalid_argument(
        cat("'", path, "': expected a path below the data root '", root, "', without '..'"));
  }
  if (is_store_path(root)) {  // which has no links
    LEAT_RETURN_IF_ERROR(check_store_path(root));
    const std::string normal = relative.lexically_normal().string();
    return without_last_slashes(normal == "." ? root
                                              : cat(root, root.ends_with('/') ? "" : "/", normal));
  }
  // Both paths are compared after all links are followed. The file itself may be missing: opening
  // it gives the better error.
  const fs::path whole = fs::path(root) / relative;
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) {
    return failed_precondition(
        cat("data root '", root, "': expected a directory: ", error.message()));
  }
  const fs::path real = fs::weakly_canonical(whole, error);
  if (error) return failed_precondition(cat("'", whole.string(), "': ", error.message()));
  if (!is_below(real, real_root)) {
    return invalid_argument(cat("'", path, "': expected a path below the data root '", root,
                                "', links lead to '", real.string(), "'"));
  }
  return real.string();
}

Result<std::vector<std::string>> expand_patterns(Files& files, const std::string& root,
                                                 const std::vector<std::string>& patterns) {
  std::vector<std::string> out;
  for (const std::string& pattern : patterns) {
    const fs::path path(pattern);
    if (!is_glob(pattern)) {
      out.push_back(pattern);
      continue;
    }
    const std::string name = path.filename().string(), folder = path.parent_path().string();
    if (is_glob(folder)) {
      return invalid_argument(
          cat("'", pattern, "': expected '*' and '?' in the last part of the path alone"));
    }
    // An empty folder is the root itself.
    LEAT_ASSIGN_OR_RETURN(const std::string there,
                          resolve_below(root, folder.empty() ? "." : folder));
    LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> all, files.list(there));
    const size_t before = out.size();
    for (const std::string& each : all) {
      if (matches_glob(name, each)) out.push_back((path.parent_path() / each).string());
    }
    if (out.size() > before) continue;
    return failed_precondition(
        cat("'", pattern, "': expected a file of such a name in '", there, "', found none"));
  }
  return out;
}

}  // namespace leat
