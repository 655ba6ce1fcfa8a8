#include "daemon/process/field_reader.h"

#include <algorithm>
#include <charconv>

#include "daemon/base/units.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"
#include "transport/rpc/socket.h"

namespace leat {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// True if the text begins with a letter or digit, and contains only these and `extra`.
bool is_name(std::string_view text, size_t longest, std::string_view extra) {
  return !text.empty() && text.size() <= longest && is_letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_letter_or_digit(c) || extra.find(c) != std::string_view::npos;
         });
}

// True for "ann", "uid:1000", "group:staff" and "*".
bool is_local_user(std::string_view who) {
  if (who.starts_with("uid:")) {
    who.remove_prefix(4);
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(who.data(), who.data() + who.size(), number);
    return error == std::errc() && end == who.data() + who.size();
  }
  if (who.starts_with("group:")) who.remove_prefix(6);
  return !who.empty() && who.find(':') == std::string_view::npos;
}

// True for the characters of a name or an address, at most as long as DNS allows. Nothing is
// resolved.
bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == ':' || c == '_';
  });
}

// True if the text has one of the forms of `use`. A name is resolved later, when it is dialed.
bool may_be(const std::string& text, AddressUse use) {
  const auto parts = split_host_port(text);
  switch (use) {
    case AddressUse::bind_or_off:
      return text == "off" || parse_socket_address(text).ok();
    case AddressUse::bind:
      return parse_socket_address(text).ok();
    case AddressUse::advertise:
      if (!parts && text.find_first_of(":[]") == std::string::npos) return is_host(text);
      [[fallthrough]];
    case AddressUse::dial:
      return parts && parts->port > 0;
  }
  return false;
}

// Describes the forms for messages.
std::string_view expectation(AddressUse use) {
  switch (use) {
    case AddressUse::bind:
      return "an address such as 127.0.0.1:17461 or '[::1]:17461'";
    case AddressUse::bind_or_off:
      return "an address such as 127.0.0.1:17460, or off";
    case AddressUse::dial:
      return "host:port such as master.example:17461";
    case AddressUse::advertise:
      return "a host, or host:port, such as worker-1.example:17463";
  }
  return "";
}

}  // namespace

const YamlNode* find_path(const YamlDocument& document, std::string_view dotted) {
  const YamlNode* node = &document.top();
  // A key behind a value that is no map is not there: find() returns null for it.
  while (node != nullptr && !dotted.empty()) {
    const size_t dot = std::min(dotted.find('.'), dotted.size());
    node = node->find(dotted.substr(0, dot));
    dotted.remove_prefix(std::min(dot + 1, dotted.size()));
  }
  return node;
}

std::optional<HostPort> split_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  // Only IPv6 has colons, and it must have brackets: "::1:80" could be read in two ways.
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!is_host(host) || (host.find(':') != std::string_view::npos) != brackets) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  // A port has neither a sign nor a zero in front, so each port is written in one way.
  const bool plain = error == std::errc() && end == port.data() + port.size() &&
                     (port == "0" || port.front() != '0');
  if (!plain || number < 0 || number > 65535) return std::nullopt;
  return HostPort{std::string(host), number};
}

std::string FieldReader::absolute(std::string_view key, const std::string& path) const {
  const YamlNode* node = find_path(document_, prefix_ + std::string(key));
  // Source 0 is the file. A path of a flag or a variable is meant from the folder of the caller.
  const bool in_file = node != nullptr && node->at.source == 0;
  std::error_code ignored;
  const auto folder = in_file ? folder_ : std::filesystem::current_path(ignored);
  return (folder / path).lexically_normal().string();
}

void FieldReader::name(std::string_view key, size_t longest, std::string& out) {
  if (!map_->get_string(key, Need::optional, out) || is_name(out, longest, "-_.")) return;
  map_->fail(key, cat("expected letters, digits, '-', '_' and '.', at most ", longest,
                      " and a letter or digit first, received '", out.substr(0, 120), "'"));
}

void FieldReader::address(std::string_view key, AddressUse use, std::string& out) {
  if (!map_->get_string(key, Need::optional, out, expectation(use)) || may_be(out, use)) return;
  map_->fail(key, cat("expected ", expectation(use), ", received '", out.substr(0, 120), "'"));
}

void FieldReader::path(std::string_view key, std::string& out) {
  if (map_->get_string(key, Need::optional, out, "a path")) out = absolute(key, out);
}

void FieldReader::path_or_off(std::string_view key, std::string& out) {
  if (!map_->get_string(key, Need::optional, out, "a path, or off")) return;
  if (out != "off") out = absolute(key, out);
}

void FieldReader::local_users(std::string_view key, LocalUsers& out) {
  map(key, [&](FieldReader& entries) {
    for (const std::string& who : entries.map_->keys()) {
      LocalRole role = LocalRole::none;
      if (entries.map_->get_enum(who, Need::optional, kLocalRoles, role)) out[who] = role;
      if (!is_local_user(who)) {
        entries.map_->fail(who,
                           "expected a user's name, uid:NUMBER, group:NAME, or * for all others");
      }
    }
  });
}

void FieldReader::worker_limits(std::string_view key, WorkerLimits& out) {
  map(key, [&](FieldReader& entries) {
    for (const std::string& pattern : entries.map_->keys()) {
      auto& [name, limit] = out.emplace_back(pattern, WorkerLimit{});
      entries.map(name, [&limit = limit](FieldReader& fields) { visit(fields, limit); });
    }
  });
}

void FieldReader::place(std::string_view key, std::string& out) {
  if (!map_->get_string(key, Need::optional, out, "a path, or s3://...")) return;
  if (const Status place = check_writable_place(out); !place.ok()) map_->fail(key, place.message());
  if (!is_store_path(out)) out = absolute(key, out);
}

void FieldReader::named_paths(std::string_view key, std::map<std::string, std::string>& out) {
  // The keys are free, so they are listed first. Reading each one keeps finish() from calling it
  // unknown.
  map(key, [&](FieldReader& entries) {
    for (const std::string& name : entries.map_->keys()) {
      std::string path;
      if (entries.map_->get_string(name, Need::optional, path,
                                   "a path, or the address of a store")) {
        const Status store = is_store_path(path) ? check_store_path(path) : Status();
        if (!store.ok()) entries.map_->fail(name, store.message());
        if (!is_store_path(path)) path = entries.absolute(name, path);
      }
      // A name with a dot could not be set by a flag, because dots divide keys.
      if (!is_name(name, kMaxWorkerName, "-_")) {
        entries.map_->fail(name, cat("expected a name of letters, digits, '-' and '_', at most ",
                                     kMaxWorkerName, " and a letter or digit first"));
      }
      out[name] = path;
    }
  });
}

void FieldReader::bytes(std::string_view key, uint64_t& out) {
  constexpr std::string_view kExpected = "a size such as 8GiB, 512MiB or 1073741824";
  std::string text;
  // A scalar and not a string, so that a number without a unit needs no quotes.
  if (!map_->get_scalar(key, Need::optional, kExpected, text)) return;
  const auto bytes = parse_bytes(text);
  if (bytes) {
    out = *bytes;
  } else {
    map_->fail(key, cat("expected ", kExpected, ", received '", text.substr(0, 60), "'"));
  }
}

void FieldReader::duration(std::string_view key, std::chrono::milliseconds& out) {
  constexpr std::string_view kExpected = "a time greater than 0 such as 30s or 500ms";
  std::string text;
  if (!map_->get_scalar(key, Need::optional, kExpected, text)) return;
  const auto time = parse_duration(text);
  if (time && time->count() > 0) {
    out = *time;
  } else {
    map_->fail(key, cat("expected ", kExpected, ", received '", text.substr(0, 60), "'"));
  }
}

void FieldReader::map(std::string_view key, const std::function<void(FieldReader&)>& visit_fields) {
  // An absent map is read like an empty one, so that its fields keep their defaults.
  YamlMap inner = map_->get_map(key, Need::optional);
  FieldReader below(document_, inner, folder_);
  below.prefix_ = cat(prefix_, key, ".");
  visit_fields(below);
  inner.finish();
}

}  // namespace leat
