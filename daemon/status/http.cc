#include "daemon/status/http.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The phrase and the error code of a status.
struct Reason {
  int status;
  const char* phrase;
  const char* code;  // in the body of an error
};
constexpr Reason kReasons[] = {
    {200, "OK", ""},
    {201, "Created", ""},
    {400, "Bad Request", "bad_request"},
    {401, "Unauthorized", "unauthorized"},
    {403, "Forbidden", "forbidden"},
    {404, "Not Found", "not_found"},
    {405, "Method Not Allowed", "method_not_allowed"},
    {408, "Request Timeout", "timeout"},
    {409, "Conflict", "ambiguous"},
    {411, "Length Required", "length_required"},
    {413, "Content Too Large", "body_too_large"},
    {415, "Unsupported Media Type", "unsupported_media_type"},
    {417, "Expectation Failed", "expectation_failed"},
    {421, "Misdirected Request", "wrong_host"},
    {422, "Unprocessable Content", "invalid_job"},
    {431, "Request Header Fields Too Large", "header_too_large"},
    {500, "Internal Server Error", "internal"},
    {503, "Service Unavailable", "unavailable"},
    {504, "Gateway Timeout", "late"},
    {505, "HTTP Version Not Supported", "version_not_supported"},
};
const Reason& reason(int status) {
  const auto* found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                   [&](const Reason& r) { return r.status == status; });
  static constexpr Reason kOther = {0, "Other", "other"};
  return found == std::end(kReasons) ? kOther : *found;
}

// Headers of every response, unless it sets them itself: it must not be cached, loads nothing, and
// must not be shown in a frame.
constexpr std::pair<std::string_view, std::string_view> kHeaders[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
};

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  const std::string* found = nullptr;
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    if (found != nullptr) return nullptr;
    found = &value;
  }
  return found;
}

HttpResponse http_error(int status, std::string_view message, std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body = error_json(code.empty() ? reason(status).code : code, message);
  response.error = message;
  return response;
}

std::string_view http_phrase(int status) { return reason(status).phrase; }

std::string http_message(const HttpResponse& response, bool head, bool keep_alive,
                         std::string_view date) {
  std::string out = cat("HTTP/1.1 ", response.status, " ", reason(response.status).phrase, "\r\n");
  const auto add = [&out](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  add("Date", date);
  add("Content-Type", response.type);
  if (!response.stream) add("Content-Length", std::to_string(response.body.size()));
  add("Connection", keep_alive ? "keep-alive" : "close");
  for (const auto& header : kHeaders) {
    const bool replaced =
        std::any_of(response.headers.begin(), response.headers.end(),
                    [&](const HttpField& field) { return field.first == header.first; });
    if (!replaced) add(header.first, header.second);
  }
  for (const auto& [name, value] : response.headers) add(name, value);
  out += "\r\n";
  if (!head) out += response.body;
  return out;
}

std::string http_date(int64_t seconds) {
  using namespace std::chrono;
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                       "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const sys_seconds at{std::chrono::seconds(seconds)};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss<std::chrono::seconds> time(at - day);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02u %s %04d %02d:%02d:%02d GMT",
                kDays[weekday(day).c_encoding()], static_cast<unsigned>(date.day()),
                kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace leat
