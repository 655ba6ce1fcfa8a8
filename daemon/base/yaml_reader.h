// Reads a YamlDocument into typed fields, strictly. Every value read names its type and its range;
// every key never asked for is an error, with the nearest key that was. Errors are collected, and
// status() is the one to show:
//
//   YamlReader reader(document);
//   YamlMap top = reader.top();
//   top.get_int("seed", Need::optional, {.min = 0}, config.seed);
//   YamlMap net = top.get_map("net", Need::required);
//   net.get_string("address", Need::required, config.address);
//   net.finish();
//   top.finish();
//   return reader.status();   // job.yaml:4:9: net.adress: unknown key (did you mean 'address'?)
//
// Threads: one. The document must outlive its reader, and the reader its maps.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/yaml_document.h"
#include "devices/base/status.h"

namespace leat {

enum class Need { optional, required };

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

// Always finite, too. An open end is not itself in the range.
struct FloatRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;
  bool max_open = false;
};

class YamlReader;

// One map of the document. Getters leave `out` as it is, and return false, when the key is absent
// or its value wrong; so a field's initializer is its default. A wrong value, and a missing key
// that is required, are errors of the reader. The getters of an absent map do nothing.
class YamlMap {
 public:
  bool present() const { return node_ != nullptr; }
  bool has(std::string_view key) const;
  // Whether the key's value is a map. For keys that take a name or a map.
  bool is_map(std::string_view key) const;
  // In the order in which they are written. For maps whose keys are names.
  std::vector<std::string> keys() const;

  bool get_int(std::string_view key, Need need, IntRange range, int64_t& out);
  // One integer, or "[least, most]"; `least` is 0 for one.
  bool get_span(std::string_view key, Need need, IntRange range, int64_t& least, int64_t& most);
  bool get_float(std::string_view key, Need need, FloatRange range, double& out);
  bool get_bool(std::string_view key, Need need, bool& out);
  // Not empty, without control characters. `what` is what messages say was expected.
  bool get_string(std::string_view key, Need need, std::string& out,
                  std::string_view what = "a string");
  // Any scalar as it is written: for a notation of its own ("2GiB"), whose errors the caller adds.
  bool get_scalar(std::string_view key, Need need, std::string_view what, std::string& out);
  // One of `choices`; out is its index.
  bool get_choice(std::string_view key, Need need, std::span<const std::string_view> choices,
                  size_t& out);
  // A list of strings as get_string reads them.
  bool get_strings(std::string_view key, Need need, std::vector<std::string>& out);
  // A list of different `choices`, as indexes.
  bool get_choices(std::string_view key, Need need, std::span<const std::string_view> choices,
                   std::vector<size_t>& out);
  // The map under a key; absent if there is none or something else stands there.
  YamlMap get_map(std::string_view key, Need need);

  // The same for an enum whose values 0, 1, 2... have these names.
  template <typename Enum>
  bool get_enum(std::string_view key, Need need, std::span<const std::string_view> names,
                Enum& out) {
    size_t index = 0;
    if (!get_choice(key, need, names, index)) return false;
    out = static_cast<Enum>(index);
    return true;
  }

  // Adds an error about a key that is right by itself: rules between keys. Reported where the
  // key's value is written, or where the map begins when it is absent.
  void fail(std::string_view key, std::string_view message);
  // "job.yaml:12:3" of a key's value; where the map begins when the key is absent.
  std::string where(std::string_view key) const;

  // Every key that no getter asked for becomes an error. Call once, after the last getter.
  void finish();

 private:
  friend class YamlReader;
  YamlMap(YamlReader* reader, const YamlNode* node, std::string path);

  // The key's value, which from now on is a known key; null, with an error if it is needed.
  const YamlNode* ask(std::string_view key, Need need, std::string_view expected);
  void wrong(std::string_view path, const YamlNode& value, std::string_view expected,
             std::string_view hint = "");
  bool read_string(const std::string& path, const YamlNode& value, std::string_view expected,
                   std::string& out);
  bool read_choice(const std::string& path, const YamlNode& value,
                   std::span<const std::string_view> choices, size_t& out);
  std::string path_of(std::string_view key) const;
  YamlPosition position_of(std::string_view key) const;

  YamlReader* reader_;
  const YamlNode* node_;  // null: absent
  std::string path_;      // "" for the top
  std::vector<std::string> asked_;
};

class YamlReader {
 public:
  explicit YamlReader(const YamlDocument& document) : document_(document) {}
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  YamlMap top() { return YamlMap(this, &document_.top(), ""); }
  bool ok() const { return errors_.empty(); }
  // invalid_argument: the first error by place in the file, where a missing key comes after all
  // others, for it is often the other half of an unknown one.
  Status status() const;

 private:
  friend class YamlMap;
  struct Error {
    YamlPosition at;
    bool missing;
    std::string message;
  };
  void add(YamlPosition at, bool missing, std::string message);

  const YamlDocument& document_;
  std::vector<Error> errors_;
};

}  // namespace leat
