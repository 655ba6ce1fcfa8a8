// leat checkpoint verify: whether checkpoints are as they were written, and by what each was made
// from what.
#include <cstdio>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/origin_check.h"
#include "daemon/checkpoint/prefix_hash.h"
#include "daemon/checkpoint/signing_key.h"
#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/checkpoint_source.h"
#include "daemon/cli/run_files.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

using VerifiedFound = CheckpointSource::Found;

std::string_view name_of(OriginTrust trust) {
  static constexpr std::string_view kNames[] = {"unsigned", "signed", "vouched"};
  return kNames[static_cast<int>(trust)];
}

// The facts that the checkpoints have to agree with: those of the folder of the run, and the key
// that the command names.
Result<ExpectedOrigin> expected_origin(CheckpointSource& source,
                                       const CheckpointVerifyCommand& command) {
  ExpectedOrigin expected;
  // A copy in a store may lack some.
  expected.allows_gaps = command.gaps || is_store_path(command.name);
  if (!command.key.empty()) {
    LEAT_ASSIGN_OR_RETURN(expected.key, read_public_key(command.key));
  }
  const VerifiedFound& newest = source.checkpoints().front();
  LEAT_ASSIGN_OR_RETURN(const std::string path, source.file_of_run(newest, kProvenanceFileName));
  if (path.empty()) return expected;
  // For a job of the cluster the master has sent it.
  expected.run = source.job();
  LEAT_ASSIGN_OR_RETURN(expected.identity, read_provenance_file(run_files(), directory_of(path)));
  if (expected.key.empty() && expected.identity) expected.key = expected.identity->key;
  return expected;
}

// Compares the rows of the metrics up to the newest checkpoint with the hash in its manifest.
Status check_metrics(CheckpointSource& source, const VerifiedFound& found,
                     const Manifest& manifest) {
  if (!manifest.provenance || !manifest.metrics) return {};
  const std::string& expected = manifest.provenance->metrics_sha256;
  if (expected.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(const std::string path, source.file_of_run(found, "metrics.jsonl"));
  if (path.empty()) return {};  // a checkpoint alone
  PrefixHash hash(run_files(), path);
  const auto received = hash.until(manifest.metrics->bytes);
  if (!received.ok()) {
    return invalid_argument(cat("the metrics up to step ", manifest.step, ": expected ",
                                manifest.metrics->bytes, " bytes with SHA-256 ", expected, ": ",
                                received.status().message()));
  }
  if (*received == expected) return {};
  return invalid_argument(cat("'", path, "': expected SHA-256 ", expected, " of the ",
                              manifest.metrics->bytes, " bytes up to step ", manifest.step,
                              ", received ", *received));
}

// The origin as lines for people, indented.
std::string origin_text(const Manifest& manifest, OriginTrust trust) {
  std::vector<std::string> data;
  for (const auto& [name, print] : manifest.data.files) data.push_back(cat(name, " ", print));
  std::string text = cat("  from graph ", manifest.graph, ", seed ", manifest.seed, ", shards ",
                         manifest.shards, "\n  from data ", join(data, ", "), "\n");
  if (const auto& parent = manifest.previous)
    text += cat("  after step ", parent->step, ", manifest ", parent->sha256, "\n");
  const auto& origin = manifest.provenance;
  if (!origin) return text + "  no provenance: an older version of Leat wrote it\n";
  if (const auto& weights = origin->weights) {
    text += cat("  its run began from the weights of ", weights->file, ", SHA-256 ",
                weights->sha256.empty() ? "unknown" : weights->sha256, "\n");
  }
  for (const Ancestor& each : origin->lineage) {
    text += cat("  its run went on from step ", each.step, " of job '", each.job, "'",
                each.run.empty() ? "" : cat(", run ", each.run), ", manifest ", each.sha256, "\n");
  }
  text +=
      cat("  by job '", manifest.job, "'", origin->run.empty() ? "" : cat(", run ", origin->run),
          ", job file ", origin->job_sha256, ", leat ", origin->code, "\n");
  if (trust == OriginTrust::signed_by_key)
    return text + cat("  signed by key ", manifest.signature->key, "\n");
  return text + (trust == OriginTrust::vouched_for
                     ? "  vouched for by the next checkpoint, which is signed\n"
                     : "  not signed\n");
}

void add_origin(JsonLine& line, const Manifest& manifest, OriginTrust trust) {
  line.add("graph", manifest.graph).add("trust", name_of(trust));
  line.add("key", manifest.signature ? manifest.signature->key : "");
  JsonLine data;
  for (const auto& [name, print] : manifest.data.files) data.add(name, print);
  line.add("data", data);
  if (const auto& parent = manifest.previous)
    line.add("after", JsonLine().add("step", parent->step).add("sha256", parent->sha256));
  const auto& origin = manifest.provenance;
  if (!origin) {
    line.add_null("provenance");
    return;
  }
  JsonLine of;
  of.add("code", origin->code).add("run", origin->run).add("job_sha256", origin->job_sha256);
  of.add("metrics_sha256", origin->metrics_sha256);
  of.add("weights_sha256", origin->weights ? origin->weights->sha256 : "");
  std::vector<std::string> lineage;
  for (const Ancestor& each : origin->lineage) lineage.push_back(each.sha256);
  line.add("provenance", of.add("lineage", lineage));
}

// The manifest, and what is wrong with the checkpoint.
struct Verdict {
  std::optional<Manifest> manifest;
  Status status;
};

Verdict judge(CheckpointSource& source, const VerifiedFound& found, OriginCheck& origin,
              bool is_newest) {
  const Status here = source.bring(found, CheckpointSource::Extent::whole);
  const auto manifest = here.ok() ? read_manifest(run_files(), found.path) : here;
  if (!manifest.ok()) {
    origin.pass_over();
    return {std::nullopt, manifest.status()};
  }
  Verdict verdict{*manifest,
                  origin.check(*manifest, cat("'", found.path, "/", kManifestName, "'"))};
  if (verdict.status.ok()) verdict.status = verify_checkpoint(run_files(), found.path).status();
  if (verdict.status.ok() && is_newest) verdict.status = check_metrics(source, found, *manifest);
  return verdict;
}

void print_verdict_json(const CheckpointSource& source, const VerifiedFound& found,
                        const Verdict& verdict, OriginTrust trust) {
  JsonLine line;
  line.add("path", found.shown).add("ok", verdict.status.ok());
  if (verdict.status.ok()) {
    add_checkpoint(line, *verdict.manifest).add("verified", true);
    add_origin(line.add("sha256", parent_of(*verdict.manifest).sha256), *verdict.manifest, trust);
  } else {
    line.add("error", source.message(found, verdict.status));
  }
  std::fputs(line.text().c_str(), stdout);
}

}  // namespace

int run_checkpoint_verify(const CheckpointVerifyCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  CheckpointSource source(command.cluster);
  if (const int code = source.open(command.name); code != kExitOk) return code;
  auto expected = expected_origin(source, command);
  if (!expected.ok()) return source.report(source.checkpoints().front(), expected.status());
  OriginCheck origin(*std::move(expected));
  int code = kExitOk;
  bool is_newest = true;
  for (const VerifiedFound& found : source.checkpoints()) {
    const Verdict verdict = judge(source, found, origin, std::exchange(is_newest, false));
    if (command.cluster.json) {
      print_verdict_json(source, found, verdict, origin.trust());
      if (!verdict.status.ok()) code = exit_code_of(verdict.status);
    } else if (!verdict.status.ok()) {
      code = source.report(found, verdict.status);
    } else {
      const Manifest& manifest = *verdict.manifest;
      std::printf("%s: whole, %zu part%s of %s\n%s", printable(found.shown).c_str(),
                  manifest.parts.size(), manifest.parts.size() == 1 ? "" : "s",
                  human_bytes(bytes_of(manifest)).c_str(),
                  printable_lines(origin_text(manifest, origin.trust())).c_str());
    }
  }
  return code;
}

}  // namespace leat
