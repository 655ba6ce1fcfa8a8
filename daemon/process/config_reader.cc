#include "daemon/process/config_reader.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "daemon/base/units.h"
#include "daemon/process/config_checks.h"
#include "daemon/process/config_fields.h"
#include "daemon/process/field_reader.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// How the text of an override is read: literally, or as YAML.
enum class Notation : uint8_t { text, yaml };

// The visitor that lists all keys.
class KeyLister {
 public:
  const std::map<std::string, Notation>& keys() const { return keys_; }

  void name(std::string_view key, size_t, std::string&) { add(key, Notation::text); }
  void address(std::string_view key, AddressUse, std::string&) { add(key, Notation::text); }
  void path(std::string_view key, std::string&) { add(key, Notation::text); }
  void path_or_off(std::string_view key, std::string&) { add(key, Notation::text); }
  void place(std::string_view key, std::string&) { add(key, Notation::text); }
  void named_paths(std::string_view key, const auto&) { add(key, Notation::yaml); }
  void local_users(std::string_view key, const auto&) { add(key, Notation::yaml); }
  void worker_limits(std::string_view key, const auto&) { add(key, Notation::yaml); }
  void boolean(std::string_view key, bool) { add(key, Notation::yaml); }
  void integer(std::string_view key, IntRange, int64_t) { add(key, Notation::yaml); }
  void bytes(std::string_view key, uint64_t) { add(key, Notation::text); }
  void duration(std::string_view key, std::chrono::milliseconds) { add(key, Notation::text); }
  void choice(std::string_view key, auto, auto) { add(key, Notation::text); }
  void choices(std::string_view key, auto, const auto&) { add(key, Notation::yaml); }
  void map(std::string_view key, const std::function<void(KeyLister&)>& visit_fields) {
    KeyLister below;
    visit_fields(below);
    for (const auto& [inner, notation] : below.keys()) add(cat(key, ".", inner), notation);
  }

 private:
  void add(std::string_view key, Notation notation) { keys_.emplace(key, notation); }
  std::map<std::string, Notation> keys_;
};

// The visitor that prints all values.
class ValuePrinter {
 public:
  ValuePrinter(const YamlDocument& document, std::vector<ConfigValue>& out)
      : document_(document), out_(out) {}

  void name(std::string_view key, size_t, const std::string& value) { add(key, value); }
  void address(std::string_view key, AddressUse, const std::string& value) { add(key, value); }
  void path(std::string_view key, const std::string& value) { add(key, value); }
  void path_or_off(std::string_view key, const std::string& value) { add(key, value); }
  void place(std::string_view key, const std::string& value) { add(key, value); }
  void named_paths(std::string_view key, const std::map<std::string, std::string>& value) {
    if (value.empty()) add(key, "{}");
    for (const auto& [name, path] : value) add(cat(key, ".", name), path);
  }
  void local_users(std::string_view key, const LocalUsers& value) {
    if (value.empty()) add(key, "{}");
    for (const auto& [who, role] : value)
      add(cat(key, ".", who), std::string(kLocalRoles[static_cast<size_t>(role)]));
  }
  void worker_limits(std::string_view key, WorkerLimits& value) {
    if (value.empty()) add(key, "{}");
    for (auto& [pattern, limit] : value) {
      map(cat(key, ".", pattern), [&limit = limit](ValuePrinter& fields) { visit(fields, limit); });
    }
  }
  void boolean(std::string_view key, bool value) { add(key, value ? "true" : "false"); }
  void integer(std::string_view key, IntRange, int64_t value) { add(key, cat(value)); }
  void bytes(std::string_view key, uint64_t value) { add(key, print_bytes(value)); }
  void duration(std::string_view key, std::chrono::milliseconds value) {
    add(key, print_duration(value));
  }
  template <typename Enum>
  void choice(std::string_view key, std::span<const std::string_view> names, Enum value) {
    add(key, std::string(names[static_cast<size_t>(value)]));
  }
  template <typename Enum>
  void choices(std::string_view key, std::span<const std::string_view> names,
               const std::vector<Enum>& values) {
    std::vector<std::string_view> words;
    for (const Enum value : values) words.push_back(names[static_cast<size_t>(value)]);
    add(key, cat("[", join(words, ", "), "]"));
  }
  void map(std::string_view key, const std::function<void(ValuePrinter&)>& visit_fields) {
    ValuePrinter below(document_, out_);
    below.prefix_ = cat(prefix_, key, ".");
    visit_fields(below);
  }

 private:
  // A value that no source sets is a default. The document knows the place of all others.
  void add(std::string_view key, std::string value) {
    std::string path = prefix_ + std::string(key);
    const YamlNode* node = find_path(document_, path);
    std::string origin = node == nullptr ? "default" : document_.where(node->at);
    out_.push_back({std::move(path), std::move(value), std::move(origin)});
  }

  const YamlDocument& document_;
  std::vector<ConfigValue>& out_;
  std::string prefix_;
};

// A file with only comments is valid and sets nothing.
bool is_blank(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos && line[first] != '#') return false;
  }
  return true;
}

// Without a file there is an empty document, to which flags and variables are added.
Result<YamlDocument> read_document(const std::string& file) {
  if (file.empty()) return YamlDocument::parse("{}", "no config file");
  auto bytes = read_file(real_files(), file, uint64_t{1} << 20);
  if (!bytes.ok()) return bytes.status().while_doing("reading the config file");
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return YamlDocument::parse(is_blank(text) ? "{}" : text, file);
}

// Returns "LOG_LEVEL" for "log.level": the name of the variable behind the daemon's prefix.
std::string variable_of(std::string_view key) {
  std::string name(key);
  for (char& c : name) {
    if (c == '.') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

// Applies one flag or variable. Its value is quoted if the key takes a text.
Status set(YamlDocument& document, const std::map<std::string, Notation>& keys,
           const ConfigSources::Flag& flag) {
  const auto key = keys.find(flag.key);
  const bool text =
      (key != keys.end() && key->second == Notation::text) || flag.key.starts_with("datasets.");
  // Control characters could hide a part of the value, and no key needs them.
  const bool printable = std::all_of(flag.value.begin(), flag.value.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
  if (!printable) {
    return invalid_argument(cat(flag.shown, ": expected text without control characters"));
  }
  // An empty value stays unquoted: it is null, which stands for the default.
  const bool quote = text && !flag.value.empty();
  return document.set(flag.key, quote ? yaml_string(flag.value) : flag.value, flag.shown);
}

// Sets the keys of all variables with the daemon's prefix. A variable that is nearly a key is an
// error, because a typing mistake would otherwise have no effect.
Status apply_environment(YamlDocument& document, const std::map<std::string, Notation>& keys,
                         const ConfigSources& sources, const std::string& prefix) {
  std::map<std::string, std::string> key_of;
  std::vector<std::string> known;
  for (const auto& [key, notation] : keys) {
    key_of[variable_of(key)] = key;
    known.push_back(variable_of(key));
  }
  for (const auto& [name, value] : sources.environment) {
    if (!name.starts_with(prefix) || value.empty()) continue;
    const std::string variable = name.substr(prefix.size());
    if (const auto key = key_of.find(variable); key != key_of.end()) {
      LEAT_RETURN_IF_ERROR(set(document, keys, {key->second, value, name}));
    } else if (const std::string meant = nearest(variable, known); !meant.empty()) {
      return invalid_argument(
          cat(name, ": unknown variable (did you mean '", prefix, meant, "'?)"));
    }
  }
  return {};
}

// Reads all sources into `config`, whose values are the defaults. `daemon` is "master", for
// example.
template <typename Config>
Result<Config> load(const ConfigSources& sources, std::string_view daemon, Config config,
                    std::vector<ConfigValue>* values) {
  // The same list of keys is visited three times: for the notation of overrides, to read, and to
  // print.
  KeyLister keys;
  visit(keys, config);
  LEAT_ASSIGN_OR_RETURN(YamlDocument document, read_document(sources.file));
  const std::string prefix = cat("LEAT_", variable_of(daemon), "_");
  // Later values win: the file is there first, then the environment, then the flags.
  LEAT_RETURN_IF_ERROR(apply_environment(document, keys.keys(), sources, prefix));
  for (const ConfigSources::Flag& flag : sources.flags) {
    LEAT_RETURN_IF_ERROR(set(document, keys.keys(), flag));
  }

  std::error_code ignored;
  const auto folder = std::filesystem::absolute(sources.file, ignored).parent_path();
  YamlReader reader(document);
  YamlMap top = reader.top();
  FieldReader fields(document, top, folder);
  visit(fields, config);
  top.finish();
  // The rules between keys only make sense if each value is valid by itself.
  if (reader.ok()) check_config(top, sources, config);
  LEAT_RETURN_IF_ERROR(reader.status());
  if (values != nullptr) {
    values->clear();
    ValuePrinter printer(document, *values);
    visit(printer, config);
  }
  return config;
}

std::string variable(const ConfigSources& sources, const std::string& name) {
  const auto found = sources.environment.find(name);
  return found == sources.environment.end() ? "" : found->second;
}

// See MasterConfig::state_dir.
std::string default_state_dir(const ConfigSources& sources, std::string_view daemon) {
  const std::string given = variable(sources, "STATE_DIRECTORY");  // of several, the first
  if (!given.empty()) return given.substr(0, given.find(':'));
  if (sources.is_root) return cat("/var/lib/leat/", daemon);
  const std::string state = variable(sources, "XDG_STATE_HOME"), home = variable(sources, "HOME");
  if (state.starts_with('/')) return cat(state, "/leat/", daemon);
  return cat(home.empty() ? "/tmp" : home, "/.local/state/leat/", daemon);
}

// The default name of a worker. A host without a name gets "worker".
std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "worker";
}

}  // namespace

ConfigSources process_sources() {
  ConfigSources sources;
  sources.is_root = ::geteuid() == 0;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    sources.environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return sources;
}

Result<MasterConfig> load_master_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values) {
  MasterConfig config;
  config.state_dir = default_state_dir(sources, "master");
  return load(sources, "master", std::move(config), values);
}

Result<WorkerConfig> load_worker_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values) {
  WorkerConfig config;
  config.state_dir = default_state_dir(sources, "worker");
  config.name = host_name();
  return load(sources, "worker", std::move(config), values);
}

Result<DevConfig> load_dev_config(const ConfigSources& sources, std::vector<ConfigValue>* values) {
  return load(sources, "dev", DevConfig{}, values);
}

std::string print_config(MasterConfig config) {
  const auto no_file = read_document("");
  if (!no_file.ok()) return "";
  std::vector<ConfigValue> values;
  ValuePrinter printer(*no_file, values);
  visit(printer, config);
  std::string text;
  for (const ConfigValue& each : values) text += cat(each.key, ": ", each.value, "\n");
  return text;
}

}  // namespace leat
