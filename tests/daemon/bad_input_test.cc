// Every wrong input gives one error with subject, expectation and received, the documented exit
// code, and no run folder: job files, graphs, weights, data sets, flags.
#include "tests/daemon/bad_input.h"

#include <filesystem>

#include "daemon/base/exit_code.h"
#include "devices/base/files.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"

namespace leat {
namespace {

using Parts = std::vector<std::string>;

TEST_CASE("the job that these tests spoil is good") {
  const TinyJob tiny;
  check_ok(tiny.train("run"));
  const auto left = tiny.snapshot("run");
  for (const char* name :
       {"run/job.yaml", "run/net.onnxtxt", "run/metrics.jsonl", "run/weights.safetensors",
        "run/provenance.txt", "run/checkpoints/step-00000004/manifest.json",
        "run/checkpoints/step-00000008/part-00000-of-00002.safetensors",
        "run/checkpoints/step-00000008/part-00001-of-00002.safetensors"}) {
    INFO(name);
    CHECK(left.count(name) == 1);
  }
  CHECK(left.size() == 11);
}

TEST_CASE("a wrong job file is refused with the place") {
  struct Case {
    std::string from, to;
    Parts parts;
  };
  const TinyJob tiny;
  for (const Case& c : std::vector<Case>{
           {"shards: 2",
            "shard: 2",
            {"job.yaml:14:1", "shard: unknown key", "did you mean 'shards'"}},
           {"steps: 8",
            "steps: eight",
            {"job.yaml:13:8", "expected an integer", "received", "'eight'"}},
           {"shards: 2", "shards: 2\nshards: 2", {"job.yaml:15:1", "duplicate key 'shards'"}},
           {"shards: 2", "shards: [2", {"job.yaml:15:9", "not valid YAML"}},
           {"loss: cross_entropy", "loss: crossentropy", {"job.yaml:9:7", "'crossentropy'"}},
           {"name: sgd", "name: sgdd", {"job.yaml:11:19", "sgdd", "did you mean 'sgd'"}},
           {"global_batch_size: 8",
            "global_batch_size: 7",
            {"job.yaml:12:20", "multiple of 2", "received 7"}},
           {"num_workers: 2", "num_workers: 3", {"job.yaml:16:14", "at most 2", "received 3"}},
           {"features: x",
            "features: ../x",
            {"job.yaml:6:34", "below data.root", "received '../x'"}},
           {"version: 1",
            "version: 2",
            {"job.yaml:1:10", "expected the integer 1", "the integer 2"}},
       }) {
    INFO(c.to);
    check_refused(tiny.train_in_vain({{c.from, c.to}}), kExitInvalid, c.parts);
  }
  tiny.write("empty.yaml", "");
  check_refused(tiny.leat({"train", "empty.yaml"}), kExitInvalid, {"empty.yaml"});
  tiny.write("binary.yaml", std::string("\0\xff\n\x1b[31m", 8));
  check_refused(tiny.leat({"plan", "binary.yaml"}), kExitInvalid, {"binary.yaml"});
}

TEST_CASE("a wrong flag is refused") {
  struct Case {
    Parts arguments;
    int exit_code;
    Parts parts;
  };
  const TinyJob tiny;
  for (const Case& c : std::vector<Case>{
           {{"--threads", "0"}, kExitUsage, {"--threads", "at least 1", "received '0'"}},
           {{"--workers", "-1"}, kExitUsage, {"--workers", "at least 1", "received '-1'"}},
           {{"--seed", "x"}, kExitUsage, {"--seed", "expected an integer", "'x'"}},
           {{"--resume", "run"}, kExitUsage, {"--resume", "--output"}},
           {{"--worker", "2"}, kExitUsage, {"'--worker'", "did you mean '--workers'"}},
           {{"--workers", "3"},
            kExitInvalid,
            {"--workers 3", "at most 2", "the shards of the job"}},
           {{"--set", "steps"}, kExitInvalid, {"--set steps", "expected path.to.key=value"}},
           {{"--set", "optimizer.lr=1"}, kExitInvalid, {"optimizer.lr", "unknown key"}},
       }) {
    INFO(c.arguments[0] << " " << c.arguments[1]);
    check_refused(tiny.train_in_vain({}, c.arguments), c.exit_code, c.parts);
  }
  check_refused(tiny.leat({"trian", "job.yaml"}), kExitUsage, {"'trian'", "did you mean 'train'"});
  check_refused(tiny.leat({"train"}), kExitUsage, {"JOB is required"});
  check_refused(run_leat(tiny.folder(), {"plan", "job.yaml"}, "files/append=explode"), kExitUsage,
                {"failpoint", "'explode'", "LEAT_FAILPOINTS"});
}

TEST_CASE("a file that a job names and that is not there is said by its kind") {
  const TinyJob tiny;
  const auto missing = [&](const std::string& from, const std::string& to, const Parts& parts) {
    INFO(to);
    check_refused(tiny.train_in_vain({{from, to}}), kExitNoSuch, parts);
    check_refused(tiny.leat({"plan", "job.yaml"}), kExitNoSuch, parts);
  };
  missing("net.onnxtxt", "none.onnxtxt", {"no such graph file", "/none.onnxtxt'"});
  missing("net.onnxtxt}", "net.onnxtxt, weights: none.safetensors}",
          {"no such weights file", "/none"});
  missing("root: .", "root: nowhere", {"no such data root", "/nowhere'"});
  missing("features: x", "features: none", {"no such data file", "/none'"});
  missing("labels: y}\n  rescale", "labels: none}\n  rescale", {"no such data file", "/none'"});
  check_refused(tiny.leat({"train", "none.yaml"}), kExitNoSuch,
                {"no such job file", "'none.yaml'"});
  check_refused(tiny.leat({"train", "."}), kExitFailed, {"'.'", "expected a regular file"});
}

constexpr const char* kHeader = "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n";

TEST_CASE("a wrong graph as text is refused") {
  struct Case {
    std::string name, text;
    Parts parts;
  };
  const std::string name(1025, 'a');
  const TinyJob tiny;
  for (
      const Case& c : std::vector<Case>{
          {"empty", "", {"expected the graph's name", "end of file"}},
          {"cut", half(tiny.read("net.onnxtxt")), {"g.onnxtxt:", "expected", "end of file"}},
          {"binary",
           std::string("\xff\xfe\0\x1b[31m\n", 9),
           {"g.onnxtxt:1:1", "expected the graph's name"}},
          {"unknown op",
           "n (float[N,4] x) => (float[N,4] y) { y = Reluu (x) }",
           {"g.onnxtxt:2:42", "expected a known op", "'Reluu'", "did you mean 'Relu'"}},
          {"cycle",
           "n (float[N,4] x) => (float[N,4] y) { a = Add (x, bb)\n bb = Relu (a)\n y = Relu (bb) }",
           {"g.onnxtxt:2:50", "expected a value defined above", "'bb'"}},
          {"dangling",
           "n (float[N,4] x) => (float[N,4] y) { y = Add (x, nowhere) }",
           {"g.onnxtxt:2:50", "expected a value defined above", "'nowhere'"}},
          {"no output", "n (float[N,4] x) => (float[N,4] y) { z = Relu (x) }", {"expected", "'y'"}},
          {"sizes",
           "n (float[64,128] a, float[100,10] b) => (float[64,10] y) { y = MatMul (a, b) }",
           {"MatMul 'y'", "inner sizes differ", "[64,128]", "[100,10]", "g.onnxtxt"}},
          {"2^62",
           "n (float[4611686018427387904] x) => (float[N,4] y) { y = Relu (x) }",
           {"input 'x'", "expected at most 1099511627776 elements", "4611686018427387904"}},
          {"2^31 squared",
           "n (float[2147483648,2147483648] x) => (float[N,4] y) { y = Relu (x) }",
           {"input 'x'", "expected at most", "[2147483648,2147483648]"}},
          {"2^62 of a value",
           "n (float[4] x) => (float[M] y) <int64[1] s = {4611686018427387904}> { y = "
           "ConstantOfShape (s) }",
           {"ConstantOfShape 'y'", "expected at most", "[4611686018427387904]"}},
          {"2^62 units",
           "n (float[N,4] x) => (float[N,3] y) { y = leat.Dense <units = 4611686018427387904> (x) "
           "}",
           {"leat.Dense 'y'", "'units'", "expected 1 to", "received 4611686018427387904"}},
          {"past 64 bits",
           "n (float[99999999999999999999] x) => (float[N,4] y) { y = Relu (x) }",
           {"expected a size of 64 bits", "99999999999999999999"}},
          {"dtypes",
           "n (float[N,4] x, int64[N,4] z) => (float[N,4] y) { y = Add (x, z) }",
           {"Add 'y'", "input 1 'B'", "expected float", "received int64"}},
          {"declared",
           "n (int32[N,4] x) => (float[N,4] y) { y = Relu (x) }",
           {"'y'", "float[N,4]", "int32[N,4]"}},
          {"rank 9",
           "n (float[1,1,1,1,1,1,1,1,1] x) => (float[N,4] y) { y = Relu (x) }",
           {"expected at most 8 dimensions"}},
          {"long name",
           "n (float[N,4] x) => (float[N,4] y) { " + name + " = Relu (x)\n y = Relu (" + name +
               ") }",
           {"expected a value's name of at most 1024 bytes"}},
          {"attribute",
           "n (float[N,4] x) => (float[N,3] y) { y = leat.Dense <unit = 3> (x) }",
           {"leat.Dense 'y'", "'unit'", "did you mean 'units'"}},
          {"attribute's type",
           "n (float[N,4] x) => (float[N,3] y) { y = leat.Dense <units = \"three\"> (x) }",
           {"leat.Dense 'y'", "'units'", "expected int", "received string"}},
      }) {
    INFO(c.name);
    tiny.write("g.onnxtxt", c.name == "empty" || c.name == "cut" || c.name == "binary"
                                ? c.text
                                : kHeader + c.text);
    check_refused(tiny.leat({"graph", "check", "g.onnxtxt"}), kExitInvalid, c.parts);
    tiny.write("keep.leat", "as it was");
    check_refused(tiny.leat({"graph", "convert", "g.onnxtxt", "keep.leat"}), kExitInvalid, c.parts);
    CHECK(tiny.read("keep.leat") == "as it was");
  }
  check_refused(tiny.train_in_vain({{"net.onnxtxt", "g.onnxtxt"}}), kExitInvalid,
                {"leat.Dense 'y'", "'units'"});
}

TEST_CASE("a graph file of the wrong kind, size or place is refused") {
  const TinyJob tiny;
  tiny.write("net.txt", tiny.read("net.onnxtxt"));
  check_refused(tiny.leat({"graph", "check", "net.txt"}), kExitInvalid,
                {"'net.txt'", "expected a name that ends in .onnxtxt"});
  check_refused(tiny.leat({"graph", "show", "none.leat"}), kExitNoSuch,
                {"no such graph file", "'none.leat'"});
  std::filesystem::create_directory(tiny.folder() + "/folder.onnx");
  check_refused(tiny.leat({"graph", "check", "folder.onnx"}), kExitFailed,
                {"'folder.onnx'", "expected a regular file", "a directory"});
  tiny.write("big.onnxtxt", "");
  std::filesystem::resize_file(tiny.folder() + "/big.onnxtxt",
                               uint64_t{1} << 30);  // a hole uses no disk space
  check_refused(tiny.leat({"graph", "check", "big.onnxtxt"}), kExitFailed,
                {"'big.onnxtxt'", "expected at most", "it has 1073741824"});
  check_refused(tiny.leat({"graph", "convert", "net.onnxtxt", "x/net.leat"}), kExitFailed,
                {"x/net.leat", "Not a directory"});
}

TEST_CASE("a damaged binary graph file is refused") {
  const TinyJob tiny;
  check_ok(tiny.leat({"graph", "convert", "net.onnxtxt", "good.leat"}));
  const std::string good = tiny.read("good.leat");
  const auto refused = [&](const std::string& bytes, const Parts& parts) {
    tiny.write("bad.leat", bytes);
    Parts all{"bad.leat", "expected"};
    all.insert(all.end(), parts.begin(), parts.end());
    check_refused(tiny.leat({"graph", "check", "bad.leat"}), kExitInvalid, all);
  };
  refused("", {"begins with LEATGRPH"});
  refused("X" + good.substr(1), {"begins with LEATGRPH"});
  refused(half(good), {"bytes"});
  refused(good + good, {"the end"});
  refused(flipped(good, 8), {"version 1"});
  for (const size_t at : {size_t{40}, good.size() / 2, good.size() - 1})
    refused(flipped(good, at), {"CRC"});
}

// Writes a protobuf field of bytes, and one of a number.
std::string field(int number, const std::string& bytes) {
  REQUIRE(bytes.size() < size_t{128} * 128);
  std::string head{static_cast<char>(number << 3 | 2)};
  if (bytes.size() >= 128) head += static_cast<char>(bytes.size() % 128 + 128);
  return head + static_cast<char>(bytes.size() < 128 ? bytes.size() : bytes.size() / 128) + bytes;
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

// Returns a ValueInfoProto. A size of 0 is the symbol N.
std::string onnx_value(const std::string& name, int dtype, const std::vector<int>& sizes) {
  std::string shape;
  for (const int size : sizes) shape += field(1, size == 0 ? field(2, "N") : field(1, size));
  return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)));
}

std::string onnx_file(const std::string& graph) {
  return field(1, 8) + field(8, field(2, 17)) + field(7, graph);
}

// Returns an ONNX model of one node from x to y, both float[2,3].
std::string onnx_model(const std::string& op, const std::string& input = "x", int dtype = 1) {
  const std::string node = field(1, input) + field(2, "y") + field(3, "n") + field(4, op);
  return onnx_file(field(1, node) + field(2, "g") + field(11, onnx_value("x", dtype, {2, 3})) +
                   field(12, onnx_value("y", 1, {2, 3})));
}

TEST_CASE("a damaged or wrong ONNX file is refused") {
  const TinyJob tiny;
  const auto check = [&](const std::string& bytes) {
    tiny.write("m.onnx", bytes);
    return tiny.leat({"graph", "check", "m.onnx"});
  };
  const std::string good = onnx_model("Relu");
  check_ok(check(good));
  check_refused(check(""), kExitInvalid, {"m.onnx", "expected a graph"});
  check_refused(check("this is no protobuf at all"), kExitInvalid,
                {"m.onnx", "expected an ONNX model"});
  check_refused(check(half(good)), kExitInvalid, {"m.onnx", "expected an ONNX model"});
  check_refused(check(onnx_model("Reluu")), kExitInvalid, {"m.onnx", "lacks", "Reluu"});
  check_refused(check(onnx_model("Relu", "nowhere")), kExitInvalid, {"m.onnx", "nowhere"});
  check_refused(check(onnx_model("Relu", "y")), kExitInvalid, {"m.onnx", "y"});
  check_refused(check(onnx_model("Sigmoid", "x", 7)), kExitInvalid,
                {"Sigmoid", "expected", "int64"});
  check_refused(
      check(onnx_model("Relu", "x", 99)), kExitInvalid,
      {"m.onnx", "input 'x'", "expected a tensor of numbers", "received element type 99"});
}

TEST_CASE("an ONNX file whose outputs are not what it declares is refused") {
  const TinyJob tiny;
  const auto check = [&](int dtype, const std::vector<int>& sizes) {
    const std::string node = field(1, "x") + field(2, "y") + field(4, "Relu");
    tiny.write("m.onnx",
               onnx_file(field(1, node) + field(2, "g") + field(11, onnx_value("x", 1, {0, 3})) +
                         field(12, onnx_value("y", dtype, sizes))));
    return tiny.leat({"graph", "check", "m.onnx"});
  };
  check_ok(check(1, {0, 3}));
  check_ok(check(1, {0, 0}));  // a symbol fits any size
  check_ok(check(1, {2, 3}));
  const std::string said = "the output 'y' is declared ";
  check_refused(check(1, {0, 4}), kExitInvalid, {said + "float[N,4], it is float[N,3]"});
  check_refused(check(7, {0, 3}), kExitInvalid, {said + "int64[N,3], it is float[N,3]"});
  check_refused(check(1, {0, 3, 1}), kExitInvalid, {said + "float[N,3,1], it is float[N,3]"});
}

TEST_CASE("a training notes first which variables of an ONNX file it trains") {
  const TinyJob tiny;
  tiny.write("x", idx(8, {32, 2, 2}, tiny.read("x").substr(12)));  // images instead of flat rows
  const std::string kernel = field(1, 3) + field(1, 1) + field(1, 2) + field(1, 2) + field(2, 1) +
                             field(8, "w") + field(9, std::string(48, '\1'));
  const std::string conv = field(1, "x") + field(1, "w") + field(2, "c") + field(4, "Conv"),
                    flatten = field(1, "c") + field(2, "y") + field(4, "Flatten");
  tiny.write("m.onnx", onnx_file(field(1, conv) + field(1, flatten) + field(2, "g") +
                                 field(5, kernel) + field(11, onnx_value("x", 1, {0, 1, 2, 2})) +
                                 field(12, onnx_value("y", 1, {0, 3}))));
  const std::string note = "leat: note: ";
  const auto noted = [&](const Finished& finished) {
    check_ok(finished);
    CHECK_THAT(finished.err, Catch::Contains(note));
    CHECK_THAT(finished.err, Catch::Contains("m.onnx: trains 1 variable of 12 values in all"));
  };
  noted(tiny.train("run", {{"net.onnxtxt", "m.onnx"}}));
  noted(tiny.leat({"plan", "job.yaml", "--set", "model.graph=" + tiny.folder() + "/m.onnx"}));
  CHECK(tiny.train("text").err.find(note) == std::string::npos);
}

TEST_CASE("wrong initial weights are refused") {
  const TinyJob tiny;
  check_ok(tiny.train("run"));
  const std::string good = tiny.read("run/weights.safetensors");
  auto read = read_safetensors(real_files(), tiny.folder() + "/run/weights.safetensors");
  REQUIRE(read.ok());
  const SafeTensors weights = *std::move(read);
  REQUIRE(weights.tensors.count("h/kernel") == 1);
  const auto refused = [&](const Parts& parts) {
    const auto finished =
        tiny.train_in_vain({{"net.onnxtxt}", "net.onnxtxt, weights: w.safetensors}"}});
    check_refused(finished, kExitInvalid, parts);
  };
  const auto refused_bytes = [&](const std::string& bytes, const Parts& parts) {
    tiny.write("w.safetensors", bytes);
    refused(parts);
  };
  refused_bytes("", {"w.safetensors", "expected the 8 bytes of the header's size"});
  refused_bytes(good.substr(0, good.size() - 5), {"w.safetensors", "expected"});
  refused_bytes(good + "more", {"w.safetensors", "expected", "data bytes"});
  refused_bytes(std::string(8, '\xff') + good.substr(8),
                {"w.safetensors", "expected a header of at most"});
  refused_bytes(flipped(good, 8), {"w.safetensors", "expected '{'"});
  refused_bytes(with(good, "[5]", "[6]"), {"w.safetensors", "'h/bias' float[6]", "expected"});

  const auto refused_tensors = [&](const SafeTensors& content, const Parts& parts) {
    const Status written =
        write_safetensors(real_files(), tiny.folder() + "/w.safetensors", content);
    REQUIRE(written.ok());
    refused(parts);
  };
  SafeTensors other = weights;
  other.tensors.at("h/kernel") = Tensor(DType::f32, {5, 4});
  refused_tensors(other, {"'h/kernel'", "expected float[4,5]", "float[5,4]", "w.safetensors"});
  other = weights;
  other.tensors.emplace("q/kernel", Tensor(DType::f32, {2}));
  refused_tensors(other, {"'q/kernel'", "w.safetensors"});
  other = weights;
  other.tensors.erase("h/kernel");
  refused_tensors(other, {"'h/kernel'", "w.safetensors"});
}

TEST_CASE("missing and short and corrupt and unfit data files are refused") {
  const TinyJob tiny;
  const std::string x = tiny.read("x"), y = tiny.read("y"), packed = gzipped(x);
  struct Case {
    std::string name, features, labels;
    Parts parts;
  };
  for (const Case& c : std::vector<Case>{
           {"empty", "", y, {"/bx'", "expected an IDX header", "has 0"}},
           {"magic", "text" + x.substr(4), y, {"/bx'", "expected 0, 0 at byte 0"}},
           {"type", "\0\0\x7\x2" + x.substr(4), y, {"/bx'", "expected"}},
           {"short", x.substr(0, 60), y, {"/bx'", "expected 128 bytes", "received 48"}},
           {"long", x + "zz", y, {"/bx'", "expected 128 bytes", "received 130"}},
           {"2^64",
            idx(8, {0xffffffff, 0xffffffff}, ""),
            y,
            {"/bx'", "expected sizes", "4294967295"}},
           {"rank",
            idx(8, std::vector<uint32_t>(200, 1), "a"),
            y,
            {"/bx'", "expected 1 to 8 dimensions", "200"}},
           {"gzip flipped",
            flipped(packed, packed.size() / 2),
            y,
            {"/bx'", "expected gzip data", "damaged"}},
           {"gzip cut", half(packed), y, {"/bx'", "expected more compressed data"}},
           {"gzip tail",
            flipped(packed, packed.size() - 2),
            y,
            {"/bx'", "expected gzip data", "damaged"}},
           {"none", idx(8, {0, 4}, ""), idx(8, {0}, ""), {"'bx'", "at least one record"}},
           {"columns",
            idx(8, {32, 3}, std::string(96, '\1')),
            y,
            {"'bx'", "of the shape of a row of float[N,4]", "received uint8[3]"}},
           {"count", x, idx(8, {30}, y.substr(8, 30)), {"'by'", "expected 32 rows", "received 30"}},
           {"float labels",
            x,
            idx(0xd, {32}, std::string(128, '\0')),
            {"'by'", "expected classes as integers", "received float"}},
           {"wide labels",
            x,
            idx(8, {32, 2}, std::string(64, '\1')),
            {"'by'", "expected a class for each row of float[N,3]", "received uint8[2]"}},
       }) {
    INFO(c.name);
    tiny.write("bx", c.name == "type" ? std::string("\0\0\x7\x2", 4) + x.substr(4) : c.features);
    tiny.write("by", c.labels);
    // Damages first the training set, then the validation set alone.
    const auto in_training =
        tiny.train_in_vain({{"features: x, labels: y", "features: bx, labels: by"}});
    check_refused(in_training, kExitInvalid, c.parts);
    const auto in_validation =
        tiny.train_in_vain({{"validation: {format: idx, features: x, labels: y",
                             "validation: {format: idx, features: bx, labels: by"}});
    check_refused(in_validation, kExitInvalid, c.parts);
  }
  tiny.write("bx", packed);
  check_ok(tiny.train("packed", {{"features: x", "features: bx"}}));
}

TEST_CASE("a label that is no class is refused before anything is trained") {
  const TinyJob tiny;
  std::string labels(32, '\0');
  labels[30] = '\xfa';
  tiny.write("by", idx(8, {32}, labels));
  const Parts parts{"'by'", "label of row 30", "expected in [0, 2]", "received 250"};
  check_refused(tiny.train_in_vain({{"labels: y", "labels: by"}}), kExitInvalid, parts);
  check_refused(tiny.train_in_vain({{"labels: y}\n  rescale", "labels: by}\n  rescale"}}),
                kExitInvalid, parts);
}

}  // namespace
}  // namespace leat
