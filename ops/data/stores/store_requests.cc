#include "ops/data/stores/store_requests.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#include "devices/base/text.h"
#include "ops/data/stores/s3_list.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::optional<std::string> variable_of_process(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

bool may_pass_later(long status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

Status refused_request(long status, bool is_s3) {
  return failed_precondition(cat("the store refuses the request (status ", status, ")",
                                 is_s3 ? "; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of this "
                                         "process have the credentials"
                                       : ""));
}

// A pause that ends early if the caller is told to stop.
void pause_for(milliseconds pause, const std::function<bool()>& stopped) {
  constexpr milliseconds kLook{50};
  for (const auto end = Steady::now() + pause; Steady::now() < end && !(stopped && stopped());)
    std::this_thread::sleep_for(stopped ? std::min(kLook, pause) : pause);
}

}  // namespace

StoreParts::StoreParts(StoreOptions given)
    : options(std::move(given)), client(make_url_client()), cache(options.cache_bytes) {
  if (!options.variable) options.variable = variable_of_process;
}

bool is_missing(long status) { return status == 404 || status == 410; }

Status error_of_status(long status, bool is_s3) {
  if (is_missing(status))
    return failed_precondition(cat("there is no such file (status ", status, ")"));
  if (status == 401 || status == 403) return refused_request(status, is_s3);
  if (status == 412 || status == 416) return failed_precondition("it has changed");
  if (status == 200) {
    return failed_precondition(
        "expected a part of the file, the server sends all of it: it knows no ranges");
  }
  return failed_precondition(cat("expected status 206, received ", status));
}

Status error_of_write(const UrlAnswer& answer) {
  const std::string words = s3_element(answer.body, "Message");
  const std::string told = words.empty() ? "" : cat(": ", words.substr(0, 500));
  if (answer.status == 401 || answer.status == 403) {
    const Status refused = refused_request(answer.status, true);
    return Status(refused.code(), cat(refused.message(), told));
  }
  if (is_missing(answer.status))
    return failed_precondition(cat("there is no such bucket (status ", answer.status, ")", told));
  return failed_precondition(
      cat("expected that the store takes the file, received status ", answer.status, told));
}

Status check_whole(const UrlAnswer& answer, uint64_t most_bytes) {
  if (!answer.cut) return {};
  return invalid_argument(cat("expected an answer of at most ", most_bytes, " bytes"));
}

Status ask_store(StoreParts& parts, const std::string& path, const StoreTimes& times,
                 const std::function<UrlRequest()>& request, uint64_t most_bytes,
                 const std::function<Status(UrlAnswer)>& use) {
  const auto stopped = times.heeds_stop ? parts.options.stopped : nullptr;
  const auto end = Steady::now() + times.patience;
  milliseconds pause = parts.options.pause;
  Status answered;  // the last failure that an answer told
  for (int tries = 1;; ++tries) {
    if (stopped && stopped()) return cancelled(cat("'", path, "': the request was given up"));
    const auto left = std::chrono::duration_cast<milliseconds>(end - Steady::now());
    const milliseconds limit = std::clamp(left, milliseconds(1), times.request);
    // Each request has a signature of its own time.
    UrlRequest next = request();
    next.stopped = stopped;
    auto answer = parts.client->send(next, most_bytes, limit);
    Status status = answer.status();
    if (answer.ok()) {
      status = may_pass_later(answer->status)
                   ? unavailable(cat("the store answers with status ", answer->status))
                   : use(*std::move(answer));
      answered = status;
    }
    if (status.ok()) return status;
    if (status.code() != Code::unavailable || Steady::now() + pause >= end) {
      // The last request may have had no time left for an answer.
      if (limit < times.request && !answered.ok()) status = answered;
      return Status(status.code(), cat("'", path, "': ", status.message(),
                                       tries > 1 ? cat(", after ", tries, " requests") : ""));
    }
    pause_for(pause, stopped);
    pause = std::min(pause * 2, milliseconds(5000));
  }
}

std::string header_of(const UrlAnswer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? "" : found->second;
}

}  // namespace leat
