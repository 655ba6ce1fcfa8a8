// A strict reader of JSON (RFC 8259) that goes over a text once and keeps nothing: the caller says
// which values it wants while it meets them. Private to ops/data/sources.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

enum class JsonKind : uint8_t { object, array, string, number, boolean, null };

// A position in a text. After an error it is of no further use. Threads: one.
//
// All errors are invalid_argument without a subject: "character 17: expected ',', received 'x'".
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  // The kind of the value that begins at the next character behind blanks, which is not consumed.
  Result<JsonKind> kind();
  // Each consumes one value of its kind.
  Result<std::string> string();
  // The number as it is written, or true, false and null. It is a number of JSON's grammar.
  Result<std::string_view> word();
  // Consumes any value. REQUIRES: depth is that of the value; nested values go one deeper.
  Status skip(int depth);

  // An object: for each of its names, `member` consumes the value. An array: `element` does.
  template <typename F>
  Status object(F member) {
    LEAT_RETURN_IF_ERROR(expect('{'));
    if (take('}')) return {};
    for (;;) {
      LEAT_ASSIGN_OR_RETURN(const std::string name, string());
      LEAT_RETURN_IF_ERROR(expect(':'));
      LEAT_RETURN_IF_ERROR(member(name));
      if (take('}')) return {};
      LEAT_RETURN_IF_ERROR(expect(','));
    }
  }
  template <typename F>
  Status array(F element) {
    LEAT_RETURN_IF_ERROR(expect('['));
    if (take(']')) return {};
    for (;;) {
      LEAT_RETURN_IF_ERROR(element());
      if (take(']')) return {};
      LEAT_RETURN_IF_ERROR(expect(','));
    }
  }
  // Checks that nothing but blanks follows.
  Status end();
  Status wrong(std::string_view expected) const;

 private:
  void blanks();
  bool take(char c);
  Status expect(char c);
  Status escape(std::string& out);
  Result<unsigned> hex();

  const std::string_view text_;
  size_t at_ = 0;
};

// Values are nested at most so deep.
inline constexpr int kJsonDepth = 64;

std::string_view json_kind_name(JsonKind kind);

}  // namespace leat
