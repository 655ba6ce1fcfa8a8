#include "daemon/spec/queue_terms.h"

#include <algorithm>
#include <charconv>

#include "devices/base/text.h"

namespace leat {
namespace {

int64_t number_in(std::string_view text) {
  int64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string print_terms(const QueueTerms& terms) {
  std::string text;
  const auto add = [&](const char* key, const auto& value) {
    text += cat(text.empty() ? "" : " ", key, "=", value);
  };
  if (terms.priority != 0) add("priority", terms.priority);
  if (terms.max_run_time.count() > 0) add("max_run_ms", terms.max_run_time.count());
  if (terms.preemptible) add("preemptible", 1);
  if (terms.cpu > 0) add("cpu", terms.cpu);
  if (terms.memory > 0) add("memory", terms.memory);
  if (terms.paused) add("paused", 1);
  // The last one, since a name may have spaces.
  if (!terms.user.empty()) add("user", terms.user);
  return text;
}

QueueTerms parse_terms(std::string_view text) {
  QueueTerms terms;
  while (!text.empty()) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view key = text.substr(0, equals);
    text.remove_prefix(std::min(equals + 1, text.size()));
    const size_t end = key == "user" ? text.size() : std::min(text.find(' '), text.size());
    const std::string_view value = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (key == "priority") terms.priority = number_in(value);
    if (key == "max_run_ms") terms.max_run_time = std::chrono::milliseconds(number_in(value));
    if (key == "preemptible") terms.preemptible = value == "1";
    if (key == "cpu") terms.cpu = number_in(value);
    if (key == "memory") terms.memory = static_cast<uint64_t>(number_in(value));
    if (key == "paused") terms.paused = value == "1";
    if (key == "user") terms.user = value;
  }
  return terms;
}

}  // namespace leat
