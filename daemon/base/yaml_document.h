// A YAML document as a plain tree in which every key and value knows where it was written. Only the
// .cc knows the YAML library.
//
// Stricter than YAML: one document, UTF-8, no tags, no anchors, no aliases, no merge keys, no
// duplicate keys, keys are strings. A plain scalar is resolved by the core schema of YAML 1.2
// alone: `no` is a string and `012` is nothing at all.
//
// Threads: a value; one thread changes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// Where something was written. `source` 0 is the document's file; the others are its overrides.
struct YamlPosition {
  int source = 0;
  int line = 0;    // from 1
  int column = 0;  // from 1
};

struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;             // of a scalar
  bool quoted = false;          // a scalar in quotes is a string whatever it looks like
  std::vector<YamlNode> keys;   // of a map: scalars, all different
  std::vector<YamlNode> items;  // of a list, or the values of a map, one per key
  YamlPosition at;

  // The value of a map's key; null if there is none.
  const YamlNode* find(std::string_view key) const;
};

// What a scalar is by the core schema. ambiguous: YAML 1.1 and 1.2 read different numbers (012).
enum class YamlType { string, boolean, integer, real, not_finite, ambiguous };
YamlType yaml_type(const YamlNode& scalar);

// The text as a plain scalar if it reads back as that string, else in double quotes.
// REQUIRES: no control characters.
std::string yaml_string(std::string_view text);

// What was received, for messages: "the integer 5", "the string 'fast'", "a list", "nothing".
std::string describe(const YamlNode& node);

class YamlDocument {
 public:
  // `name` stands in messages and is usually the file's path. invalid_argument says
  // "name:line:column: ..." when the text is not a map in the YAML described above.
  static Result<YamlDocument> parse(std::string_view text, std::string name);

  // Applies "path.to.key=value", the value read as YAML: replaces what stands there, makes maps on
  // the way where there is nothing, and removes the key when the value is null. What it writes is
  // reported as "--set path.to.key=value" instead of a line.
  Status set(std::string_view assignment);
  // The same for a value that a flag of its own gives: `flag` ("--workers 3") is what is reported.
  Status set(std::string_view path, std::string_view value, std::string flag);
  // Removes a key of the top level, if it is there.
  void remove(std::string_view key);

  const YamlNode& top() const { return top_; }
  const std::string& name() const { return sources_.front(); }
  // "job.yaml:12:3", or "--set epochs=3".
  std::string where(YamlPosition at) const;

 private:
  YamlNode top_;
  std::vector<std::string> sources_;
};

}  // namespace leat
