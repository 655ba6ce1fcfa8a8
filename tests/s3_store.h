// A store with the protocol of S3 on a free port of this machine, which keeps its objects in
// memory: for tests that write to a store, lose it, and read it again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices/base/ascii_text.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/http_store.h"

namespace leat {

// It has one bucket, "bucket", and checks the hash of each body. Threads: any.
class S3Store {
 public:
  // Called with the number of a request, from 0, before it is carried out: an answer is sent in
  // place of the store's own, and then nothing is carried out.
  using Fault = std::function<std::optional<StoreAnswer>(int, const StoreRequest&)>;

  explicit S3Store(Fault fault = {})
      : fault_(std::move(fault)), server_([this](const StoreRequest& r) { return answer(r); }) {}

  std::string url() const { return server_.url(); }
  // The environment in which programs use this store.
  std::vector<std::string> environment() const {
    return {"AWS_ENDPOINT_URL=" + url(), "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=key"};
  }
  // The same as StoreOptions::variable.
  std::function<std::optional<std::string>(const std::string&)> variable() const {
    return [at = url()](const std::string& name) -> std::optional<std::string> {
      if (name == "AWS_ENDPOINT_URL") return at;
      if (name == "AWS_ACCESS_KEY_ID") return "id";
      if (name == "AWS_SECRET_ACCESS_KEY") return "key";
      return std::nullopt;
    };
  }

  // By key, without the bucket.
  std::map<std::string, std::string> objects() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  void put(const std::string& key, std::string content) {
    const std::lock_guard lock(mutex_);
    objects_[key] = std::move(content);
  }
  // Uploads in parts that were begun, and neither made whole nor given up.
  size_t uploads() const {
    const std::lock_guard lock(mutex_);
    return uploads_.size();
  }
  std::vector<StoreRequest> requests() const { return server_.requests(); }
  // While it is true, every request gets the status 503.
  void set_down(bool down) {
    const std::lock_guard lock(mutex_);
    down_ = down;
  }

 private:
  static std::string decoded(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        out += text[i];
        continue;
      }
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    }
    return out;
  }
  static std::map<std::string, std::string> query_of(const std::string& text) {
    std::map<std::string, std::string> out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('&', at), text.size()), equals = text.find('=', at);
      out[decoded(text.substr(at, equals - at))] =
          decoded(text.substr(equals + 1, end - equals - 1));
      at = end + 1;
    }
    return out;
  }
  static std::string hash_of(const std::string& body) {
    return to_hex(sha256(std::as_bytes(std::span(body))));
  }

  StoreAnswer answer(const StoreRequest& request) {
    const std::lock_guard lock(mutex_);
    const int number = number_++;
    if (down_) return {503};
    if (fault_) {
      if (auto given = fault_(number, request)) return *std::move(given);
    }
    const auto hash = request.headers.find("x-amz-content-sha256");
    if (hash == request.headers.end() || hash->second != hash_of(request.body)) return {400};
    const size_t mark = std::min(request.target.find('?'), request.target.size());
    const std::string path = decoded(request.target.substr(0, mark));
    const auto query = query_of(request.target.substr(std::min(mark + 1, request.target.size())));
    const std::string bucket = "/bucket/";
    if (!path.starts_with(bucket)) {
      return {404, {}, "<Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>"};
    }
    return carry_out(request, path.substr(bucket.size()), query);
  }

  // REQUIRES: the mutex is locked.
  StoreAnswer carry_out(const StoreRequest& request, const std::string& key,
                        const std::map<std::string, std::string>& query) {
    if (query.contains("list-type")) return list(query.at("prefix"));
    if (query.contains("uploads")) {
      const std::string id = "upload+" + std::to_string(next_upload_++);
      uploads_[id];
      return {200, {}, cat("<X><UploadId>", id, "</UploadId></X>")};
    }
    if (const auto upload = query.find("uploadId"); upload != query.end())
      return of_upload(request, key, upload->second, query);
    if (request.method == "PUT") {
      objects_[key] = request.body;
      return {200, {{"ETag", cat("\"", hash_of(request.body), "\"")}}};
    }
    if (request.method == "DELETE") {
      objects_.erase(key);
      return {204};
    }
    const auto found = objects_.find(key);
    if (found == objects_.end()) return {404};
    return HttpStore::range_of(request, found->second, cat("\"", hash_of(found->second), "\""));
  }

  StoreAnswer of_upload(const StoreRequest& request, const std::string& key, const std::string& id,
                        const std::map<std::string, std::string>& query) {
    const auto upload = uploads_.find(id);
    if (upload == uploads_.end()) return {404};
    if (request.method == "PUT") {
      upload->second[std::stoi(query.at("partNumber"))] = request.body;
      return {200, {{"ETag", cat("\"", hash_of(request.body), "\"")}}};
    }
    if (request.method == "POST") {
      std::string content, wanted;
      for (const auto& [number, part] : upload->second) {
        content += part;
        wanted += cat("<Part><PartNumber>", number, "</PartNumber><ETag>\"", hash_of(part),
                      "\"</ETag></Part>");
      }
      if (request.body != cat("<CompleteMultipartUpload>", wanted, "</CompleteMultipartUpload>"))
        return {400};
      objects_[key] = std::move(content);
    }
    uploads_.erase(upload);
    return {request.method == "POST" ? 200 : 204, {}, "<X><ETag>\"e\"</ETag></X>"};
  }

  StoreAnswer list(const std::string& prefix) const {
    std::string keys;
    std::set<std::string> folders;
    for (const auto& [key, content] : objects_) {
      if (!key.starts_with(prefix)) continue;
      const size_t slash = key.find('/', prefix.size());
      if (slash == std::string::npos) {
        keys += cat("<Contents><Key>", key, "</Key></Contents>");
      } else {
        folders.insert(key.substr(0, slash + 1));
      }
    }
    for (const std::string& each : folders)
      keys += cat("<CommonPrefixes><Prefix>", each, "</Prefix></CommonPrefixes>");
    return {200, {}, cat("<ListBucketResult>", keys, "</ListBucketResult>")};
  }

  const Fault fault_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::map<int, std::string>> uploads_;
  int number_ = 0, next_upload_ = 0;
  bool down_ = false;
  HttpStore server_;  // last: its thread uses the rest
};

}  // namespace leat
