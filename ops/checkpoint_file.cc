#include "ops/checkpoint_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

constexpr const char* kVariables = "variables.safetensors";
constexpr const char* kManifest = "manifest.json";
constexpr uint64_t kManifestBytes = 1 << 20;
constexpr uint64_t kVariablesBytes = uint64_t{64} << 30;
constexpr std::string_view kTemporary = ".tmp-";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hash_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.finish());
}

Status write_file(Files& files, const std::string& path, std::span<const std::byte> bytes) {
  LEAT_ASSIGN_OR_RETURN(auto file, files.create(path));
  LEAT_RETURN_IF_ERROR(file->append(bytes));
  LEAT_RETURN_IF_ERROR(file->sync());
  return file->close();
}

void remove_folder(const std::string& path) {
  std::error_code ignored;  // what cannot be removed is only untidy
  std::filesystem::remove_all(path, ignored);
}

std::string manifest_of(const Checkpoint& checkpoint, std::span<const std::byte> variables) {
  nlohmann::ordered_json manifest;
  manifest["format"] = 1;
  manifest["job"] = checkpoint.job;
  manifest["step"] = checkpoint.step;
  manifest["seed"] = checkpoint.seed;
  manifest["shards"] = checkpoint.shards;
  if (checkpoint.data) {
    const DataOrder& data = *checkpoint.data;
    manifest["data"] = {{"global_batch_size", data.global_batch_size},
                        {"shuffle", data.shuffle},
                        {"rows", data.rows},
                        {"features", data.features},
                        {"labels", data.labels}};
  }
  manifest["files"] = {
      {{"name", kVariables}, {"bytes", variables.size()}, {"sha256", hash_of(variables)}}};
  return manifest.dump(2) + "\n";
}

Status write_into(Files& files, const std::string& folder, const Checkpoint& checkpoint) {
  LEAT_RETURN_IF_ERROR(files.make_directories(folder));
  SafeTensors content;
  content.tensors = checkpoint.variables;
  LEAT_ASSIGN_OR_RETURN(const Bytes variables, format_safetensors(content));
  LEAT_RETURN_IF_ERROR(write_file(files, folder + "/" + kVariables, variables));
  LEAT_RETURN_IF_ERROR(
      write_file(files, folder + "/" + kManifest, bytes_of(manifest_of(checkpoint, variables))));
  return files.sync_directory(folder);
}

std::optional<DataOrder> parse_data_order(const nlohmann::json& manifest) {
  if (!manifest.contains("data")) return std::nullopt;
  const auto& data = manifest.at("data");
  DataOrder order;
  order.global_batch_size = data.at("global_batch_size").get<int64_t>();
  order.shuffle = data.at("shuffle").get<bool>();
  order.rows = data.at("rows").get<int64_t>();
  order.features = data.at("features").get<std::string>();
  order.labels = data.at("labels").get<std::string>();
  return order;
}

// The manifest's fields, with nlohmann's exceptions kept in here.
Result<Checkpoint> parse_manifest(const Bytes& bytes, const std::string& path, uint64_t& size,
                                  std::string& sha256) {
  try {
    const auto manifest =
        nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()),
                              reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    if (manifest.at("format").get<int>() != 1) {
      return invalid_argument(
          cat(path, ": expected format 1, received ", manifest.at("format").dump()));
    }
    Checkpoint checkpoint;
    checkpoint.job = manifest.at("job").get<std::string>();
    checkpoint.step = manifest.at("step").get<int64_t>();
    checkpoint.seed = manifest.at("seed").get<uint64_t>();
    checkpoint.shards = manifest.at("shards").get<int64_t>();
    checkpoint.data = parse_data_order(manifest);
    const auto& file = manifest.at("files").at(0);
    if (file.at("name").get<std::string>() != kVariables)
      return invalid_argument(cat(path, ": expected the file ", kVariables));
    size = file.at("bytes").get<uint64_t>();
    sha256 = file.at("sha256").get<std::string>();
    return checkpoint;
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(cat(path, ": expected a checkpoint's manifest, ", error.what()));
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

Result<std::string> write_checkpoint(Files& files, const std::string& folder,
                                     const Checkpoint& checkpoint) {
  const std::string name = checkpoint_name(checkpoint.step);
  const std::string temporary = cat(folder, "/", kTemporary, name), path = folder + "/" + name;
  remove_folder(temporary);
  const auto publish = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(write_into(files, temporary, checkpoint));
    remove_folder(path);
    LEAT_RETURN_IF_ERROR(files.rename(temporary, path));
    return files.sync_directory(folder);
  };
  const Status status = publish();
  if (!status.ok()) {
    remove_folder(temporary);
    return status.while_doing(cat("writing checkpoint ", path));
  }
  return path;
}

Result<Checkpoint> read_checkpoint(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes manifest,
                        read_file(files, path + "/" + kManifest, kManifestBytes));
  uint64_t size = 0;
  std::string sha256;
  LEAT_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                        parse_manifest(manifest, path + "/" + kManifest, size, sha256));
  const std::string expected = checkpoint_name(checkpoint.step),
                    name = path.substr(path.rfind('/') + 1);
  if (checkpoint.step < 0 || name != expected) {
    return invalid_argument(cat(path, "/", kManifest,
                                ": expected the step that the folder's name says, received ",
                                checkpoint.step));
  }
  const std::string file = path + "/" + kVariables;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, file, kVariablesBytes));
  if (bytes.size() != size)
    return invalid_argument(
        cat(file, ": expected ", size, " bytes as in the manifest, received ", bytes.size()));
  const std::string received = hash_of(bytes);
  if (received != sha256)
    return invalid_argument(
        cat(file, ": expected SHA-256 ", sha256, " as in the manifest, received ", received));
  LEAT_ASSIGN_OR_RETURN(SafeTensors content, parse_safetensors(bytes, file));
  checkpoint.variables = std::move(content.tensors);
  return checkpoint;
}

static Result<std::vector<std::string>> list_checkpoints(Files& files, const std::string& folder) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(folder));
  std::vector<std::string> names;
  if (!exists) return names;
  LEAT_ASSIGN_OR_RETURN(const auto all, files.list(folder));
  for (const std::string& name : all) {
    if (name.rfind("step-", 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  return names;
}

Result<Checkpoint> read_latest_checkpoint(Files& files, const std::string& folder,
                                          std::vector<std::string>& refused) {
  LEAT_ASSIGN_OR_RETURN(const auto names, list_checkpoints(files, folder));
  for (const std::string& name : names) {
    auto checkpoint = read_checkpoint(files, folder + "/" + name);
    if (checkpoint.ok()) return checkpoint;
    refused.push_back(checkpoint.status().message());
  }
  return failed_precondition(
      cat(folder, ": expected a checkpoint, found ",
          names.empty() ? "none" : cat("only damaged ones: ", join(refused, "; "))));
}

Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep) {
  LEAT_ASSIGN_OR_RETURN(const auto names, list_checkpoints(files, folder));
  for (size_t i = static_cast<size_t>(std::max<int64_t>(1, keep)); i < names.size(); ++i)
    remove_folder(folder + "/" + names[i]);
  LEAT_ASSIGN_OR_RETURN(const auto all, files.list(folder));
  for (const std::string& name : all) {
    if (name.rfind(kTemporary, 0) == 0) remove_folder(folder + "/" + name);
  }
  return {};
}

}  // namespace leat
