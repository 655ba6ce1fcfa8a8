// The visitor that fills a config struct from a YAML document. It decides which values each kind of
// field may have.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/yaml_document.h"
#include "daemon/base/yaml_reader.h"
#include "daemon/process/config_fields.h"

namespace leat {

// Returns the value of a key such as "log.level"; null if there is none. A key behind a value that
// is no map counts as absent. The pointer is valid as long as the document.
const YamlNode* find_path(const YamlDocument& document, std::string_view dotted);

// The parts of "host:port"; the host of IPv6 has no brackets.
struct HostPort {
  std::string host;
  // 0 to 65535, written without a sign and without zeros in front.
  int port = 0;
};
// Returns nothing if the text is not "host:port" with a valid port. The host is not resolved; an
// IPv6 address must have brackets.
std::optional<HostPort> split_host_port(std::string_view text);

// Reports errors to the map's reader. A field whose key is absent keeps its value. Threads: one.
// One object reads the keys of one map; map() makes another for a nested map. visit() of
// config_fields.h calls the members. A value that a field may not have is reported with its place
// and the text that was expected; reading goes on, so that one run reports all errors.
class FieldReader {
 public:
  // Paths in the document's file are relative to `folder`, and paths in its overrides to the
  // current folder. The document and the map must outlive this object.
  FieldReader(const YamlDocument& document, YamlMap& map, std::filesystem::path folder)
      : document_(document), map_(&map), folder_(std::move(folder)) {}

  // A name of letters, digits, '-', '_' and '.', which begins with a letter or digit.
  void name(std::string_view key, size_t longest, std::string& out);
  // An address in one of the forms that `use` allows.
  void address(std::string_view key, AddressUse use, std::string& out);
  // Any path, which becomes absolute. The path need not exist.
  void path(std::string_view key, std::string& out);
  // The same, or "off".
  void path_or_off(std::string_view key, std::string& out);
  // The same, or the address of a store that takes files.
  void place(std::string_view key, std::string& out);
  // A map from names to paths, which become absolute, and addresses of stores. Adds its entries to
  // `out`. A name has letters, digits, '-' and '_', but no dot, since dots divide the keys of
  // flags.
  void named_paths(std::string_view key, std::map<std::string, std::string>& out);
  // A map from users to roles, and one from globs of workers' names to limits, in the order of the
  // text. Both add their entries to `out`.
  void local_users(std::string_view key, LocalUsers& out);
  void worker_limits(std::string_view key, WorkerLimits& out);
  // true or false, in YAML's notation.
  void boolean(std::string_view key, bool& out) { map_->get_bool(key, Need::optional, out); }
  // A decimal integer within `range`, both ends included.
  void integer(std::string_view key, IntRange range, int64_t& out) {
    map_->get_int(key, Need::optional, range, out);
  }
  // A size such as 8GiB, 512MiB or 1073741824. See units.h for the units.
  void bytes(std::string_view key, uint64_t& out);
  // A time greater than 0 such as 30s or 500ms.
  void duration(std::string_view key, std::chrono::milliseconds& out);
  // One of `names`, which are in the order of the enum's values.
  template <typename Enum>
  void choice(std::string_view key, std::span<const std::string_view> names, Enum& out) {
    map_->get_enum(key, Need::optional, names, out);
  }
  // A list of at least one of `names`, each at most once. Replaces the content of `out`.
  template <typename Enum>
  void choices(std::string_view key, std::span<const std::string_view> names,
               std::vector<Enum>& out) {
    std::vector<size_t> indexes;
    if (!map_->get_choices(key, Need::optional, names, indexes)) return;
    out.clear();
    for (const size_t index : indexes) out.push_back(static_cast<Enum>(index));
    if (out.empty()) map_->fail(key, "expected at least one, received an empty list");
  }
  // Calls `visit_fields` with a reader of the map under `key`, even if it is absent. A key of that
  // map that is not read is an error.
  void map(std::string_view key, const std::function<void(FieldReader&)>& visit_fields);

 private:
  // Makes a path absolute, relative to the folder that the constructor describes.
  std::string absolute(std::string_view key, const std::string& path) const;

  const YamlDocument& document_;
  YamlMap* map_;
  std::filesystem::path folder_;
  std::string prefix_;  // the path of `map_` in the document: "log."
};

}  // namespace leat
