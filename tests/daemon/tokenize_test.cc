// leat data tokenize, as a user types it, and trainings on text.
#include <cstring>
#include <fstream>
#include <sstream>

#include "daemon/cli/command_line.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

void write_raw(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename T>
std::vector<int64_t> read_tokens(const std::string& path) {
  const std::string bytes = read_raw(path);
  std::vector<T> tokens(bytes.size() / sizeof(T));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return {tokens.begin(), tokens.end()};
}

Finished tokenize(const TemporaryDirectory& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"data", "tokenize"});
  return run_leat(folder.path(), arguments);
}

}  // namespace

TEST_CASE("text becomes tokens of bytes, with a separator behind each document") {
  const TemporaryDirectory folder;
  write_raw(folder / "a.txt", "ab\n\nc\n");
  write_raw(folder / "b.txt", "d");
  Finished done = tokenize(folder, {"a.txt", "b.txt", "out.bin"});
  CHECK(done.exit_code == 0);
  CHECK(done.err == "out.bin: 7 tokens, 2 documents, a vocabulary of 256\n");
  CHECK(read_tokens<uint16_t>(folder / "out.bin") ==
        std::vector<int64_t>{97, 98, 10, 10, 99, 10, 100});
  done = tokenize(folder, {"a.txt", "b.txt", "out.bin", "--documents", "paragraphs", "--separator",
                           "256", "--starts", "starts.npy", "--dtype", "uint32"});
  CHECK(done.exit_code == 0);
  CHECK(read_tokens<uint32_t>(folder / "out.bin") ==
        std::vector<int64_t>{97, 98, 256, 99, 256, 100, 256});
  const Tensor starts = must(read_npy(real_files(), folder / "starts.npy"));
  CHECK(starts.identical(Tensor::of<int64_t>({3}, {0, 3, 5})));
  done = tokenize(folder, {"a.txt", "out.bin", "--documents", "lines", "--dtype", "uint8"});
  CHECK(read_raw(folder / "out.bin") == "abc");
}

TEST_CASE("text becomes tokens of characters, and a vocabulary that other texts share") {
  const TemporaryDirectory folder;
  write_raw(folder / "train.txt",
            "b\xc3\xa4"
            "a\n");
  write_raw(folder / "val.txt", "\xc3\xa4\xc3\xa4");
  write_raw(folder / "other.txt", "abc");
  Finished done = tokenize(folder, {"train.txt", "train.bin", "--tokenizer", "char"});
  CHECK(done.err == "train.bin: 4 tokens, 1 document, a vocabulary of 4\n");
  CHECK(read_tokens<uint16_t>(folder / "train.bin") == std::vector<int64_t>{2, 3, 1, 0});
  CHECK(read_raw(folder / "train.bin.characters") == "\nab\xc3\xa4");
  done = tokenize(folder, {"val.txt", "val.bin", "--tokenizer", "char:train.bin.characters"});
  CHECK(done.exit_code == 0);
  CHECK(read_tokens<uint16_t>(folder / "val.bin") == std::vector<int64_t>{3, 3});
  done = tokenize(folder, {"other.txt", "val.bin", "--tokenizer", "char:train.bin.characters"});
  CHECK(done.errors() == std::vector<std::string>{"'other.txt': expected characters of the "
                                                  "vocabulary, received 'c' at byte 2"});
  CHECK(read_tokens<uint16_t>(folder / "val.bin") == std::vector<int64_t>{3, 3});
}

TEST_CASE("a text that cannot be tokenized is one error, and the file of tokens stays as it was") {
  const TemporaryDirectory folder;
  write_raw(folder / "bad.txt", "ab\xff");
  write_raw(folder / "good.txt", "ab");
  write_raw(folder / "twice.txt", "aba");
  write_raw(folder / "out.bin", "as it was");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"bad.txt", "out.bin", "--tokenizer", "char"}, "'bad.txt': expected UTF-8 at byte 2"},
      {{"good.txt", "out.bin", "--dtype", "uint8", "--separator", "256"},
       "'good.txt': expected tokens that uint8 can hold, received 256; write --dtype uint16"},
      {{"good.txt", "out.bin", "--separator", "65536"},
       "'good.txt': expected tokens that uint16 can hold, received 65536; write --dtype uint32"},
      {{"good.txt", "good.txt"}, "'good.txt': expected another file to write than those to read"},
      {{"good.txt", "out.bin", "--tokenizer", "words"},
       "--tokenizer: expected bytes, char, char:VOCABULARY or sentencepiece:MODEL, received "
       "'words'"},
      {{"good.txt", "out.bin", "--tokenizer", "char:twice.txt"},
       "'twice.txt': expected a vocabulary, each of whose characters is there once, as --tokenizer "
       "char writes it"},
  };
  for (const auto& [arguments, error] : cases) {
    const Finished done = tokenize(folder, arguments);
    CHECK(done.errors() == std::vector<std::string>{error});
    CHECK(done.exit_code != 0);
  }
  CHECK(tokenize(folder, {"none.txt", "out.bin"}).exit_code == 5);
  CHECK(read_raw(folder / "out.bin") == "as it was");
}

TEST_CASE("SentencePiece's tokens are those of spm_encode, line by line") {
  const TemporaryDirectory folder;
  const auto run_spm = [&](const std::string& program, const std::vector<std::string>& arguments) {
    Finished done = run_program(program, folder.path(), arguments, {});
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    return done.out;
  };
  const std::string words[] = {"the", "river", "mill", "turns", "slow", "water", "na\xc3\xafve"};
  std::string corpus;
  for (int line = 0; line < 300; ++line) {
    for (int word = 0; word < 9; ++word) corpus += words[(line * 5 + word * word) % 7] + " ";
    corpus += std::to_string(line) + "\n";
  }
  write_raw(folder / "corpus.txt", corpus);
  run_spm("/usr/bin/spm_train", {"--input=corpus.txt", "--model_prefix=small", "--vocab_size=60",
                                 "--model_type=bpe", "--minloglevel=2"});
  const std::string text = "the river turns\n\n  na\xc3\xafve mill 17 \xe2\x82\xac\nwater";
  write_raw(folder / "text.txt", text);
  Finished done =
      tokenize(folder, {"text.txt", "out.bin", "--tokenizer", "sentencepiece:small.model"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  CHECK(done.err.find(" tokens, 1 document, a vocabulary of 60\n") != std::string::npos);
  std::vector<int64_t> expected;
  std::istringstream ids(
      run_spm("/usr/bin/spm_encode", {"--model=small.model", "--output_format=id", "text.txt"}));
  for (int64_t id = 0; ids >> id;) expected.push_back(id);
  REQUIRE(expected.size() >= 10);
  CHECK(read_tokens<uint16_t>(folder / "out.bin") == expected);
  // The pieces decode to the text, but for blanks that are not single, and the euro.
  std::string line;
  for (const int64_t id : expected) line += std::to_string(id) + " ";
  write_raw(folder / "ids.txt", line + "\n");
  CHECK(run_spm("/usr/bin/spm_decode", {"--model=small.model", "--input_format=id", "ids.txt"})
            .find("the river turns na\xc3\xafve mill 17") == 0);
  // Documents of lines, each with its separator.
  done = tokenize(folder, {"text.txt", "lines.bin", "--tokenizer", "sentencepiece:small.model",
                           "--documents", "lines", "--separator", "2"});
  CHECK(done.err.find("3 documents") != std::string::npos);
  CHECK(read_tokens<uint16_t>(folder / "lines.bin").size() == expected.size() + 3);
}

TEST_CASE("a model that is none, and programs that are not there, are one error") {
  const TemporaryDirectory folder;
  write_raw(folder / "text.txt", "ab");
  write_raw(folder / "bad.model", "no model");
  const std::vector<std::string> arguments = {"data",    "tokenize",    "text.txt",
                                              "out.bin", "--tokenizer", "sentencepiece:bad.model"};
  const Finished bad = run_leat(folder.path(), arguments);
  REQUIRE(bad.errors().size() == 1);
  CHECK(bad.errors()[0].find("'bad.model': the program 'spm_export_vocab' ended with ") == 0);
  const Finished none = run_program(leat_binary(), folder.path(), arguments, {"PATH=/nowhere"});
  REQUIRE(none.errors().size() == 1);
  CHECK(none.errors()[0].find("expected the programs of the package sentencepiece (apt-get install "
                              "sentencepiece)") != std::string::npos);
  CHECK(none.exit_code == 1);
  CHECK(!must(real_files().exists(folder / "out.bin")));
}

TEST_CASE("a language model trains on the bytes of a text, and separators count nothing") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
bytes (int64[N,7] tokens) => (float[N,7,257] logits) {
  e = leat.Embedding <input_dim = 257, output_dim = 8> (tokens)
  logits = leat.Dense <units = 257> (e)
}
)");
  std::string text;
  for (int i = 0; i < 300; ++i) text += "abcdefg\n";
  write_raw(small.path("text.txt"), text);
  const std::vector<std::string> common = {
      "data.train={format: tokens, files: text.txt, dtype: uint8, window: 8}",
      "data.validation=null",
      "data.rescale=1",
      "metrics=[]",
      "steps=40",
      "optimizer={name: adam, learning_rate: 0.05}",
      "lr_scheduler={name: constant}"};
  Silent watch;
  small.train(small.job(common), "bytes", watch);
  CHECK(watch.losses.front() > 5);
  CHECK(watch.losses.back() < 1);
  // Packed documents: the labels that are separators are ignored.
  const Finished done = run_leat(small.path(), {"data", "tokenize", "text.txt", "text.bin",
                                                "--documents", "lines", "--separator", "256"});
  REQUIRE(done.exit_code == 0);
  std::vector<std::string> packed = common;
  packed[0] = "data.train={format: tokens, files: text.bin, window: 8}";
  packed.push_back("loss={name: cross_entropy, ignore_index: 256}");
  Silent other;
  small.train(small.job(packed), "packed", other);
  CHECK(other.losses.back() < 1);
}

}  // namespace leat
