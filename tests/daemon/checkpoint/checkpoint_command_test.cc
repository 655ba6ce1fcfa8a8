// Tests `leat checkpoint` on the files that a training left.
#include <filesystem>

#include "daemon/base/exit_code.h"
#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/checkpoint/compare_checkpoints.h"
#include "ops/catalogue.h"
#include "ops/formats/safetensors.h"
#include "ops/onnx/import.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/must.h"

namespace leat {
namespace {

using Parts = std::vector<std::string>;
using Catch::Contains;

TEST_CASE("checkpoints are listed, verified, compared and exported") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  check_ok(tiny.train("b"));
  check_ok(tiny.train("c", {{"learning_rate: 0.1", "learning_rate: 0.2"}}));

  const Finished listed = tiny.leat({"checkpoint", "ls", "a"});
  check_ok(listed);
  CHECK_THAT(listed.out, Contains("STEP") && Contains("a/checkpoints/step-00000008"));
  CHECK(listed.out.find("step-00000008") < listed.out.find("step-00000004"));
  CHECK_THAT(tiny.leat({"checkpoint", "ls", "--json", "a/checkpoints/step-00000004"}).out,
             Contains("\"step\": 4") && Contains("\"parts\": 2"));

  const Finished verified = tiny.leat({"checkpoint", "verify", "a/"});
  check_ok(verified);
  CHECK_THAT(verified.out, Contains("step-00000004: whole, 2 parts of "));

  check_ok(tiny.leat({"checkpoint", "diff", "a", "b"}));
  const Finished differ = tiny.leat({"checkpoint", "diff", "a", "c"});
  CHECK(differ.exit_code == kExitFailed);
  CHECK_THAT(differ.out, Contains("elements differ, the first at 0: "));

  check_ok(tiny.leat({"checkpoint", "export", "a", "-o", "w.safetensors"}));
  CHECK(tiny.read("w.safetensors").size() > 0);
  const auto exported = must(read_safetensors(real_files(), tiny.folder() + "/w.safetensors"));
  const auto trained =
      must(read_safetensors(real_files(), tiny.folder() + "/a/weights.safetensors"));
  CHECK(compare(exported.tensors, trained.tensors).empty());
}

TEST_CASE("an export has the format of its name, or is refused") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  check_ok(tiny.leat({"checkpoint", "export", "a", "-o", "w.npz"}));
  const std::string npz = tiny.read("w.npz");
  CHECK_THAT(npz, Catch::StartsWith(std::string("PK\x03\x04")));
  CHECK_THAT(npz, Contains("h/kernel.npy") && Contains("\x93NUMPY"));
  CHECK_FALSE(std::filesystem::exists(tiny.folder() + "/w.npz.tmp"));
  for (const char* name : {"weights", "w.pt"}) {
    check_refused(tiny.leat({"checkpoint", "export", "a", "-o", name}), kExitInvalid,
                  {name, "ends in .onnx, .safetensors or .npz"});
    CHECK_FALSE(std::filesystem::exists(tiny.folder() + "/" + name));
  }
  // The format may be named, too.
  check_ok(tiny.leat({"checkpoint", "export", "a", "-o", "weights", "--format", "safetensors"}));
  CHECK(must(read_safetensors(real_files(), tiny.folder() + "/weights")).tensors.size() > 0);
}

TEST_CASE("TensorBoard gets the graph of a run, and the weights of its checkpoints") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  check_ok(tiny.leat({"metrics", "a", "--tensorboard", "plain"}));
  const std::string plain = tiny.read("plain/a/events.out.tfevents.leat");
  CHECK(plain.find("weights/") == std::string::npos);
  check_ok(tiny.leat({"metrics", "a", "--tensorboard", "board", "--graph", "--histograms"}));
  const std::string all = tiny.read("board/a/events.out.tfevents.leat");
  CHECK_THAT(all, Catch::StartsWith(plain));
  CHECK_THAT(all, Contains("Placeholder") && Contains("leat.Variable"));
  const auto count = [&](const std::string& tag) {
    size_t times = 0;
    for (size_t at = 0; (at = all.find(tag, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  CHECK(count("weights/h/kernel") == 2);  // of steps 4 and 8
  CHECK(count("weights/optimizer/") == 0);
  // Only with a place to write to.
  CHECK(tiny.leat({"metrics", "a", "--graph"}).exit_code == kExitUsage);
  std::filesystem::remove_all(tiny.folder() + "/a/checkpoints");
  CHECK(tiny.leat({"metrics", "a", "--tensorboard", "b", "--histograms"}).exit_code != kExitOk);
  CHECK_FALSE(std::filesystem::exists(tiny.folder() + "/b"));
}

TEST_CASE("a trained model is exported as ONNX, with the graph of its run's folder") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  const Finished exported = tiny.leat({"checkpoint", "export", "a", "-o", "m.onnx"});
  check_ok(exported);
  CHECK_THAT(exported.err, Contains("m.onnx: ") && Contains("after step 8, opset 20"));
  const Catalogue catalogue = standard_catalogue();
  const auto model = must(
      import_onnx_file(real_files(), tiny.folder() + "/m.onnx", catalogue, {.trainable = true}));
  const auto trained =
      must(read_safetensors(real_files(), tiny.folder() + "/a/weights.safetensors"));
  const auto weights = must(read_onnx_weights(real_files(), tiny.folder() + "/m.onnx"));
  CHECK(compare(weights, trained.tensors).empty());
  // A checkpoint that is elsewhere has no graph beside it.
  std::filesystem::create_directories(tiny.folder() + "/alone");
  std::filesystem::copy(tiny.folder() + "/a/checkpoints/step-00000008",
                        tiny.folder() + "/alone/step-00000008",
                        std::filesystem::copy_options::recursive);
  check_refused(tiny.leat({"checkpoint", "export", "alone", "-o", "n.onnx"}), kExitFailed,
                {"expected a checkpoint in its run's folder", "--run"});
  check_ok(
      tiny.leat({"checkpoint", "export", "alone", "-o", "n.onnx", "--run", "a", "--opset", "17"}));
  CHECK(must(import_onnx_file(real_files(), tiny.folder() + "/n.onnx", catalogue, {})).opset == 17);
  check_refused(tiny.leat({"checkpoint", "export", "a", "-o", "m.onnx", "--all"}), kExitInvalid,
                {"expected --all with safetensors or npz"});
  check_refused(tiny.leat({"checkpoint", "export", "a", "-o", "m.npz", "--opset", "18"}),
                kExitInvalid, {"expected --opset with onnx, received npz"});
}

TEST_CASE("the export of a program has its own types, whenever it is written") {
  const TinyJob tiny;
  tiny.write("half.onnxtxt", R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
half () => (float l) {
  r = leat.Variable <name = "w", shape = [4], dtype = "float16"> ()
  one = Constant <value = float[4] {1, 1, 1, 1}> ()
  i = Cast <to = 10> (one)
  [init] = leat.Initialize (r, i)
  w = leat.Read (r)
  s = Add (w, i)
  [train] = leat.Assign (r, s)
  c = Cast <to = 1> (w)
  l = ReduceSum <keepdims = 0> (c)
}
)");
  tiny.write("half.yaml", R"(version: 1
name: half
model: {graph: half.onnxtxt}
program: {init: [init], step: [train], fetch: [l]}
steps: 4
seed: 1
shards: 1
num_workers: 1
checkpoint: {every_steps: 2}
export: [onnx]
)");
  check_ok(tiny.leat({"train", "half.yaml", "--output", "h"}));
  check_ok(tiny.leat({"checkpoint", "export", "h", "-o", "h.onnx"}));
  for (const char* file : {"h/export/model.onnx", "h.onnx"}) {
    INFO(file);
    const auto weights = must(read_onnx_weights(real_files(), tiny.folder() + "/" + file));
    REQUIRE(weights.contains("w"));
    CHECK(weights.at("w").dtype() == DType::f16);
  }
}

TEST_CASE("a damaged checkpoint and a broken chain are named, and the rest is looked at") {
  const TinyJob tiny;
  check_ok(tiny.train("a"));
  const std::string old = "a/checkpoints/step-00000004/";
  const std::string part = tiny.read(old + part_name(0, 2)),
                    manifest = tiny.read(old + kManifestName);
  tiny.write(old + part_name(0, 2), flipped(part, part.size() - 1));
  const Finished damaged = tiny.leat({"checkpoint", "verify", "a"});
  CHECK(damaged.exit_code == kExitInvalid);
  CHECK_THAT(damaged.err, Contains("step-00000004") && Contains("expected SHA-256"));
  CHECK_THAT(damaged.out, Contains("step-00000008: whole"));
  // Commands that read one checkpoint take the newest whole one.
  check_ok(tiny.leat({"checkpoint", "diff", "a", "a"}));
  check_refused(tiny.leat({"checkpoint", "diff", "a/checkpoints/step-00000004", "a"}), kExitInvalid,
                {"expected SHA-256"});

  // Writes another checkpoint of step 4, which is whole.
  tiny.write(old + part_name(0, 2), part);
  Checkpoint other =
      must(read_checkpoint(real_files(), tiny.folder() + "/" + old.substr(0, old.size() - 1)));
  other.manifest.seed = 5;
  must(write_checkpoint(real_files(), tiny.folder() + "/a/checkpoints", other));
  const Finished broken = tiny.leat({"checkpoint", "verify", "a"});
  CHECK(broken.exit_code == kExitInvalid);
  CHECK_THAT(broken.err, Contains("step-00000004") &&
                             Contains("step 8 came after a checkpoint of step 4 whose manifest"));
}

TEST_CASE("a path without a checkpoint is refused") {
  const TinyJob tiny;
  std::filesystem::create_directories(tiny.folder() + "/empty");
  check_refused(tiny.leat({"checkpoint", "ls", "no/such"}), kExitNoSuch,
                {"no such run", "'no/such'"});
  check_refused(tiny.leat({"checkpoint", "verify", "empty"}), kExitFailed,
                {"'empty'", "found no checkpoint in it"});
  check_refused(tiny.leat({"checkpoint"}), kExitUsage, {});
}

}  // namespace
}  // namespace leat
