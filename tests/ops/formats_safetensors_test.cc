#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "ops/formats/weights_hash.h"
#include "tests/catch.h"
#include "tests/slowness.h"
#include "tests/temporary_directory.h"

using namespace leat;

namespace {

Bytes safetensors_with(uint64_t size, std::string_view header, std::string_view data) {
  std::string text(reinterpret_cast<const char*>(&size), sizeof size);
  text.append(header).append(data);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
Bytes safetensors(std::string_view header, std::string_view data) {
  return safetensors_with(header.size(), header, data);
}

Status error_of(std::string_view header, std::string_view data) {
  return parse_safetensors(safetensors(header, data), "f").status();
}

// Returns a header with one tensor of this dtype, shape and offsets.
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return cat("{\"w\":{\"dtype\":\"", dtype, "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
             "}}");
}

SafeTensors some_tensors() {
  SafeTensors content;
  content.tensors["b"] = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  content.tensors["a"] = Tensor::of<bool>({3}, {true, false, true});
  content.tensors["c"] = Tensor::scalar<int64_t>(-1);
  content.tensors["a/empty"] = Tensor(DType::f32, {0, 5});
  content.metadata = {{"format", "leat"}, {"\"quoted\"", "é\n"}};
  return content;
}

bool identical(const SafeTensors& a, const SafeTensors& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end() || !found->second.identical(tensor)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("safetensors are written and read back, of every element type") {
  SafeTensors content = some_tensors();
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (dtype_safetensors_name(dtype).empty()) continue;
    Tensor tensor(dtype, {3});
    for (int64_t k = 0; k < 3; ++k) tensor.set(k, static_cast<double>(k % 2));
    content.tensors[cat("of ", dtype)] = tensor;
  }
  const auto bytes = format_safetensors(content);
  REQUIRE(bytes.ok());
  const auto back = parse_safetensors(*bytes, "f");
  REQUIRE(back.ok());
  CHECK(identical(*back, content));
  CHECK(*format_safetensors(*back) == *bytes);
}

TEST_CASE("safetensors have the bytes that their header says, larger elements first") {
  SafeTensors content;
  content.tensors["a"] = Tensor::of<uint8_t>({1}, {7});
  content.tensors["b"] = Tensor::of<int16_t>({1}, {258});
  content.metadata["k"] = "v";
  const std::string header =
      "{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[0,"
      "2]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(*format_safetensors(content) == safetensors(padded, "\x02\x01\x07"));
  CHECK(*format_safetensors(SafeTensors()) == safetensors("{}      ", ""));
}

TEST_CASE("safetensors that other tools write are read: any order, escapes, trailing space") {
  const auto content = parse_safetensors(
      safetensors("{\"z\":{\"data_offsets\":[1,3],\"shape\":[2],\"dtype\":\"U8\"}, \"\\u0061\": "
                  "{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}   \n",
                  "\x05\x06\x07"),
      "f");
  REQUIRE(content.ok());
  CHECK(content->tensors.at("a").identical(Tensor::scalar<int8_t>(5)));
  CHECK(content->tensors.at("z").identical(Tensor::of<uint8_t>({2}, {6, 7})));
}

TEST_CASE("a safetensors file cut anywhere, or with a byte more, is refused") {
  Bytes good = *format_safetensors(some_tensors());
  for (size_t size = 0; size < good.size(); ++size) {
    const std::span<const std::byte> cut(good.data(), size);
    CHECK(parse_safetensors(cut, "f").status().code() == Code::invalid_argument);
  }
  good.push_back(std::byte{0});
  CHECK(parse_safetensors(good, "f").status().message() ==
        "'f': expected 27 data bytes, which is where the last tensor ends, received 28");
}

TEST_CASE("the size of a safetensors header is checked before it is believed") {
  CHECK(parse_safetensors(safetensors_with(uint64_t{1} << 62, "{}", ""), "f").status().message() ==
        "'f': expected a header of at most 100000000 bytes, byte 0 says 4611686018427387904");
  CHECK(parse_safetensors(safetensors_with(3, "{}", ""), "f").status().message() ==
        "'f': expected a header of 3 bytes at byte 8, the file has 10 bytes");
  CHECK(error_of("", "").message() == "'f': expected '{' at byte 8, received no header");
  CHECK(error_of(" {}", "").message() == "'f': expected '{' at byte 8, received something else");
  CHECK(parse_safetensors({}, "f").status().message() ==
        "'f': expected the 8 bytes of the header's size at byte 0, the file has 0 bytes");
}

TEST_CASE("offsets that lie, overlap or leave a hole are refused") {
  struct Bad {
    std::string header;
    std::string message;
  };
  const std::string huge = "4611686018427387904";
  const Bad table[] = {
      {one("F32", "[1]", "[0,3]"), "expected 4 bytes, received data_offsets [0,3]"},
      {one("F32", "[1]", "[4,0]"), "expected 4 bytes, received data_offsets [4,0]"},
      {one("F32", "[1]", "[4,8]"), "expected no hole: a start at 0, received data_offsets [4,8]"},
      {one("F32", "[2]", "[0,8]"),
       "expected an end within the 4 data bytes, received data_offsets [0,8]"},
      {one("U8", cat("[", huge, "]"), cat("[0,", huge, "]")),
       "expected an end within the 4 data bytes"},
      {one("F64", cat("[", huge, "]"), "[0,0]"), "expected fewer than 2^63 bytes"},
      {one("U8", "[2]", "[18446744073709551615,1]"), "expected 2 bytes"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
       "tensor 'b' uint8[3]: expected no overlap: a start at 2, received data_offsets [1,4]"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
       "tensor 'b' uint8[2]: expected no hole: a start at 1, received data_offsets [2,4]"},
      {"{}", "expected 0 data bytes, which is where the last tensor ends, received 4"},
  };
  for (const Bad& bad : table) {
    INFO(bad.header);
    const Status status = error_of(bad.header, std::string(4, '\0'));
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::Contains(bad.message));
  }
}

TEST_CASE("safetensors headers of any other form are refused") {
  const char* headers[] = {
      "{",
      "{]",
      "{}{}",
      "{} x",
      "{\"w\"}",
      "{\"w\":1}",
      "{\"w\":[]}",
      "{\"w\":null}",
      "{\"w\":{}}",
      "{\"w\":{\"dtype\":\"F32\"}}",
      "{\"w\":{\"dtype\":1}}",
      "{\"w\":{\"dtype\":{}}}",
      "{\"w\":{\"shape\":[[1]]}}",
      "{\"w\":{\"shape\":{}}}",
      "{\"w\":{\"shape\":[{}]}}",
      "{\"w\":{\"x\":{}}}",
      "{\"w\":{\"shape\":3}}",
      "{\"w\":{\"data_offsets\":[\"0\",1]}}",
      "{\"w\":{\"data_offsets\":[0,true]}}",
      "{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
      "{\"__metadata__\":[]}",
      "{\"__metadata__\":{\"a\":1}}",
      "{\"__metadata__\":{\"a\":{}}}",
      "{\"__metadata__\":{\"a\":\"b\",\"a\":\"b\"}}",
      "{\"__metadata__\":{},\"__metadata__\":{}}",
      "{\"\xff\":{}}",
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],}}",
      "{\"__metadata__\":{}, // a comment\n}",
  };
  for (const char* header : headers) {
    INFO(header);
    CHECK(error_of(header, "").code() == Code::invalid_argument);
  }
  for (const char* shape :
       {"[-1]", "[1.0]", "[1e2]", "[1,1,1,1,1,1,1,1,1]", "[4611686018427387905]",
        "[99999999999999999999]", "[4294967296,4294967296]", "1", "[null]"}) {
    INFO(shape);
    CHECK(error_of(one("F32", shape, "[0,4]"), "1234").code() == Code::invalid_argument);
  }
  for (const char* offsets : {"[]", "[0]", "[0,4,4]", "[0,4.0]", "[-4,0]", "{}"}) {
    INFO(offsets);
    CHECK(error_of(one("F32", "[1]", offsets), "1234").code() == Code::invalid_argument);
  }
  CHECK(error_of(one("F4", "[8]", "[0,4]"), "1234").message() ==
        "'f': tensor 'w': expected an element type such as F32, received 'F4' near byte 26");
  CHECK(error_of("{\"w\":{\"shape\":[-1]}}", "").message() ==
        "'f': tensor 'w': expected a number that is not negative, received a negative number near "
        "byte 26");
}

TEST_CASE("an error in a safetensors header says what was expected") {
  const auto refused = [](const std::string& header, std::string_view what) {
    INFO(header);
    const std::string message = error_of(header, "").message();
    INFO(message);
    CHECK(message.starts_with(cat("'f': tensor 'w': expected ", what, " near byte ")));
  };
  refused(one("F32", "[0]", "[0]"), "two data_offsets");
  refused(one("F32", "[0]", "[0,0,0]"), "two data_offsets");
  // It is refused at the third tensor, not at the end of the list.
  CHECK(error_of("{\"w\":{\"data_offsets\":[0,0,0,0]}}", "").message() ==
        "'f': tensor 'w': expected two data_offsets near byte 36");
  refused(one("F32", "[9223372036854775808]", "[0,0]"),
          "a size of at most 2^62, received 9223372036854775808");
  refused("{\"w\":{\"type\":\"F32\"}}", "dtype, shape or data_offsets, received 'type'");
  refused("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "dtype once, received it twice");
}

TEST_CASE("a safetensors header of too many tensors or bytes is refused") {
  if (kSlowness == 1) {  // takes a minute with a sanitizer
    std::string header = "{";
    for (size_t i = 0; i <= kSafeTensorsCount; ++i) {
      header += cat(i > 0 ? "," : "", "\"", i,
                    "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    }
    CHECK(error_of(header + "}", "")
              .message()
              .starts_with(cat("'f': expected at most ", kSafeTensorsCount, " tensors near byte")));
  }
  SafeTensors large;
  large.metadata["note"] = std::string(kSafeTensorsHeaderBytes, 'x');
  CHECK(format_safetensors(large).status().message().starts_with(
      cat("expected a header of at most ", kSafeTensorsHeaderBytes,
          " bytes, names and metadata make it ")));
}

TEST_CASE("a name that stands twice in a safetensors header is refused") {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  const Status status = error_of(cat("{\"w\":", entry, ",\"\\u0077\":", entry, "}"), "");
  CHECK_THAT(status.message(), Catch::Contains("expected every name once, received 'w' twice"));
}

TEST_CASE("a deeply nested safetensors header is refused at its second level") {
  const std::string deep = "{\"w\":" + std::string(1000000, '[');
  CHECK_THAT(error_of(deep, "").message(),
             Catch::Contains("expected an object, received an array near byte 14"));
}

TEST_CASE("a boolean of safetensors that is neither 0 nor 1 is refused") {
  const std::string header = one("BOOL", "[2]", "[0,2]");
  CHECK(error_of(header, "\x01\x02").message() ==
        cat("'f': tensor 'w': expected booleans of 0 or 1, received 2 at byte ",
            8 + header.size() + 1));
}

TEST_CASE("content that safetensors cannot hold is refused") {
  SafeTensors content;
  content.tensors["__metadata__"] = Tensor(DType::f32, {1});
  CHECK(format_safetensors(content).status().code() == Code::invalid_argument);
  content.tensors.clear();
  content.tensors["\xff"] = Tensor(DType::f32, {1});
  CHECK(format_safetensors(content).status().code() == Code::invalid_argument);
  content.tensors.clear();
  content.metadata["k"] = "\xc3";
  CHECK(format_safetensors(content).status().code() == Code::invalid_argument);
  content.metadata.clear();
  content.tensors["w"] = Tensor();
  CHECK(format_safetensors(content).status().message() ==
        "tensor 'w': expected a tensor, received an invalid one");
}

TEST_CASE("arrays that come in any order make the file of the tensors in memory") {
  SafeTensors content = some_tensors();
  content.tensors.emplace("a2", Tensor::of<double>({2}, {1, 2}));
  std::vector<ArrayEntry> entries;
  for (const auto& [name, tensor] : content.tensors)
    entries.insert(entries.begin(), {name, tensor.dtype(), tensor.shape()});
  Bytes out;
  const Status written = format_safetensors(
      entries, content.metadata,
      [&](size_t array, const TakeBytes& put) {
        const Tensor& tensor = content.tensors.at(entries[array].name);
        return put({static_cast<const std::byte*>(tensor.raw()), tensor.bytes()});
      },
      [&](std::span<const std::byte> bytes) {
        out.insert(out.end(), bytes.begin(), bytes.end());
        return Status();
      });
  CHECK(written.ok());
  CHECK(out == *format_safetensors(content));
}

TEST_CASE("a safetensors file is written to disk, read whole and read in part") {
  const TemporaryDirectory dir;
  const SafeTensors content = some_tensors();
  REQUIRE(write_safetensors(real_files(), dir / "w", content).ok());
  const auto back = read_safetensors(real_files(), dir / "w");
  REQUIRE(back.ok());
  CHECK(identical(*back, content));
  CHECK(*read_file(real_files(), dir / "w", 10000) == *format_safetensors(content));

  const auto opened = real_files().open(dir / "w");
  REQUIRE(opened.ok());
  const auto index = read_safetensors_index(**opened);
  REQUIRE(index.ok());
  CHECK(index->metadata == content.metadata);
  const auto tensor = read_safetensors_entry(**opened, "b", index->entries.at("b"));
  REQUIRE(tensor.ok());
  CHECK(tensor->identical(content.tensors.at("b")));
}

TEST_CASE("a safetensors file that is damaged on disk is refused by name") {
  const TemporaryDirectory dir;
  const Bytes good = *format_safetensors(some_tensors());
  for (size_t size : {size_t{0}, size_t{7}, size_t{20}, good.size() - 1}) {
    const std::span<const std::byte> cut(good.data(), size);
    REQUIRE(write_file_atomically(real_files(), dir / "w", cut).ok());
    const Status status = read_safetensors(real_files(), dir / "w").status();
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::StartsWith("'" + (dir / "w") + "': "));
  }
}

TEST_CASE("a failed write of safetensors leaves the old file") {
  const TemporaryDirectory dir;
  const SafeTensors old = some_tensors();
  REQUIRE(write_safetensors(real_files(), dir / "w", old).ok());
  SafeTensors content = some_tensors();
  content.tensors.erase("a");
  ScopedFailpoint full("files/append", resource_exhausted("no space"), 3);
  CHECK(write_safetensors(real_files(), dir / "w", content).code() == Code::resource_exhausted);
  CHECK(identical(*read_safetensors(real_files(), dir / "w"), old));
  CHECK(real_files().list(dir.path())->size() == 1);
}

// The digest comes from an independent script over the definition in weights_hash.h.
TEST_CASE("weights_sha256 is what its header defines") {
  std::map<std::string, Tensor> weights;
  CHECK(weights_sha256(weights) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  weights["w"] = Tensor::of<float>({2, 1}, {1.0f, -2.0f});
  weights["b"] = Tensor::scalar<int64_t>(3);
  CHECK(weights_sha256(weights) ==
        "4120df06f5789eb443fbf085dadc9cf0d8bb16ad0fe3e2a41132edc5447dda1d");
}

TEST_CASE("weights_sha256 changes with name, type, shape and every bit") {
  const auto hash = [](const std::string& name, const Tensor& tensor) {
    return weights_sha256({{name, tensor}});
  };
  const Tensor base = Tensor::of<int32_t>({2, 1}, {1, 2});
  const std::string digest = hash("w", base);
  CHECK(hash("w", base.clone()) == digest);
  CHECK(hash("v", base) != digest);
  CHECK(hash("w", Tensor::of<uint32_t>({2, 1}, {1, 2})) != digest);
  CHECK(hash("w", base.reshaped({1, 2})) != digest);
  CHECK(hash("w", base.reshaped({2})) != digest);
  CHECK(hash("w", Tensor::of<int32_t>({2, 1}, {1, 3})) != digest);
  CHECK(hash("w", Tensor::of<float>({1}, {0.0f})) != hash("w", Tensor::of<float>({1}, {-0.0f})));
}
