#include "daemon/checkpoint/manifest.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "daemon/checkpoint/signing_key.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int kFormat = 2;
constexpr size_t kHexDigits = 64;
// The texts before and after the hash of all lines above it.
constexpr std::string_view kBeforeHash = ",\n  \"sha256\": \"", kAfterHash = "\"\n}\n";

std::string hash_of(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text.data(), text.size()))));
}

bool is_hash(std::string_view text) {
  return text.size() == kHexDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Digits and letters, as hexadecimal texts have them: JSON needs no escapes for them.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c); });
}

// Returns the text without its last line, if the hash in that line is correct.
Result<std::string_view> check_own_hash(std::string_view text, std::string_view subject) {
  const size_t tail = kBeforeHash.size() + kHexDigits + kAfterHash.size();
  const std::string_view body = text.substr(0, text.size() - std::min(text.size(), tail));
  const std::string expected = cat(kBeforeHash, hash_of(body), kAfterHash);
  if (text.substr(body.size()) == expected) return body;
  return invalid_argument(cat(subject, ": expected it to end with the SHA-256 of its text, ",
                              hash_of(body), ", received ", text.size(),
                              " bytes that end otherwise: it is damaged"));
}

constexpr std::array kLabelled = {"features", "labels"};

bool is_labelled(const DataOrder& data) {
  return data.files.size() == kLabelled.size() &&
         std::all_of(kLabelled.begin(), kLabelled.end(),
                     [&](const char* name) { return data.files.contains(name); });
}

nlohmann::ordered_json json_of_provenance(const Provenance& provenance) {
  nlohmann::ordered_json json = {
      {"code", provenance.code}, {"run", provenance.run}, {"job_sha256", provenance.job_sha256}};
  if (const auto& weights = provenance.weights)
    json["weights"] = {{"file", weights->file}, {"sha256", weights->sha256}};
  if (!provenance.metrics_sha256.empty()) json["metrics_sha256"] = provenance.metrics_sha256;
  for (const Ancestor& each : provenance.lineage) {
    json["lineage"].push_back(
        {{"run", each.run}, {"job", each.job}, {"step", each.step}, {"sha256", each.sha256}});
  }
  return json;
}

// Throws the exceptions of nlohmann::json.
Provenance provenance_of(const nlohmann::json& json) {
  Provenance provenance;
  json.at("code").get_to(provenance.code);
  json.at("run").get_to(provenance.run);
  json.at("job_sha256").get_to(provenance.job_sha256);
  if (json.contains("weights")) {
    const auto& weights = json.at("weights");
    provenance.weights = {weights.at("file").get<std::string>(),
                          weights.at("sha256").get<std::string>()};
  }
  provenance.metrics_sha256 = json.value("metrics_sha256", "");
  if (!json.contains("lineage")) return provenance;
  for (const auto& each : json.at("lineage")) {
    provenance.lineage.push_back({each.at("run").get<std::string>(),
                                  each.at("job").get<std::string>(), each.at("step").get<int64_t>(),
                                  each.at("sha256").get<std::string>()});
  }
  return provenance;
}

// The keys are in a fixed order, so equal manifests give equal bytes: a child names its parent by
// their hash.
nlohmann::ordered_json to_json(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["job"] = manifest.job;
  json["graph"] = manifest.graph;
  json["step"] = manifest.step;
  json["seed"] = manifest.seed;
  json["shards"] = manifest.shards;
  json["data"] = {{"global_batch_size", manifest.data.global_batch_size},
                  {"shuffle", manifest.data.shuffle},
                  {"rows", manifest.data.rows}};
  // Older versions have only the one way.
  if (manifest.data.sharding != "data") json["data"]["sharding"] = manifest.data.sharding;
  // Data of features and labels has its fingerprints beside the other keys, as in older versions.
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  for (const auto& [name, print] : manifest.data.files) files[name] = print;
  if (is_labelled(manifest.data)) {
    json["data"].update(files);
  } else {
    json["data"]["files"] = std::move(files);
  }
  json["strategy"] = manifest.strategy;
  json["workers"] = manifest.workers;
  if (manifest.previous)
    json["previous"] = {{"step", manifest.previous->step}, {"sha256", manifest.previous->sha256}};
  // Older versions have only the other rule, and write no such key.
  if (!manifest.every_float) json["trains"] = kTrainsParameters;
  if (const auto& metrics = manifest.metrics) {
    json["metrics"] = {{"bytes", metrics->bytes},
                       {"crc32c", metrics->crc32c},
                       {"missing", metrics->missing},
                       {"changed_until", metrics->changed_until}};
  }
  json["parts"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    json["parts"].push_back({{"name", part_name(i, manifest.parts.size())},
                             {"bytes", manifest.parts[i].bytes},
                             {"sha256", manifest.parts[i].sha256}});
  }
  if (manifest.provenance) json["provenance"] = json_of_provenance(*manifest.provenance);
  return json;
}

// Throws the exceptions of nlohmann::json.
Manifest from_json(const nlohmann::json& json) {
  Manifest manifest;
  json.at("job").get_to(manifest.job);
  json.at("graph").get_to(manifest.graph);
  json.at("step").get_to(manifest.step);
  json.at("seed").get_to(manifest.seed);
  json.at("shards").get_to(manifest.shards);
  const auto& data = json.at("data");
  data.at("global_batch_size").get_to(manifest.data.global_batch_size);
  data.at("shuffle").get_to(manifest.data.shuffle);
  data.at("rows").get_to(manifest.data.rows);
  if (data.contains("sharding")) data.at("sharding").get_to(manifest.data.sharding);
  if (data.contains("files")) {
    data.at("files").get_to(manifest.data.files);
  } else {
    for (const char* name : kLabelled) data.at(name).get_to(manifest.data.files[name]);
  }
  json.at("strategy").get_to(manifest.strategy);
  json.at("workers").get_to(manifest.workers);
  if (json.contains("previous")) {
    const auto& previous = json.at("previous");
    manifest.previous = {previous.at("step").get<int64_t>(),
                         previous.at("sha256").get<std::string>()};
  }
  manifest.every_float = !json.contains("trains");
  if (json.contains("metrics")) {
    const auto& metrics = json.at("metrics");
    manifest.metrics = {manifest.step, metrics.at("bytes").get<uint64_t>(),
                        metrics.at("crc32c").get<uint32_t>(), metrics.at("missing").get<int64_t>(),
                        metrics.at("changed_until").get<int64_t>()};
  }
  for (const auto& part : json.at("parts"))
    manifest.parts.push_back(
        {part.at("bytes").get<uint64_t>(), part.at("sha256").get<std::string>()});
  if (json.contains("provenance")) manifest.provenance = provenance_of(json.at("provenance"));
  if (json.contains("signature")) {
    const auto& signature = json.at("signature");
    manifest.signature = {signature.at("key").get<std::string>(),
                          signature.at("value").get<std::string>()};
  }
  return manifest;
}

// Checks the rules between the fields of a manifest.
Status check(const nlohmann::json& json, const Manifest& manifest, std::string_view subject) {
  const auto expected = [&](std::string_view what, const auto& received) {
    return invalid_argument(cat(subject, ": expected ", what, ", received ", received));
  };
  // The hash of the text tells only that nothing was changed after it was written, not that it is
  // right.
  const size_t count = manifest.parts.size();
  if (count == 0 || count > kMaxCheckpointParts)
    return expected(cat("1 to ", kMaxCheckpointParts, " parts"), count);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = json.at("parts").at(i).at("name").get<std::string>();
    if (name != part_name(i, count)) return expected(cat("part ", part_name(i, count)), name);
    if (!is_hash(manifest.parts[i].sha256))
      return expected(cat("the SHA-256 of ", name), manifest.parts[i].sha256);
  }
  if (json.contains("trains") && json.at("trains") != kTrainsParameters)
    return expected(cat("trains to be \"", kTrainsParameters, "\""), json.at("trains").dump());
  if (const auto& signature = manifest.signature;
      signature && (!is_plain(signature->key) || !is_plain(signature->value)))
    return expected("a signature in hexadecimal", cat(signature->key, " ", signature->value));
  if (manifest.step < 0) return expected("a step of at least 0", manifest.step);
  if (manifest.provenance && manifest.provenance->lineage.size() > kMostAncestors)
    return expected(cat("at most ", kMostAncestors, " runs before"),
                    manifest.provenance->lineage.size());
  if (manifest.previous && manifest.previous->step >= manifest.step)
    return expected(cat("a checkpoint before step ", manifest.step), manifest.previous->step);
  return {};
}

}  // namespace

std::string signed_text(const Manifest& manifest) {
  std::string text = to_json(manifest).dump(2);
  text.resize(text.rfind('\n'));  // without the closing brace
  return text;
}

Status sign(Manifest& manifest, const SigningKey& key) {
  LEAT_ASSIGN_OR_RETURN(std::string value, key.sign(signed_text(manifest)));
  manifest.signature = {key.public_key(), std::move(value)};
  return {};
}

Status check_signature(const Manifest& manifest, std::string_view subject) {
  if (!manifest.signature) return {};
  return check_signature(signed_text(manifest), manifest.signature->key, manifest.signature->value,
                         subject);
}

std::string print_manifest(const Manifest& manifest) {
  // The signature and the hash become the last keys of the object, so the file is still JSON.
  std::string text = signed_text(manifest);
  if (const auto& signature = manifest.signature) {
    text += cat(",\n  \"signature\": {\n    \"key\": \"", signature->key, "\",\n    \"value\": \"",
                signature->value, "\"\n  }");
  }
  return cat(text, kBeforeHash, hash_of(text), kAfterHash);
}

CheckpointParent parent_of(const Manifest& manifest) {
  return {manifest.step, hash_of(print_manifest(manifest))};
}

Result<Manifest> parse_manifest(std::span<const std::byte> bytes, std::string_view subject) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LEAT_ASSIGN_OR_RETURN(const std::string_view body, check_own_hash(text, subject));
  try {
    // The body lacks its closing brace, which stood after the hash.
    const auto json = nlohmann::json::parse(cat(body, "\n}"));
    if (const auto& format = json.at("format"); format != kFormat)
      return invalid_argument(
          cat(subject, ": expected format ", kFormat, ", received ", format.dump()));
    Manifest manifest = from_json(json);
    LEAT_RETURN_IF_ERROR(check(json, manifest, subject));
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(cat(subject, ": expected a checkpoint's manifest, ", error.what()));
  }
}

}  // namespace leat
