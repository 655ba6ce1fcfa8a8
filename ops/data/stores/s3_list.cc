#include "ops/data/stores/s3_list.h"

#include <charconv>
#include <optional>

#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

// The character of an entity: "amp", "#38" or "#x26"; "" if it is none.
std::string text_of_entity(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
  for (const auto& [known, value] : kEntities) {
    if (name == known) return std::string(value);
  }
  if (!name.starts_with('#')) return "";
  name.remove_prefix(1);
  const int base = name.starts_with('x') ? 16 : 10;
  if (base == 16) name.remove_prefix(1);
  uint32_t point = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), point, base);
  std::string out;
  if (error == std::errc() && end == name.data() + name.size() && point > 0 && point <= 0x10ffff)
    append_utf8(point, out);
  return is_utf8(out) ? out : "";
}

// The text of an element without elements in it, with its entities replaced.
std::string plain_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.front() == '&' ? text.find(';') : std::string_view::npos;
    const std::string value =
        end == std::string_view::npos ? "" : text_of_entity(text.substr(1, end - 1));
    out += value.empty() ? std::string(1, text.front()) : value;
    text.remove_prefix(value.empty() ? 1 : end + 1);
  }
  return out;
}

// Goes over elements of one name, one after the other.
class ElementReader {
 public:
  ElementReader(std::string_view xml, std::string_view name)
      : xml_(xml), begin_(cat("<", name, ">")), end_(cat("</", name, ">")) {}
  // The text between the tags of the next one; nothing behind the last. invalid_argument if it has
  // no end.
  Result<std::optional<std::string_view>> next() {
    const size_t begin = xml_.find(begin_);
    if (begin == std::string_view::npos) return std::optional<std::string_view>();
    const size_t from = begin + begin_.size(), end = xml_.find(end_, from);
    if (end == std::string_view::npos)
      return invalid_argument(cat("expected a list of keys, ", begin_, " has no end"));
    const std::string_view text = xml_.substr(from, end - from);
    xml_.remove_prefix(end + end_.size());
    return std::optional(text);
  }

 private:
  std::string_view xml_;
  const std::string begin_, end_;
};

// Adds the keys in the elements `inner` of each element `outer`.
Status add_keys(std::string_view xml, std::string_view outer, std::string_view inner,
                std::string_view prefix, S3List& out) {
  ElementReader elements(xml, outer);
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const auto element, elements.next());
    if (!element) return {};
    ElementReader keys(*element, inner);
    LEAT_ASSIGN_OR_RETURN(const auto text, keys.next());
    std::string key = plain_text(text.value_or(""));
    if (!key.starts_with(prefix))
      return invalid_argument(
          cat("expected keys that begin with '", prefix, "', received '", key, "'"));
    key.erase(0, prefix.size());
    if (key.ends_with('/')) key.pop_back();
    if (!key.empty()) out.names.push_back(std::move(key));  // empty: the folder itself
  }
}

std::string_view text_of_answer(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string s3_element(std::span<const std::byte> xml, std::string_view name) {
  ElementReader elements(text_of_answer(xml), name);
  const auto text = elements.next();
  return text.ok() && *text ? plain_text(**text) : "";
}

Result<S3List> parse_s3_list(std::span<const std::byte> bytes, std::string_view prefix) {
  const std::string_view xml = text_of_answer(bytes);
  if (xml.find("<ListBucketResult") == std::string_view::npos)
    return invalid_argument("expected a list of keys, received another text");
  S3List out;
  LEAT_RETURN_IF_ERROR(add_keys(xml, "Contents", "Key", prefix, out));
  LEAT_RETURN_IF_ERROR(add_keys(xml, "CommonPrefixes", "Prefix", prefix, out));
  ElementReader tokens(xml, "NextContinuationToken");
  LEAT_ASSIGN_OR_RETURN(const auto token, tokens.next());
  if (token) out.next = plain_text(*token);
  return out;
}

}  // namespace leat
