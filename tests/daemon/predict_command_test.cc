// `leat predict` as a process: its inputs and the forms of its output.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/exit_code.h"
#include "daemon/cli/prediction_output.h"
#include "daemon/training/class_names.h"
#include "daemon/training/predictor.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/http_store.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
}

// A trained run, its predictions of the validation data, and `leat predict` on it.
class PredictedRun {
 public:
  PredictedRun() : small(kTinyCnn) {
    Silent watch;
    small.train(small.job({"steps=12"}), "run", watch);
    const Tensor rows = must(read_npy(real_files(), small.path("val-x.npy")));
    expected = must(predict(standard_catalogue(), real_files(), small.path("run"), {{"", rows}}));
    std::ofstream(small.path("names.txt")) << "up left\nup, right\ndown \"left\"\ndown right\n";
  }
  Finished predict_with(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"predict", "run"});
    return run_leat(small.path(), arguments);
  }
  Finished predicted(const std::vector<std::string>& arguments) const {
    const Finished done = predict_with(arguments);
    INFO(done.out << done.err);
    REQUIRE(done.exit_code == 0);
    return done;
  }
  int64_t best(int64_t row) const {
    int64_t best = 0;
    for (int64_t c = 1; c < 4; ++c) {
      if (expected.at(row * 4 + c) > expected.at(row * 4 + best)) best = c;
    }
    return best;
  }

  SmallJob small;
  Tensor expected;  // [50,4]
};

std::string formatted(PredictionFormat format, PredictionForm form, const Tensor& output) {
  std::string text;
  const auto sink = make_prediction_sink(format, std::move(form), [&](auto bytes) -> Status {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  });
  const Status begun = sink->begin(output.dtype(), output.shape());
  if (!begun.ok()) return std::string(begun.message());
  must(sink->take(output, output.shape()[0]));
  return text;
}

}  // namespace

TEST_CASE("leat predict writes the output of the model, whatever the source of the rows is") {
  const PredictedRun run;
  const std::string out = run.small.path("out.npy");
  const auto check = [&](const std::vector<std::string>& source) {
    std::vector<std::string> arguments = source;
    arguments.insert(arguments.end(), {"-o", "out.npy"});
    const Finished done = run.predicted(arguments);
    CHECK_THAT(done.err, Catch::Contains("Wrote float[50,4] to out.npy"));
    CHECK(must(read_npy(real_files(), out)).identical(run.expected));
    fs::remove(out);
  };
  check({"--input", "val-x.npy"});
  check({"--input", "image=val-x.npy"});
  check({"--data", "features=val-x.npy"});
  check({"--data", "features=val-x.npy", "--data", "labels=val-y.npy"});
  check({"--data", "{format: npy, features: val-x.npy, labels: val-y.npy}"});
  check({"--data", "pixels=val-x.npy", "--set", "model.inputs={image: pixels}"});
  fs::copy(run.small.path("run/weights.safetensors"), run.small.path("w.safetensors"));
  check({"--input", "val-x.npy", "--weights", "w.safetensors"});
  // A file of a store.
  const std::string rows = contents_of(run.small.path("val-x.npy"));
  const HttpStore server(
      [&](const StoreRequest& request) { return HttpStore::range_of(request, rows, "\"v\""); });
  check({"--input", server.url() + "/val-x.npy"});
  check({"--input", "image=" + server.url() + "/val-x.npy"});
}

TEST_CASE("leat predict writes the scores as CSV and as JSON lines") {
  const PredictedRun run;
  std::ofstream(run.small.path("out.csv.tmp")) << "of the user";
  run.predicted({"--input", "val-x.npy", "-o", "out.csv"});
  CHECK(contents_of(run.small.path("out.csv.tmp")) == "of the user");
  const auto csv = text_lines(contents_of(run.small.path("out.csv")));
  REQUIRE(csv.size() == 51);
  CHECK(csv[0] == "row,0,1,2,3");
  const auto score = [&](int64_t i) { return shortest(static_cast<float>(run.expected.at(i))); };
  CHECK(csv[8] == cat("7,", score(28), ",", score(29), ",", score(30), ",", score(31)));
  run.predicted({"--input", "val-x.npy", "-o", "out.jsonl"});
  const auto lines = text_lines(contents_of(run.small.path("out.jsonl")));
  REQUIRE(lines.size() == 50);
  const Json row = Json::parse(lines[49]);
  CHECK(row["row"] == 49);
  REQUIRE(row["scores"].size() == 4);
  CHECK(row["scores"][2].get<float>() == static_cast<float>(run.expected.at(49 * 4 + 2)));
}

TEST_CASE("leat predict names the best classes, with their probabilities") {
  const PredictedRun run;
  const auto numbers = text_lines(run.predicted({"--input", "val-x.npy"}).out);
  REQUIRE(numbers.size() == 50);
  for (int64_t row = 0; row < 50; ++row)
    CHECK(numbers[static_cast<size_t>(row)] == std::to_string(run.best(row)));
  const std::vector<std::string> names = {"up left", "up, right", "down \"left\"", "down right"};
  const auto named =
      text_lines(run.predicted({"--input", "val-x.npy", "--classes", "names.txt"}).out);
  for (int64_t row = 0; row < 50; ++row)
    CHECK(named[static_cast<size_t>(row)] == names[static_cast<size_t>(run.best(row))]);
  run.predicted({"--input", "val-x.npy", "-o", "top.jsonl", "--top", "3", "--softmax", "--classes",
                 "names.txt"});
  for (const std::string& line : text_lines(contents_of(run.small.path("top.jsonl")))) {
    const Json each = Json::parse(line);
    const int64_t row = each["row"];
    REQUIRE(each["top"].size() == 3);
    CHECK(each["top"][0]["class"] == names[static_cast<size_t>(run.best(row))]);
    double sum = 0;
    for (int64_t c = 0; c < 4; ++c) sum += std::exp(run.expected.at(row * 4 + c));
    CHECK(each["top"][0]["score"].get<double>() ==
          Approx(std::exp(run.expected.at(row * 4 + run.best(row))) / sum).epsilon(1e-6));
    CHECK(each["top"][0]["score"] >= each["top"][1]["score"]);
    CHECK(each["top"][1]["score"] >= each["top"][2]["score"]);
  }
  run.predicted({"--input", "val-x.npy", "-o", "top.csv", "--top", "2", "--classes", "names.txt"});
  CHECK(text_lines(contents_of(run.small.path("top.csv")))[0] ==
        "row,class_1,score_1,class_2,score_2");
  CHECK_THAT(contents_of(run.small.path("top.csv")), Catch::Contains("\"up, right\""));
  const auto printed = text_lines(run.predicted({"--input", "val-x.npy", "--top", "1"}).out);
  CHECK(Json::parse(printed[3])["top"][0]["class"] == run.best(3));
  const auto json = text_lines(run.predicted({"--input", "val-x.npy", "--json"}).out);
  CHECK(Json::parse(json[3])["class"] == run.best(3));
}

TEST_CASE("leat predict names the classes that the run knows, if they fit") {
  const PredictedRun run;
  const std::vector<std::string> names = {"cat", "dog", "a, b", "fish"};
  must(keep_class_names(real_files(), run.small.path("run"), names));
  const auto best = text_lines(run.predicted({"--input", "val-x.npy"}).out);
  for (int64_t row = 0; row < 50; ++row)
    CHECK(best[static_cast<size_t>(row)] == names[static_cast<size_t>(run.best(row))]);
  run.predicted({"--input", "val-x.npy", "-o", "named.csv", "--softmax"});
  const auto csv = text_lines(contents_of(run.small.path("named.csv")));
  CHECK(csv[0] == "row,cat,dog,\"a, b\",fish");
  run.predicted({"--input", "val-x.npy", "-o", "named.jsonl", "--top", "1"});
  const auto lines = text_lines(contents_of(run.small.path("named.jsonl")));
  CHECK(Json::parse(lines[3])["top"][0]["class"] == names[static_cast<size_t>(run.best(3))]);
  // --classes counts more, and names for another number of classes do not.
  const auto given =
      text_lines(run.predicted({"--input", "val-x.npy", "--classes", "names.txt"}).out);
  CHECK(std::count(given.begin(), given.end(), "cat") == 0);
  must(keep_class_names(real_files(), run.small.path("run"), {"cat", "dog"}));
  CHECK(text_lines(run.predicted({"--input", "val-x.npy"}).out)[0] == std::to_string(run.best(0)));
}

TEST_CASE("leat predict refuses forms that do not fit the output, and keeps the old file") {
  const PredictedRun run;
  std::ofstream(run.small.path("out.csv")) << "as it was";
  const auto refused = [&](const std::vector<std::string>& more, int code,
                           const std::vector<std::string>& parts) {
    std::vector<std::string> arguments = {"--input", "val-x.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    check_refused(run.predict_with(arguments), code, parts);
    CHECK(contents_of(run.small.path("out.csv")) == "as it was");
  };
  refused({"-o", "out.txt"}, kExitInvalid, {".npy, .csv or .jsonl", "'out.txt'"});
  refused({"-o", "out.npy", "--top", "2"}, kExitInvalid, {"--top", "'out.npy'"});
  refused({"-o", "out.csv", "--top", "5"}, kExitInvalid, {"--top", "at most 4", "received 5"});
  std::ofstream(run.small.path("few.txt")) << "a\nb\n";
  refused({"-o", "out.csv", "--classes", "few.txt"}, kExitInvalid, {"--classes", "4 names", "2"});
  refused({"--classes", "none"}, kExitNoSuch, {"no such file of classes"});
  check_refused(run.predict_with({"--input", "val-x.npy", "--input", "label=y.gz"}), kExitNoSuch,
                {"no such input file"});
  check_refused(run.predict_with({"--data", "features=val-y.npy", "-o", "out.csv"}), kExitInvalid,
                {"expected"});
  CHECK(contents_of(run.small.path("out.csv")) == "as it was");
  CHECK(run.predict_with({}).exit_code == kExitUsage);
  CHECK(run.predict_with({"--input", "x", "--data", "y=z"}).exit_code == kExitUsage);
}

TEST_CASE("predictions have the same bytes for equal numbers, and every number has a form") {
  const Tensor output = Tensor::of<float>({2, 3}, {0.5f, 0.25f, 0.25f, -1.0f, 3.0f, 0.1f});
  CHECK(formatted(PredictionFormat::csv, {}, output) == "row,0,1,2\n0,0.5,0.25,0.25\n1,-1,3,0.1\n");
  CHECK(formatted(PredictionFormat::csv, {.top = 1, .classes = {"a", "b,c", "d"}}, output) ==
        "row,class,score\n0,a,0.5\n1,\"b,c\",3\n");
  CHECK(formatted(PredictionFormat::jsonl, {.top = 2}, output) ==
        "{\"row\": 0, \"top\": [{\"class\": 0, \"score\": 0.5}, {\"class\": 1, \"score\": 0.25}]}\n"
        "{\"row\": 1, \"top\": [{\"class\": 1, \"score\": 3}, {\"class\": 2, \"score\": 0.1}]}\n");
  CHECK(formatted(PredictionFormat::class_lines, {.classes = {"a", "\"b\"", "c"}}, output) ==
        "{\"row\": 0, \"class\": \"a\", \"score\": 0.5}\n"
        "{\"row\": 1, \"class\": \"\\\"b\\\"\", \"score\": 3}\n");
  const Tensor odd = Tensor::of<double>({1, 2}, {NAN, -INFINITY});
  CHECK(formatted(PredictionFormat::jsonl, {}, odd) ==
        "{\"row\": 0, \"scores\": [\"NaN\", \"-Infinity\"]}\n");
  CHECK(formatted(PredictionFormat::classes, {}, odd) == "0\n");
  const Tensor scalars = Tensor::of<float>({2}, {1.5f, 2.5f});
  CHECK(formatted(PredictionFormat::csv, {}, scalars) == "row,0\n0,1.5\n1,2.5\n");
  // The probabilities of each position of a sequence.
  const Tensor sequence = Tensor::of<double>({1, 2, 2}, {0, 0, 0, std::log(3.0)});
  CHECK_THAT(formatted(PredictionFormat::csv, {.softmax = true}, sequence),
             Catch::Contains("0,0.5,0.5,0.25,0.75"));
  CHECK_THAT(formatted(PredictionFormat::csv, {.softmax = true}, Tensor::of<int64_t>({1}, {3})),
             Catch::Contains("--softmax: expected floats"));
}

}  // namespace leat
