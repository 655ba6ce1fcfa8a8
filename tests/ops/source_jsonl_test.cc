// JSON lines: fields by path, nested arrays, and lines that are damaged.
#include "devices/base/text.h"
#include "ops/data/sources/json_text.h"
#include "tests/ops/source_testing.h"

namespace leat {
namespace {

using Floats = std::vector<float>;

const std::vector<std::string> kPoints{"columns:x=",
                                       "columns:x:field=data.point",
                                       "columns:x:shape=2",
                                       "columns:x:shape=3",
                                       "columns:labels=",
                                       "columns:labels:field=label",
                                       "columns:labels:categories=cat",
                                       "columns:labels:categories=d\u00f6g",
                                       "columns:n=",
                                       "columns:n:dtype=int64",
                                       "columns:n:fill=-1",
                                       "columns:text=",
                                       "columns:text:field=data.text",
                                       "columns:text:bytes=6"};

TEST_CASE("columns of JSON lines are found by their paths") {
  const SourceFolder folder;
  folder.write(
      "a.jsonl",
      R"({"label": "cat", "data": {"text": "a\nb", "point": [[1, 2, 3], [4, 5, 6.5]]}, "n": 7})"
      "\n\n"
      R"( {"n":null,"data":{"more":[{"point":1}],"point":[[0,-0,1e3],[1,2,3]],"text":"\u20ac\ud83d\ude00"},"label":"d\u00f6g"} )"
      "\r\n"
      R"({"data": {"point": [[0,0,0],[9,9,9]]}, "label": "cat", "n": 9007199254740993})");
  const auto data = must(Dataset::open(real_files(), folder.names("jsonl", {"a.jsonl"}, kPoints)));
  REQUIRE(data->info().count == 3);
  CHECK(data->info().columns[0] == ColumnInfo{"x", DType::f32, Shape{2, 3}});
  CHECK(data->info().columns[1] == ColumnInfo{"labels", DType::i64, Shape{}});
  CHECK(data->info().columns[3] == ColumnInfo{"text", DType::u8, Shape{6}});
  check_any_order(*data);
  CHECK(data->class_names(1) == std::vector<std::string>{"cat", "d\u00f6g"});
  CHECK(data->class_names(0).empty());
  CHECK(row_values<float>(*data, 0, 0) == Floats{1, 2, 3, 4, 5, 6.5f});
  CHECK(row_values<float>(*data, 0, 1) == Floats{0, 0, 1000, 1, 2, 3});
  CHECK(row_values<int64_t>(*data, 1, 1)[0] == 1);
  CHECK(row_values<int64_t>(*data, 2, 0)[0] == 7);
  CHECK(row_values<int64_t>(*data, 2, 1)[0] == -1);
  CHECK(row_values<int64_t>(*data, 2, 2)[0] == 9007199254740993);
  CHECK(row_values<uint8_t>(*data, 3, 0) == std::vector<uint8_t>{'a', '\n', 'b', 0, 0, 0});
  CHECK(row_values<uint8_t>(*data, 3, 1) ==
        std::vector<uint8_t>{0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98});
  CHECK(row_values<uint8_t>(*data, 3, 2) == std::vector<uint8_t>(6, 0));
  DatasetFiles parts = folder.names("jsonl", {"a.jsonl"}, kPoints);
  parts.columns = {"tail=x[1:]", "head=x[:1]", "end=text[2:5]"};
  const auto some = must(Dataset::open(real_files(), parts));
  CHECK(row_values<float>(*some, 0, 0) == Floats{4, 5, 6.5f});
  CHECK(row_values<uint8_t>(*some, 2, 0) == std::vector<uint8_t>{'b', 0, 0});
  check_any_order(*some);
}

TEST_CASE("a bad line of JSON fails with its file and number, or is left out") {
  const SourceFolder folder;
  const auto failed = [&](const std::string& line) {
    folder.write("a.jsonl",
                 cat("{\"data\":{\"point\":[[1,2,3],[4,5,6]]},\"label\":\"cat\"}\n", line));
    const auto data =
        must(Dataset::open(real_files(), folder.names("jsonl", {"a.jsonl"}, kPoints)));
    std::vector<std::byte> x(24), labels(8), n(8), text(6);
    const std::vector<std::byte*> outs{x.data(), labels.data(), n.data(), text.data()};
    std::string message = data->read_row(1, outs).message();
    const std::string subject = "'a.jsonl': record 2: ";
    CHECK(message.find(subject) == 0);
    return message.substr(std::min(message.size(), subject.size()));
  };
  const std::string point = R"("data":{"point":[[1,2,3],[4,5,6]]})";
  CHECK(failed("[1]") == "expected an object, received an array");
  CHECK(failed("{") == "character 2: expected '\"', received the end of the record");
  CHECK(failed("{\"a\":1}}") == "character 8: expected the end of the record, received '}'");
  CHECK(failed("{\"a\":01}") == "character 6: expected a value, received '0'");
  CHECK(failed("{\"a\":+1}") == "character 6: expected a value, received '+'");
  CHECK(failed("{\"a\":nan}") == "character 6: expected a value, received 'n'");
  CHECK(failed("{\"a\":\"\\x\"}") == "character 8: expected an escape, received 'x'");
  CHECK(failed("{\"a\":\"\\ud800x\"}").find("second half of a pair") != std::string::npos);
  CHECK(failed("{\"a\":\"\xff\"}").find("a string in UTF-8") != std::string::npos);
  CHECK(failed(std::string("{\"a\":\"") + '\0' + "\"}").find("no control character") !=
        std::string::npos);
  CHECK(failed("{}") ==
        "field 'data.point': expected a value, received none; fill: NUMBER takes its place");
  CHECK(failed("{" + point + "}").find("field 'label': expected a value") == 0);
  CHECK(failed("{" + point + ",\"label\":3}").find("field 'label': expected one of its 2") == 0);
  CHECK(failed("{" + point + ",\"label\":\"cow\"}") ==
        "field 'label': expected one of its 2 categories, received 'cow'");
  CHECK(failed("{\"data\":{\"point\":[[1,2,3]]}}") ==
        "field 'data.point': expected an array of 2, received 1");
  CHECK(failed("{\"data\":{\"point\":[[1,2,3],[1,2,3],[1]]}}") ==
        "field 'data.point': expected an array of 2, received more");
  CHECK(failed("{\"data\":{\"point\":[[1,2,\"3\"],[1,2,3]]}}") ==
        "field 'data.point': expected a number, received a string");
  CHECK(failed("{\"data\":{\"point\":5}}") ==
        "field 'data.point': expected an array of 2, received a number");
  CHECK(failed("{\"n\":1,\"n\":2}") == "field 'n': expected it once, received it twice");
  CHECK(failed("{\"n\":1.5}") == "field 'n': expected a value of type int64, received '1.5'");
  CHECK(failed("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}")
            .find("at most 64 nested values") != std::string::npos);

  folder.write("b.jsonl", "{\"n\":1}\n{\"n\":x}\n{\"n\":3}\n");
  const auto skipped = must(Dataset::open(
      real_files(), folder.names("jsonl", {"b.jsonl"},
                                 {"columns:n=", "columns:n:dtype=int64", "on_bad_record=skip"})));
  REQUIRE(skipped->info().count == 2);
  CHECK(row_values<int64_t>(*skipped, 0, 1)[0] == 3);
}

TEST_CASE("columns of JSON lines that share a value are refused") {
  const SourceFolder folder;
  folder.write("a.jsonl", "{}");
  const auto refused = [&](std::vector<std::string> options) {
    return refusal(folder.names("jsonl", {"a.jsonl"}, options));
  };
  CHECK(refused({}) == "columns: missing, expected a value");
  CHECK(refused({"columns:a=", "columns:b=", "columns:b:field=a"}).find("no other column reads") !=
        std::string::npos);
  CHECK(refused({"columns:a=", "columns:b=", "columns:b:field=a.b"}).find("no other column") !=
        std::string::npos);
  CHECK(refused({"columns:a=", "columns:a:shape=2", "columns:a:bytes=3"}) ==
        "column 'a': shape: expected none for bytes");
}

}  // namespace
}  // namespace leat
