// Tests model.weights of the job file: the files, the names, and what a job says of them.
#include "daemon/training/initial_weights.h"

#include <cstring>

#include "daemon/training/export_model.h"
#include "ops/catalogue.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using Catch::Contains;

// A run's weights under other names.
void write_renamed(const std::string& from, const std::string& to, const std::string& prefix,
                   const std::string& without) {
  SafeTensors content = must(read_safetensors(real_files(), from));
  SafeTensors out;
  for (auto& [name, value] : content.tensors)
    if (name != without) out.tensors.emplace(prefix + name, std::move(value));
  must(write_safetensors(real_files(), to, out));
}

std::string error_of_training(const SmallJob& small, const std::string& weights) {
  Silent watch;
  const auto trainer = must(small.trainer(small.job({weights}), {small.path("refused"), false, 1}));
  const auto outcome = trainer->run(watch, [] { return false; });
  CHECK(!outcome.ok());
  return outcome.status().message();
}

TEST_CASE("rules rename what matches, and stars stand for the same text") {
  const std::vector<std::pair<std::string, std::string>> rules{{"encoder.*", "model.encoder.*"},
                                                               {"*.gamma", "*.weight"},
                                                               {"h.*.attn.*", "layer*/*"},
                                                               {"head", "classifier"}};
  CHECK(renamed("encoder.0.gamma", rules) == "model.encoder.0.gamma");
  CHECK(renamed("norm.gamma", rules) == "norm.weight");
  CHECK(renamed("h.12.attn.q.attn.w", rules) == "layer12/q.attn.w");
  CHECK(renamed("head", rules) == "classifier");
  CHECK(renamed("head.w", rules) == "head.w");
  CHECK(renamed("encoder", rules) == "encoder");
}

TEST_CASE("weights of every format start a job alike") {
  const SmallJob small(kTinyDense);
  small.hash(small.job({"seed=3", "steps=2", "export=[onnx, safetensors, npz]"}), "first");
  const std::string plain = cat("model.weights=", small.path("first/weights.safetensors"));
  const std::string expected = small.hash(small.job({plain, "steps=3"}), "plain");
  CHECK(expected != small.hash(small.job({"steps=3"}), "fresh"));
  for (const char* file : {"model.onnx", "model.safetensors", "model.npz"}) {
    INFO(file);
    const std::string weights = cat("model.weights=", small.path("first/export/"), file);
    CHECK(small.hash(small.job({weights, "steps=3"}), file) == expected);
  }
  write_renamed(small.path("first/weights.safetensors"), small.path("old.safetensors"), "net.", "");
  const std::string renamed =
      cat("model.weights={file: ", small.path("old.safetensors"), ", rename: {'net.*': '*'}}");
  CHECK(small.hash(small.job({renamed, "steps=3"}), "renamed") == expected);
}

TEST_CASE("names that do not fit are all named, with the nearest ones") {
  const SmallJob small(kTinyDense);
  small.hash(small.job({"steps=2"}), "first");
  const std::string from = small.path("first/weights.safetensors");
  write_renamed(from, small.path("old.safetensors"), "net.", "");
  const std::string error =
      error_of_training(small, cat("model.weights=", small.path("old.safetensors")));
  CHECK_THAT(error, Contains("the file lacks 2 variables: 'logits/bias' (did you mean "
                             "'net.logits/bias'?), 'logits/kernel'"));
  CHECK_THAT(error, Contains("it has 2 names: 'net.logits/bias' (did you mean 'logits/bias'?)") &&
                        Contains(", which the model lacks; model.weights takes rename and strict"));
  SafeTensors other = must(read_safetensors(real_files(), from));
  other.tensors["logits/bias"] = Tensor(DType::f32, Shape{7});
  must(write_safetensors(real_files(), small.path("wrong.safetensors"), other));
  // A wrong shape is an error, however strict the job is.
  CHECK_THAT(error_of_training(small, cat("model.weights={file: ", small.path("wrong.safetensors"),
                                          ", strict: false}")),
             Contains("'logits/bias' expected float[4], received float[7]"));
}

TEST_CASE("a job that is not strict keeps the initializers of what is missing, and says so") {
  const SmallJob small(kTinyDense);
  small.hash(small.job({"seed=3", "steps=2"}), "first");
  write_renamed(small.path("first/weights.safetensors"), small.path("some.safetensors"), "",
                "logits/kernel");
  SafeTensors some = must(read_safetensors(real_files(), small.path("some.safetensors")));
  some.tensors["extra"] = Tensor(DType::f32, Shape{2});
  must(write_safetensors(real_files(), small.path("some.safetensors"), some));
  const std::string weights =
      cat("model.weights={file: ", small.path("some.safetensors"), ", strict: false}");
  Silent watch;
  const TrainOutcome outcome = small.train(small.job({weights, "steps=1"}), "second", watch);
  CHECK(outcome.steps == 1);
  std::string notes;
  for (const std::string& note : watch.notes) notes += note + "\n";
  CHECK_THAT(notes, Contains("1 of 2 variables keep their initial values: 'logits/kernel'") &&
                        Contains("1 of 2 tensors are not used: 'extra'"));
  // A file of which nothing fits is that of another model.
  write_renamed(small.path("first/weights.safetensors"), small.path("other.safetensors"), "net.",
                "");
  CHECK_THAT(error_of_training(small, cat("model.weights={file: ", small.path("other.safetensors"),
                                          ", strict: false}")),
             Contains("the file lacks 2 variables: 'logits/bias'") &&
                 Contains("model.weights takes rename in a map"));
}

TEST_CASE("a job trains the variables that train names, without those that freeze names") {
  const SmallJob small(kTinyDense);
  small.hash(small.job({"steps=2"}), "all");
  small.hash(small.job({"steps=2", "model.train=['*/bias']"}), "bias");
  small.hash(small.job({"steps=2", "model.train=['*']", "model.freeze=['*/kernel']"}), "frozen");
  const auto weights = [&](const char* run) {
    return must(read_safetensors(real_files(), small.path(run) + "/weights.safetensors")).tensors;
  };
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  };
  const Variables all = weights("all"), bias = weights("bias"), frozen = weights("frozen");
  CHECK_FALSE(same(all.at("logits/kernel"), bias.at("logits/kernel")));
  CHECK(same(bias.at("logits/kernel"), frozen.at("logits/kernel")));
  CHECK(same(bias.at("logits/bias"), frozen.at("logits/bias")));
}

TEST_CASE("a run leaves no export of an earlier one in its folder") {
  const SmallJob small(kTinyDense);
  Silent watch;
  const auto there = [&](const char* file) {
    return must(real_files().exists(small.path(cat("run/export/", file))));
  };
  // A run begins only where no checkpoints are.
  const auto train = [&](const std::vector<std::string>& settings) {
    must(real_files().remove_all(small.path("run/checkpoints")));
    small.train(small.job(settings), "run", watch);
  };
  train({"steps=2", "export=[onnx, npz]"});
  CHECK((there("model.onnx") && there("model.npz")));
  train({"steps=3", "export=[npz]"});
  CHECK((!there("model.onnx") && there("model.npz")));
  train({"steps=3"});
  CHECK_FALSE(there("model.npz"));
}

TEST_CASE("a job exports what its file asks for, or is refused before it trains") {
  const SmallJob small(kTinyCnn);
  Silent watch;
  small.train(small.job({"steps=2", "export=[onnx, npz]"}), "run", watch);
  const auto trained =
      must(read_safetensors(real_files(), small.path("run/weights.safetensors"))).tensors;
  for (const char* file : {"run/export/model.onnx", "run/export/model.npz"}) {
    INFO(file);
    const Variables values = must(read_weights_file(real_files(), small.path(file)));
    REQUIRE(values.size() == trained.size());
    for (const auto& [name, value] : trained)
      CHECK(std::memcmp(values.at(name).raw(), value.raw(), value.bytes()) == 0);
  }
  CHECK_FALSE(must(real_files().exists(small.path("run/export/model.safetensors"))));
  const SmallJob other(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  d = leat.Dense <units = 4> (f)
  y = leat.AllReduce <op = "sum"> (d)
}
)");
  const auto refused =
      other.trainer(other.job({"steps=2", "export=[onnx]"}), {other.path("run"), false, 1});
  REQUIRE(!refused.ok());
  CHECK_THAT(refused.status().message(),
             Contains("expected nodes that ONNX has, received leat.AllReduce 'y'"));
}

}  // namespace
}  // namespace leat
