// Reads a YamlDocument into typed fields, strictly. Every getter checks a type and a range; every
// key that no getter reads is an error, which suggests the nearest key that was read. The reader
// collects errors, and status() returns the one to show:
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

// The integers from min to max.
struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

// A range of finite numbers. An open end does not belong to the range.
struct FloatRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;
  bool max_open = false;
};

class YamlReader;
struct YamlNamed;

// The keys of one map of the document: which there are, which were read, and errors about them. The
// functions of an absent map do nothing.
class YamlKeys {
 public:
  bool present() const { return node_ != nullptr; }
  bool has(std::string_view key) const;
  // True if the key's value is a map. For keys that take a name or a map.
  bool is_map(std::string_view key) const;
  // True if the key's value is a list. For keys that take a value or a list of them.
  bool is_list(std::string_view key) const;
  // Returns the keys in the order of the text. For maps whose keys are names.
  std::vector<std::string> keys() const;

  // Counts a key as read, whatever its value is, so that finish() does not call it unknown.
  void skip(std::string_view key);
  // Adds an error about a key whose value by itself is valid, for rules between keys. Its position
  // is that of the key's value, or the beginning of the map if the key is absent.
  void fail(std::string_view key, std::string_view message);
  // Returns "job.yaml:12:3", the position of a key's value, or the beginning of the map if the key
  // is absent.
  std::string where(std::string_view key) const;

  // Makes an error of every key that no getter read. Call it once, after the last getter.
  void finish();

 protected:
  YamlKeys(YamlReader* reader, const YamlNode* node, std::string path);

  // Returns the key's value, and adds the key to those that were read; null, with an error if it is
  // needed.
  const YamlNode* ask(std::string_view key, Need need, std::string_view expected);
  void wrong(std::string_view path, const YamlNode& value, std::string_view expected,
             std::string_view hint = "");
  std::string path_of(std::string_view key) const;
  YamlPosition position_of(std::string_view key) const;

  YamlReader* reader_;
  const YamlNode* node_;  // null: absent
  std::string path_;      // "" for the top
  std::vector<std::string> asked_;
};

// The typed values of one map. If a key is absent or its value is wrong, a getter returns false and
// leaves `out` unchanged, so that a field's initializer is its default. A wrong value, and a
// missing required key, are errors of the reader. The getters of an absent map do nothing.
class YamlMap : public YamlKeys {
 public:
  bool get_int(std::string_view key, Need need, IntRange range, int64_t& out);
  // Reads one integer, or "[least, most]"; for one integer, `least` is 0.
  bool get_span(std::string_view key, Need need, IntRange range, int64_t& least, int64_t& most);
  bool get_float(std::string_view key, Need need, FloatRange range, double& out);
  bool get_bool(std::string_view key, Need need, bool& out);
  // Reads a string that is not empty and has no control characters. Messages say that `what` was
  // expected.
  bool get_string(std::string_view key, Need need, std::string& out,
                  std::string_view what = "a string");
  // Reads any scalar as it is written. For special notations ("2GiB"), whose errors the caller
  // adds.
  bool get_scalar(std::string_view key, Need need, std::string_view what, std::string& out);
  // Reads one of `choices`; `out` becomes its index.
  bool get_choice(std::string_view key, Need need, std::span<const std::string_view> choices,
                  size_t& out);
  // Reads a list of strings, under the rules of get_string().
  bool get_strings(std::string_view key, Need need, std::vector<std::string>& out);
  // Reads one scalar or, if `list`, a list of at least one, as they are written. None has control
  // characters; quotes around a scalar do not count. For values whose rules are in a table.
  bool get_scalars(std::string_view key, Need need, bool list, std::vector<std::string>& out);
  // Reads a list of different `choices`, as indexes.
  bool get_choices(std::string_view key, Need need, std::span<const std::string_view> choices,
                   std::vector<size_t>& out);
  // Reads a list of integers.
  bool get_ints(std::string_view key, Need need, IntRange range, std::vector<int64_t>& out);
  // Reads one number, or a list of `least` to `most` numbers. With `whole`, they are integers.
  bool get_numbers(std::string_view key, Need need, FloatRange range, bool whole, size_t least,
                   size_t most, std::vector<double>& out);
  // Returns the maps of a list; none if the key is absent, or if something else is there.
  std::vector<YamlMap> get_maps(std::string_view key, Need need);
  // Reads a list of numbers of the range.
  bool get_floats(std::string_view key, Need need, FloatRange range, std::vector<double>& out);
  // Reads a list of entries that have a name out of `choices`: the name alone, or a map with the
  // key `name`, of which the caller reads the other keys.
  bool get_named(std::string_view key, Need need, std::span<const std::string_view> choices,
                 std::vector<YamlNamed>& out);
  // Returns the map under a key. It is absent if the key is, or if its value is not a map.
  YamlMap get_map(std::string_view key, Need need);

  // The same as get_choice() for an enum whose values 0, 1, 2... have these names.
  template <typename Enum>
  bool get_enum(std::string_view key, Need need, std::span<const std::string_view> names,
                Enum& out) {
    size_t index = 0;
    if (!get_choice(key, need, names, index)) return false;
    out = static_cast<Enum>(index);
    return true;
  }

 private:
  friend class YamlReader;
  using YamlKeys::YamlKeys;

  bool read_string(const std::string& path, const YamlNode& value, std::string_view expected,
                   std::string& out);
  bool read_float(const std::string& path, const YamlNode& value, FloatRange range, double& out);
  bool read_choice(const std::string& path, const YamlNode& value,
                   std::span<const std::string_view> choices, size_t& out);
};

// An entry of YamlMap::get_named(). The map is absent if the entry is a name alone.
struct YamlNamed {
  size_t choice = 0;
  YamlMap map;
};

// The errors of one document.
class YamlReader {
 public:
  explicit YamlReader(const YamlDocument& document) : document_(document) {}
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  YamlMap top() { return YamlMap(this, &document_.top(), ""); }
  bool ok() const { return errors_.empty(); }
  // Returns invalid_argument with the first error by its position in the file. Missing keys come
  // after all other errors, because an unknown key is often the misspelt one that is missing.
  Status status() const;

 private:
  friend class YamlKeys;
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
