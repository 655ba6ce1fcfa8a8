#include "ops/data/stores/url_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using CurlHandle = std::unique_ptr<CURL, FreeHandle>;

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// The answer while it comes.
struct Coming {
  UrlAnswer answer;
  uint64_t most = 0;
};

std::string trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

size_t take_header(char* data, size_t size, size_t count, void* user) {
  auto& coming = *static_cast<Coming*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {  // of another answer: the one before named another place
    coming.answer.headers.clear();
    coming.answer.body.clear();
    return line.size();
  }
  const size_t colon = line.find(':');
  constexpr size_t kMostHeaders = 1000;
  if (colon == std::string_view::npos || coming.answer.headers.size() >= kMostHeaders)
    return line.size();
  coming.answer.headers[lower_case(trimmed(line.substr(0, colon)))] =
      trimmed(line.substr(colon + 1));
  return line.size();
}

// The transfer ends at a body that is too long: another number than that of the bytes is returned.
size_t take_body(char* data, size_t size, size_t count, void* user) {
  auto& coming = *static_cast<Coming*>(user);
  const size_t bytes = size * count;
  const size_t taken = std::min<uint64_t>(bytes, coming.most - coming.answer.body.size());
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  coming.answer.body.insert(coming.answer.body.end(), begin, begin + taken);
  coming.answer.cut = taken < bytes;
  return taken;
}

// Another number than 0 ends the transfer.
int is_stopped(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const UrlRequest*>(user)->stopped() ? 1 : 0;
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
      return false;
    default:
      return true;
  }
}

class CurlClient final : public UrlClient {
 public:
  Result<UrlAnswer> send(const UrlRequest& request, uint64_t most_bytes,
                         std::chrono::milliseconds limit) override {
    CurlHandle handle = borrow();
    if (!handle) return resource_exhausted("libcurl has no memory for a request");
    Coming coming;
    coming.most = most_bytes;
    std::unique_ptr<curl_slist, FreeHeaders> headers;
    const auto add = [&](const std::string& line) {
      curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
      if (longer == nullptr) return false;
      (void)headers.release();
      headers.reset(longer);
      return true;
    };
    bool added = true;
    for (const auto& [name, value] : request.headers) added &= add(cat(name, ": ", value));
    // Without these two libcurl names a form as the type, and waits a second for leave to send.
    if (request.method != "GET") added &= add("Content-Type:") && add("Expect:");
    if (!added) return resource_exhausted("libcurl has no memory for a request");
    char why[CURL_ERROR_SIZE] = "";
    set_options(handle.get(), request, limit);
    curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(handle.get(), CURLOPT_HEADERDATA, &coming);
    curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &coming);
    curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, why);
    const CURLcode code = curl_easy_perform(handle.get());
    curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &coming.answer.status);
    curl_easy_reset(handle.get());  // which keeps its connections, and no pointer to this call
    give_back(std::move(handle));
    if (code == CURLE_OK || coming.answer.cut) return std::move(coming.answer);
    if (code == CURLE_ABORTED_BY_CALLBACK) return cancelled("the request was given up");
    const std::string text = why[0] != '\0' ? why : curl_easy_strerror(code);
    return may_pass(code) ? unavailable(text) : failed_precondition(text);
  }

 private:
  static void set_options(CURL* handle, const UrlRequest& request,
                          std::chrono::milliseconds limit) {
    constexpr long kMostRedirects = 5;
    curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
    // No downgrade: a place behind https:// is another one behind https://.
    const bool safe = request.url.starts_with("https:");
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, safe ? "https" : "http,https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
    curl_easy_setopt(handle, CURLOPT_MAXREDIRS, kMostRedirects);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "leat");
    curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);  // what is signed is what is sent
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &take_header);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_body);
    if (request.stopped) {
      curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
      curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &is_stopped);
      curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &request);
    }
    if (request.method == "GET") return;
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method == "DELETE") return;
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(
        handle, CURLOPT_POSTFIELDS,
        request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
  }

  CurlHandle borrow() {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (started != CURLE_OK) return nullptr;
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return CurlHandle(curl_easy_init());
    CurlHandle out = std::move(idle_.back());
    idle_.pop_back();
    return out;
  }
  void give_back(CurlHandle handle) {
    constexpr size_t kMostIdle = 16;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(handle));
  }

  std::mutex mutex_;
  std::vector<CurlHandle> idle_;
};

}  // namespace

std::unique_ptr<UrlClient> make_url_client() { return std::make_unique<CurlClient>(); }

}  // namespace leat
