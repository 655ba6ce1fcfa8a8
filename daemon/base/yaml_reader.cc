#include "daemon/base/yaml_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// The functions expected_...() describe valid values for messages.
std::string expected_int(IntRange range) {
  if (range.min == kMinInt && range.max == kMaxInt) return "an integer";
  if (range.min == range.max) return cat("the integer ", range.min);
  if (range.max == kMaxInt) return cat("an integer of at least ", range.min);
  if (range.min == kMinInt) return cat("an integer of at most ", range.max);
  return cat("an integer from ", range.min, " to ", range.max);
}

// Only the ends that are finite are named.
std::string expected_float(FloatRange range) {
  std::string text = "a number";
  if (std::isfinite(range.min)) {
    text += (range.min_open ? " greater than " : " of at least ") + shortest(range.min);
  }
  if (std::isfinite(range.max)) {
    if (std::isfinite(range.min)) text += " and";
    text += (range.max_open ? " less than " : " of at most ") + shortest(range.max);
  }
  return text;
}

std::string expected_choice(std::span<const std::string_view> choices) {
  return choices.size() == 1 ? std::string(choices[0]) : "one of " + join(choices, ", ");
}

// Returns nothing if the number does not fit in 64 bits. REQUIRES: yaml_type() is integer.
std::optional<int64_t> to_int(std::string_view text) {
  // from_chars() reads a minus but no plus.
  if (text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) base = 16;
  if (text.starts_with("0o")) base = 8;
  if (base != 10) text.remove_prefix(2);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns nothing if a double cannot represent it. REQUIRES: yaml_type() is integer or real.
std::optional<double> to_double(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0o")) {
    const auto integer = to_int(text);
    return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool in_range(double value, FloatRange range) {
  return (range.min_open ? value > range.min : value >= range.min) &&
         (range.max_open ? value < range.max : value <= range.max);
}

}  // namespace

YamlKeys::YamlKeys(YamlReader* reader, const YamlNode* node, std::string path)
    : reader_(reader), node_(node), path_(std::move(path)) {}

std::string YamlKeys::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

YamlPosition YamlKeys::position_of(std::string_view key) const {
  for (size_t i = 0; i < node_->keys.size(); ++i) {
    if (node_->keys[i].text != key) continue;
    // The library gives an empty value the position of the next token.
    return node_->items[i].kind == YamlNode::Kind::null ? node_->keys[i].at : node_->items[i].at;
  }
  return node_->at;
}

bool YamlKeys::has(std::string_view key) const { return present() && node_->find(key) != nullptr; }

bool YamlKeys::is_map(std::string_view key) const {
  const YamlNode* value = present() ? node_->find(key) : nullptr;
  return value != nullptr && value->kind == YamlNode::Kind::map;
}

bool YamlKeys::is_list(std::string_view key) const {
  const YamlNode* value = present() ? node_->find(key) : nullptr;
  return value != nullptr && value->kind == YamlNode::Kind::list;
}

std::vector<std::string> YamlKeys::keys() const {
  std::vector<std::string> out;
  if (!present()) return out;
  for (const YamlNode& key : node_->keys) out.push_back(key.text);
  return out;
}

const YamlNode* YamlKeys::ask(std::string_view key, Need need, std::string_view expected) {
  if (!present()) return nullptr;
  // The key counts as known, whatever its value is: finish() complains only of other keys.
  asked_.emplace_back(key);
  const YamlNode* value = node_->find(key);
  if (value == nullptr && need == Need::required) {
    reader_->add(node_->at, true, cat(path_of(key), ": missing; expected ", expected));
  }
  // A key without a value is an error also where the key is optional, because it is a mistake more
  // often than a wish for the default.
  if (value != nullptr && value->kind == YamlNode::Kind::null) {
    reader_->add(position_of(key), false,
                 cat(path_of(key), ": expected ", expected, ", received nothing"));
    return nullptr;
  }
  return value;
}

void YamlKeys::wrong(std::string_view path, const YamlNode& value, std::string_view expected,
                     std::string_view hint) {
  reader_->add(value.at, false,
               cat(path, ": expected ", expected, ", received ", describe(value), hint));
}

bool YamlMap::get_int(std::string_view key, Need need, IntRange range, int64_t& out) {
  const std::string expected = expected_int(range);
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::scalar || yaml_type(*value) != YamlType::integer) {
    wrong(path_of(key), *value, expected);
    return false;
  }
  const auto number = to_int(value->text);
  if (!number || *number < range.min || *number > range.max) {
    wrong(path_of(key), *value, expected, number ? "" : ", which does not fit in 64 bits");
    return false;
  }
  out = *number;
  return true;
}

bool YamlMap::get_span(std::string_view key, Need need, IntRange range, int64_t& least,
                       int64_t& most) {
  const YamlNode* value = present() ? node_->find(key) : nullptr;
  // Everything but a list is read as one integer, with the errors of that.
  if (value == nullptr || value->kind != YamlNode::Kind::list) {
    if (!get_int(key, need, range, most)) return false;
    least = 0;
    return true;
  }
  asked_.emplace_back(key);
  // Stops at the first entry that is no integer of the range: the count is wrong then.
  std::vector<int64_t> ends;
  for (const YamlNode& each : value->items) {
    const bool is_int = each.kind == YamlNode::Kind::scalar && yaml_type(each) == YamlType::integer;
    const auto number = is_int ? to_int(each.text) : std::nullopt;
    if (!number || *number < range.min || *number > range.max) break;
    ends.push_back(*number);
  }
  if (ends.size() != 2 || value->items.size() != 2 || ends[0] > ends[1]) {
    std::vector<std::string> texts;
    for (const YamlNode& each : value->items) texts.push_back(each.text);
    fail(key, cat("expected ", expected_int(range), ", or [LEAST, MOST] of such, received [",
                  join(texts, ", ").substr(0, 120), "]"));
    return false;
  }
  least = ends[0];
  most = ends[1];
  return true;
}

bool YamlMap::read_float(const std::string& path, const YamlNode& value, FloatRange range,
                         double& out) {
  const std::string expected = expected_float(range);
  const YamlType type = value.kind == YamlNode::Kind::scalar ? yaml_type(value) : YamlType::string;
  if (type != YamlType::integer && type != YamlType::real) {
    wrong(path, value, expected);
    return false;
  }
  const auto number = to_double(value.text);
  if (!number || !in_range(*number, range)) {
    wrong(path, value, expected, number ? "" : ", which no 64-bit float can hold");
    return false;
  }
  out = *number;
  return true;
}

bool YamlMap::get_float(std::string_view key, Need need, FloatRange range, double& out) {
  const YamlNode* value = ask(key, need, expected_float(range));
  return value != nullptr && read_float(path_of(key), *value, range, out);
}

bool YamlMap::get_floats(std::string_view key, Need need, FloatRange range,
                         std::vector<double>& out) {
  const YamlNode* value = ask(key, need, "a list of numbers");
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::list) {
    wrong(path_of(key), *value, "a list of numbers");
    return false;
  }
  std::vector<double> read(value->items.size());
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read_float(cat(path_of(key), "[", i, "]"), value->items[i], range, read[i])) return false;
  }
  out = std::move(read);
  return true;
}

bool YamlMap::get_bool(std::string_view key, Need need, bool& out) {
  const YamlNode* value = ask(key, need, "true or false");
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::scalar || yaml_type(*value) != YamlType::boolean) {
    wrong(path_of(key), *value, "true or false");
    return false;
  }
  out = value->text[0] == 't' || value->text[0] == 'T';
  return true;
}

bool YamlMap::read_string(const std::string& path, const YamlNode& value, std::string_view expected,
                          std::string& out) {
  if (value.kind != YamlNode::Kind::scalar) {
    wrong(path, value, expected);
    return false;
  }
  // `no` is a string here, but `5` or `true` is none without quotes.
  if (yaml_type(value) != YamlType::string) {
    wrong(path, value, expected, "; put it in quotes if it is meant as text");
    return false;
  }
  const bool printable = std::all_of(value.text.begin(), value.text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
  if (value.text.empty() || !printable) {
    wrong(path, value, expected, value.text.empty() ? "" : ", which has control characters");
    return false;
  }
  out = value.text;
  return true;
}

bool YamlMap::get_string(std::string_view key, Need need, std::string& out, std::string_view what) {
  const YamlNode* value = ask(key, need, what);
  return value != nullptr && read_string(path_of(key), *value, what, out);
}

bool YamlMap::get_scalar(std::string_view key, Need need, std::string_view what, std::string& out) {
  const YamlNode* value = ask(key, need, what);
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::scalar) {
    wrong(path_of(key), *value, what);
    return false;
  }
  out = value->text;
  return true;
}

bool YamlMap::read_choice(const std::string& path, const YamlNode& value,
                          std::span<const std::string_view> choices, size_t& out) {
  const std::string expected = expected_choice(choices);
  if (value.kind == YamlNode::Kind::scalar) {
    // The type does not matter, because a choice may look like a number or like a boolean.
    const auto found = std::find(choices.begin(), choices.end(), value.text);
    if (found != choices.end()) {
      out = static_cast<size_t>(found - choices.begin());
      return true;
    }
    const std::vector<std::string> names(choices.begin(), choices.end());
    wrong(path, value, expected, did_you_mean(value.text, names));
    return false;
  }
  wrong(path, value, expected);
  return false;
}

bool YamlMap::get_choice(std::string_view key, Need need, std::span<const std::string_view> choices,
                         size_t& out) {
  const YamlNode* value = ask(key, need, expected_choice(choices));
  return value != nullptr && read_choice(path_of(key), *value, choices, out);
}

bool YamlMap::get_strings(std::string_view key, Need need, std::vector<std::string>& out) {
  const YamlNode* value = ask(key, need, "a list of strings");
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::list) {
    wrong(path_of(key), *value, "a list of strings");
    return false;
  }
  // `out` only changes if every entry is right.
  std::vector<std::string> read(value->items.size());
  for (size_t i = 0; i < read.size(); ++i) {
    const std::string path = cat(path_of(key), "[", i, "]");
    if (!read_string(path, value->items[i], "a string", read[i])) return false;
  }
  out = std::move(read);
  return true;
}

bool YamlMap::get_scalars(std::string_view key, Need need, bool list,
                          std::vector<std::string>& out) {
  const std::string_view expected = list ? "a value or a list of them" : "a value";
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  const bool one = value->kind == YamlNode::Kind::scalar;
  if (!one && (!list || value->kind != YamlNode::Kind::list || value->items.empty())) {
    wrong(path_of(key), *value, expected);
    return false;
  }
  std::vector<std::string> read;
  for (const YamlNode& each : one ? std::span(value, 1) : std::span<const YamlNode>(value->items)) {
    const bool printable = std::all_of(each.text.begin(), each.text.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    });
    if (each.kind != YamlNode::Kind::scalar || !printable) {
      wrong(path_of(key), each, "a value without control characters");
      return false;
    }
    read.push_back(each.text);
  }
  out = std::move(read);
  return true;
}

bool YamlMap::get_choices(std::string_view key, Need need,
                          std::span<const std::string_view> choices, std::vector<size_t>& out) {
  const std::string expected = "a list of " + join(choices, ", ");
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::list) {
    wrong(path_of(key), *value, expected);
    return false;
  }
  std::vector<size_t> read;
  for (size_t i = 0; i < value->items.size(); ++i) {
    const std::string path = cat(path_of(key), "[", i, "]");
    size_t index = 0;
    if (!read_choice(path, value->items[i], choices, index)) return false;
    if (std::find(read.begin(), read.end(), index) != read.end()) {
      wrong(path, value->items[i], "each entry once", " again");
      return false;
    }
    read.push_back(index);
  }
  out = std::move(read);
  return true;
}

bool YamlMap::get_ints(std::string_view key, Need need, IntRange range, std::vector<int64_t>& out) {
  const std::string expected = cat("a list, each ", expected_int(range));
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::list) {
    wrong(path_of(key), *value, expected);
    return false;
  }
  std::vector<int64_t> read;
  for (size_t i = 0; i < value->items.size(); ++i) {
    const YamlNode& each = value->items[i];
    const bool is_int = each.kind == YamlNode::Kind::scalar && yaml_type(each) == YamlType::integer;
    const auto number = is_int ? to_int(each.text) : std::nullopt;
    if (!number || *number < range.min || *number > range.max) {
      wrong(cat(path_of(key), "[", i, "]"), each, expected_int(range));
      return false;
    }
    read.push_back(*number);
  }
  out = std::move(read);
  return true;
}

bool YamlMap::get_numbers(std::string_view key, Need need, FloatRange range, bool whole,
                          size_t least, size_t most, std::vector<double>& out) {
  std::string expected = expected_float(range);
  if (whole) expected.replace(0, 8, "an integer");  // "a number"
  if (most > 1) {
    expected = least == most ? cat("a list of ", most, ", each ", expected)
                             : cat(expected, ", or a list of up to ", most);
  }
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  const bool list = value->kind == YamlNode::Kind::list;
  const std::span<const YamlNode> entries =
      list ? std::span<const YamlNode>(value->items) : std::span(value, 1);
  if (entries.size() < least || entries.size() > most || (list && most == 1)) {
    wrong(path_of(key), *value, expected, list ? cat(" of ", entries.size()) : std::string());
    return false;
  }
  std::vector<double> read;
  for (size_t i = 0; i < entries.size(); ++i) {
    const YamlType type =
        entries[i].kind == YamlNode::Kind::scalar ? yaml_type(entries[i]) : YamlType::string;
    const bool number = type == YamlType::integer || (type == YamlType::real && !whole);
    const auto parsed = number ? to_double(entries[i].text) : std::nullopt;
    if (!parsed || !in_range(*parsed, range)) {
      wrong(list ? cat(path_of(key), "[", i, "]") : path_of(key), entries[i], expected);
      return false;
    }
    read.push_back(*parsed);
  }
  out = std::move(read);
  return true;
}

std::vector<YamlMap> YamlMap::get_maps(std::string_view key, Need need) {
  const YamlNode* value = ask(key, need, "a list of maps");
  std::vector<YamlMap> maps;
  if (value == nullptr) return maps;
  if (value->kind != YamlNode::Kind::list) wrong(path_of(key), *value, "a list of maps");
  for (size_t i = 0; value->kind == YamlNode::Kind::list && i < value->items.size(); ++i) {
    const std::string path = cat(path_of(key), "[", i, "]");
    if (value->items[i].kind == YamlNode::Kind::map) {
      maps.push_back(YamlMap(reader_, &value->items[i], path));
    } else {
      wrong(path, value->items[i], "a map");
    }
  }
  return maps;
}

bool YamlMap::get_named(std::string_view key, Need need, std::span<const std::string_view> choices,
                        std::vector<YamlNamed>& out) {
  const std::string expected =
      cat("a list of ", join(choices, ", "), ", or of maps with such a name");
  const YamlNode* value = ask(key, need, expected);
  if (value == nullptr) return false;
  if (value->kind != YamlNode::Kind::list) {
    wrong(path_of(key), *value, expected);
    return false;
  }
  bool right = true;
  for (size_t i = 0; i < value->items.size(); ++i) {
    const YamlNode& item = value->items[i];
    const std::string path = cat(path_of(key), "[", i, "]");
    const bool is_map = item.kind == YamlNode::Kind::map;
    YamlNamed entry{0, YamlMap(reader_, is_map ? &item : nullptr, path)};
    const bool named = is_map ? entry.map.get_choice("name", Need::required, choices, entry.choice)
                              : read_choice(path, item, choices, entry.choice);
    right = right && named;
    if (named) out.push_back(std::move(entry));
  }
  return right;
}

YamlMap YamlMap::get_map(std::string_view key, Need need) {
  const YamlNode* value = ask(key, need, "a map");
  if (value != nullptr && value->kind != YamlNode::Kind::map) {
    wrong(path_of(key), *value, "a map");
    // The map counts as absent, so that its keys cause no further errors.
    value = nullptr;
  }
  return YamlMap(reader_, value, path_of(key));
}

void YamlKeys::fail(std::string_view key, std::string_view message) {
  reader_->add(position_of(key), false, cat(path_of(key), ": ", message));
}

std::string YamlKeys::where(std::string_view key) const {
  return reader_->document_.where(position_of(key));
}

void YamlKeys::skip(std::string_view key) { asked_.emplace_back(key); }

void YamlKeys::finish() {
  if (!present()) return;
  for (const YamlNode& key : node_->keys) {
    if (std::find(asked_.begin(), asked_.end(), key.text) != asked_.end()) continue;
    // The keys that getters have asked for are all that exist here.
    const std::string hint = did_you_mean(key.text, asked_);
    reader_->add(key.at, false,
                 cat(path_of(key.text), ": unknown key",
                     hint.empty() ? "; the keys here are " + join(asked_, ", ") : hint));
  }
}

void YamlReader::add(YamlPosition at, bool missing, std::string message) {
  errors_.push_back({at, missing, std::move(message)});
}

Status YamlReader::status() const {
  if (ok()) return {};
  // The order in which people would find the errors: the file before the flags, and each from its
  // top.
  const auto rank = [](const Error& error) {
    return std::tuple(error.missing, error.at.source, error.at.line, error.at.column);
  };
  const auto first =
      std::min_element(errors_.begin(), errors_.end(),
                       [&](const Error& a, const Error& b) { return rank(a) < rank(b); });
  return invalid_argument(document_.where(first->at) + ": " + first->message);
}

}  // namespace leat
