// leat metrics, plot, compare, completion and man, as a user types them.
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A run's folder with a short log; the loss ends at `loss`.
void make_run(const TemporaryDirectory& folder, const std::string& name, double rate, double loss) {
  const std::string run = folder.path() + "/" + name;
  std::filesystem::create_directory(run);
  write_text(run + "/job.yaml",
             cat("version: 1\nname: small\noptimizer: {learning_rate: ", rate, "}\n"));
  write_text(run + "/metrics.jsonl",
             cat("{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": ", loss,
                 "}\n{\"epoch\": 1, \"step\": 2, \"loss\": ", (2 + loss) / 2,
                 ", \"timing\": {\"seconds\": 3}}\n"));
}

TEST_CASE("the numbers of a run are printed as a table, as CSV and as JSON") {
  const TemporaryDirectory folder;
  make_run(folder, "run", 0.1, 0.5);
  const Finished table = run_leat(folder.path(), {"metrics", "run"});
  CHECK(table.exit_code == 0);
  CHECK(table.out == "EPOCH  STEP  LOSS    SECONDS\n1      2     1.2500  3.0000\n");
  const Finished csv = run_leat(folder.path(), {"metrics", "run", "--csv"});
  CHECK(csv.out == "step,loss\n1,2\n2,0.5\n");
  const Finished epochs = run_leat(folder.path(), {"metrics", "run", "--csv", "--epochs"});
  CHECK(epochs.out == "epoch,step,loss,seconds\n1,2,1.25,3\n");
  const Finished json = run_leat(folder.path(), {"metrics", "run", "--json"});
  CHECK(json.out == "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 0.5}\n");
  CHECK(run_leat(folder.path(), {"metrics", "run", "--json", "--csv"}).exit_code == 2);
}

TEST_CASE("curves of several runs are drawn in the terminal and into a file") {
  const TemporaryDirectory folder;
  make_run(folder, "one", 0.1, 0.5);
  make_run(folder, "two", 0.2, 1.5);
  const Finished drawn = run_leat(folder.path(), {"plot", "one", "two/"});
  CHECK(drawn.exit_code == 0);
  CHECK_THAT(drawn.out, Catch::StartsWith("loss\n"));
  CHECK_THAT(drawn.out, Catch::EndsWith("  a  one\n  b  two\n"));
  const Finished file = run_leat(folder.path(), {"plot", "one", "-o", "loss.svg"});
  CHECK(file.out == "loss.svg\n");
  CHECK(std::filesystem::file_size(folder.path() + "/loss.svg") > 1000);
  const Finished other = run_leat(folder.path(), {"plot", "one", "-m", "accuracy"});
  CHECK(other.exit_code == 7);
  CHECK(other.errors() ==
        std::vector<std::string>{"metric: expected one of loss, seconds, received "
                                 "'accuracy'"});
  const Finished image = run_leat(folder.path(), {"plot", "one", "-o", "loss.png"});
  INFO(image.err);
  CHECK(image.out == "loss.png\n");
  std::string head(8, '\0');
  std::ifstream(folder.path() + "/loss.png", std::ios::binary).read(head.data(), 8);
  CHECK(head == "\x89PNG\r\n\x1a\n");
  const Finished unknown = run_leat(folder.path(), {"plot", "one", "-o", "loss.gif"});
  CHECK(unknown.exit_code == 7);
  CHECK_THAT(unknown.err, Catch::Contains("'loss.gif': expected a name that ends in .svg or .png"));
  // Without the program that draws it.
  const Finished without = run_program(leat_binary(), folder.path(),
                                       {"plot", "one", "-o", "other.png"}, {"PATH=/nowhere"});
  CHECK(without.exit_code == 1);
  CHECK_THAT(without.err, Catch::Contains("apt-get install librsvg2-bin"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/other.png"));
}

// The records of a file of events, each of which has its length and checksums before and behind it.
std::vector<std::string> records_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> records;
  for (size_t at = 0; at + 12 < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    records.push_back(bytes.substr(at + 12, length));
    at += 12 + length + 4;
  }
  return records;
}

TEST_CASE("the numbers of a run are written for TensorBoard") {
  const TemporaryDirectory folder;
  make_run(folder, "run", 0.1, 0.5);
  const Finished done = run_leat(folder.path(), {"metrics", "run", "--tensorboard", "board"});
  CHECK(done.exit_code == 0);
  CHECK(done.out == "board/run/events.out.tfevents.leat\n");
  const auto records = records_of(folder.path() + "/board/run/events.out.tfevents.leat");
  REQUIRE(records.size() == 4);  // the version, two steps, an epoch
  CHECK_THAT(records[0], Catch::EndsWith("\x1a\rbrain.Event:2"));
  // step 2, and a summary with the value 0.5 of the tag "loss".
  CHECK(records[2].substr(9) ==
        std::string("\x10\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 17));
  CHECK_THAT(records[3], Catch::Contains("epoch/loss"));
}

TEST_CASE("two runs are compared by their keys, numbers and weights") {
  const TemporaryDirectory folder;
  make_run(folder, "one", 0.1, 0.5);
  make_run(folder, "two", 0.2, 1.5);
  const Finished text = run_leat(folder.path(), {"compare", "one", "two"});
  CHECK(text.exit_code == 0);
  const size_t table = text.out.find("\nloss\n");
  CHECK(text.out.substr(0, table) ==
        "                         one               two\n"
        "optimizer.learning_rate  0.1               0.2\n"
        "steps                    2                 2\n"
        "loss                     1.2500            1.7500\n"
        "best loss                1.2500 (epoch 1)  1.7500 (epoch 1)\n"
        "training time            3.0000 s          3.0000 s\n"
        "weights_sha256           -                 -\n");
  // Their curves stand below.
  REQUIRE(table != std::string::npos);
  CHECK_THAT(text.out.substr(table), Catch::EndsWith("  a  one\n  b  two\n"));
  const Finished json = run_leat(folder.path(), {"compare", "one", "two", "--json"});
  CHECK_THAT(json.out, Catch::Contains("{\"kind\": \"KeyDifference\", \"key\": "
                                       "\"optimizer.learning_rate\", \"first\": \"0.1\""));
}

TEST_CASE("a run that is not there, or is none, is named") {
  const TemporaryDirectory folder;
  const Finished missing = run_leat(folder.path(), {"metrics", "./none"});
  CHECK(missing.exit_code == 5);
  CHECK(missing.errors() == std::vector<std::string>{"no such run: './none'"});
  std::filesystem::create_directory(folder.path() + "/empty");
  const Finished empty = run_leat(folder.path(), {"plot", "empty"});
  CHECK(empty.exit_code == 1);
  CHECK(empty.errors() == std::vector<std::string>{"'empty': expected the folder of a run, with "
                                                   "metrics.jsonl, found no such file in it"});
}

TEST_CASE("the points of curves are printed as JSON") {
  const auto point = [](const char* run, int step, const char* value) {
    return cat(R"({"apiVersion": "leat/v1", "kind": "Point", "run": ")", run,
               R"(", "metric": "loss", "step": )", step, R"(, "value": )", value, "}\n");
  };
  const TemporaryDirectory folder;
  make_run(folder, "one", 0.1, 0.5);
  make_run(folder, "two", 0.2, 1.5);
  const Finished loss = run_leat(folder.path(), {"plot", "one", "two", "--json"});
  CHECK(loss.exit_code == 0);
  CHECK(loss.out == cat(point("one", 1, "2"), point("one", 2, "0.5"), point("two", 1, "2"),
                        point("two", 2, "1.5")));
  const Finished smooth =
      run_leat(folder.path(), {"plot", "one", "./one", "--json", "--smooth", "1"});
  CHECK(smooth.out == cat(point("one", 1, "1.25"), point("one", 2, "1.25"),
                          point("./one", 1, "1.25"), point("./one", 2, "1.25")));
  CHECK(run_leat(folder.path(), {"plot", "one", "--json", "-o", "loss.svg"}).exit_code == 2);
}

// The words that bash offers for the last of these words.
std::string completed(const TemporaryDirectory& folder, const std::string& words) {
  const std::string script =
      cat("source <(", leat_binary(), " completion bash); COMP_WORDS=(", words,
          "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _leat; echo ${COMPREPLY[@]}");
  return run_program("/bin/bash", folder.path(), {"-c", script}, {}).out;
}

TEST_CASE("bash completes commands, flags and files") {
  const TemporaryDirectory folder;
  CHECK(completed(folder, "leat checkpoint ''") == "ls verify diff copy save export --help -h\n");
  CHECK(completed(folder, "leat trai") == "train\n");
  CHECK(completed(folder, "leat train --out") == "--output\n");
  CHECK(completed(folder, "leat --color never plan --js") == "--json\n");
  write_text(folder.path() + "/my-job.yaml", "");
  CHECK(completed(folder, "leat train my-") == "my-job.yaml\n");
  for (const std::string shell : {"zsh", "fish"}) {
    const Finished script = run_leat(folder.path(), {"completion", shell});
    CHECK(script.exit_code == 0);
    CHECK_THAT(script.out, Catch::Contains("compare"));
  }
  // fish waits for a value behind an option that has one, and behind no flag.
  const Finished fish = run_leat(folder.path(), {"completion", "fish"});
  CHECK_THAT(fish.out, Catch::Contains("'__fish_seen_subcommand_from train' -l output -r -d") &&
                           Catch::Contains("'__fish_seen_subcommand_from train' -l json -d"));
  CHECK(run_leat(folder.path(), {"completion", "csh"}).exit_code == 2);
}

TEST_CASE("the commands and their options are printed as JSON") {
  const TemporaryDirectory folder;
  const Finished words = run_leat(folder.path(), {"completion", "--json"});
  CHECK(words.exit_code == 0);
  std::map<std::string, std::set<std::string>> options;
  std::istringstream lines(words.out);
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    std::set<std::string>& of = options[line.at("command").get<std::string>()];
    if (line.at("kind") != "Command") of.insert(line.at("name").get<std::string>());
    CHECK(!line.at("help").get<std::string>().empty());
  }
  CHECK(options.contains("leat checkpoint ls"));
  CHECK(options["leat completion"] == std::set<std::string>{"help", "json", "SHELL"});
  CHECK_THAT(words.out,
             Catch::Contains(R"("kind": "Option", "command": "leat plot", "name": "output", )"
                             R"("letter": "o", "value": "FILE", "required": false, "help": )"));
  CHECK_THAT(words.out,
             Catch::Contains(R"("kind": "Option", "command": "leat train", "name": "json", )"
                             R"("letter": null, "value": null, "required": false, "help": )"));
  CHECK_THAT(words.out,
             Catch::Contains(R"("kind": "Argument", "command": "leat plot", "name": "RUN|JOB", )"
                             R"("required": true, "help": )"));
  // One of the two is needed.
  const Finished neither = run_leat(folder.path(), {"completion"});
  CHECK(neither.exit_code == 2);
  CHECK_THAT(neither.err, Catch::Contains("SHELL is required, or --json"));
  CHECK(run_leat(folder.path(), {"completion", "bash", "--json"}).exit_code == 2);
}

TEST_CASE("the manual has a page for each command") {
  const TemporaryDirectory folder;
  const Finished page = run_leat(folder.path(), {"man", "checkpoint ls"});
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Catch::StartsWith(".TH LEAT\\-CHECKPOINT\\-LS 1"));
  CHECK_THAT(page.out,
             Catch::Contains(".SH SYNOPSIS\n.B leat checkpoint ls\n[OPTIONS] PATH|JOB\n"));
  CHECK_THAT(run_leat(folder.path(), {"man"}).out, Catch::Contains("\n.B leat train\n"));
  const std::string leatd = leat_binary() + "d";
  const Finished worker = run_program(leatd, folder.path(), {"man", "worker"}, {});
  CHECK(worker.exit_code == 0);
  CHECK_THAT(worker.out,
             Catch::StartsWith(".TH LEATD\\-WORKER 8") && Catch::Contains(".B \\-\\-threads N\n"));
  CHECK_THAT(run_program(leatd, folder.path(), {"man"}, {}).out,
             Catch::Contains("\n.B leatd config\n"));
  CHECK(run_program(leatd, folder.path(), {"man", "workers"}, {}).exit_code == 2);
  const Finished unknown = run_leat(folder.path(), {"man", "checkpoint lss"});
  CHECK(unknown.exit_code == 2);
}

}  // namespace
}  // namespace leat
