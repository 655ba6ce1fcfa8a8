// A YAML document as a plain tree in which every key and value has its position in the text. Only
// the .cc includes the YAML library.
//
// The accepted language is stricter than YAML: one document, UTF-8, no tags, no anchors, no
// aliases, no merge keys, no duplicate keys, and keys are strings. The type of a plain scalar
// follows only the core schema of YAML 1.2: `no` is a string, and `012` is an error, since YAML 1.1
// and 1.2 disagree.
//
// Threads: a value; only one thread may change it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// A position in the document. `source` 0 is the document's file; the others are its overrides.
struct YamlPosition {
  int source = 0;
  int line = 0;    // from 1
  int column = 0;  // from 1
};

// A value of the document, with its children.
struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;             // of a scalar
  bool quoted = false;          // a scalar in quotes is always a string
  std::vector<YamlNode> keys;   // of a map: scalars, all different
  std::vector<YamlNode> items;  // of a list, or the values of a map, one for each key
  YamlPosition at;

  // Returns the value of a map's key; null if there is none.
  const YamlNode* find(std::string_view key) const;
};

// The type of a scalar by the core schema. ambiguous: YAML 1.1 and 1.2 read different numbers
// (012).
enum class YamlType { string, boolean, integer, real, not_finite, ambiguous };
YamlType yaml_type(const YamlNode& scalar);

// Returns the text as a plain scalar if that reads back as the same string; otherwise in double
// quotes. REQUIRES: no control characters.
std::string yaml_string(std::string_view text);

// Describes a value for messages: "the integer 5", "the string 'fast'", "a list", "nothing".
std::string describe(const YamlNode& node);

// A document, with the overrides that were applied to it.
class YamlDocument {
 public:
  // `name` is used in messages and is usually the file's path. Returns invalid_argument with
  // "name:line:column: ..." if the text is not a map in the YAML described above.
  static Result<YamlDocument> parse(std::string_view text, std::string name);

  // Applies "path.to.key=value", whose value is read as YAML. It replaces the value of the key,
  // makes missing maps on the path, and removes the key if the value is null. Messages name the
  // key's place as "--set path.to.key=value" instead of a line.
  Status set(std::string_view assignment);
  // The same for a value from a flag: messages name `flag` ("--workers 3").
  Status set(std::string_view path, std::string_view value, std::string flag);
  // Removes a key of the top level, if it exists.
  void remove(std::string_view key);

  const YamlNode& top() const { return top_; }
  const std::string& name() const { return sources_.front(); }
  // Returns the position for messages: "job.yaml:12:3", or "--set epochs=3".
  std::string where(YamlPosition at) const;

 private:
  YamlNode top_;
  std::vector<std::string> sources_;
};

}  // namespace leat
