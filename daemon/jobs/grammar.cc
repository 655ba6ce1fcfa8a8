#include "daemon/jobs/grammar.h"

#include <algorithm>

#include "daemon/jobs/records.h"

namespace leat {
namespace {

// make_job_id() gives at most 48 characters of the name, a '-' and 8 digits.
constexpr size_t kLongestId = 80;
constexpr size_t kLongestWorker = 64;
constexpr size_t kLongestQuote = 80;

// These compare bytes and not with <cctype>, whose answers depend on the locale.
bool is_small(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_plain(char c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }
bool is_control_character(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

// A '-' at the start would be an option of a command, so the first character must be a letter or a
// digit. The same holds for a worker's name.
bool is_job_id(std::string_view text) {
  return !text.empty() && text.size() <= kLongestId && is_small(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_small(c) || c == '-'; });
}

bool is_worker_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestWorker && is_plain(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_plain(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_left_file(std::string_view name) {
  // A control character could change the state of the user's terminal when a client lists the
  // files.
  return is_tame_path(name) && name.front() != '.' &&
         std::none_of(name.begin(), name.end(), is_control_character);
}

std::string quoted_start(std::string_view text) {
  // The text may be anything that a peer sent, so a long one must not fill the log.
  const bool cut = text.size() > kLongestQuote;
  return "'" + std::string(text.substr(0, kLongestQuote)) + (cut ? "..." : "") + "'";
}

}  // namespace leat
