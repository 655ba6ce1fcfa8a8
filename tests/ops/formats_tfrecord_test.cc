// Reads TFRecord and tf.train.Example. tests/peers/record_cases.py wrote TensorFlow's file.
#include <cstring>
#include <map>

#include "devices/base/text.h"
#include "ops/formats/tfrecord.h"
#include "tests/catch.h"
#include "tests/memory_files.h"
#include "tests/must.h"

namespace leat {
namespace {

Bytes tensorflow_file() {
  return must(read_file(real_files(),
                        std::string(LEAT_SOURCE_DIR) + "/tests/ops/records/examples.tfrecord",
                        1 << 20));
}

Result<std::vector<Bytes>> records_of(std::span<const std::byte> bytes) {
  MemoryFiles files(bytes);
  const auto file = must(files.open("train.tfrecord"));
  std::vector<Bytes> out;
  LEAT_RETURN_IF_ERROR(read_tfrecords(*file, [&](TfRecordPlace place) {
    out.emplace_back(place.size);
    return read_tfrecord(*file, place, out.back());
  }));
  return out;
}

std::map<std::string, Feature> features_of(const Bytes& record) {
  std::map<std::string, Feature> out;
  must(read_example(record, [&](std::string_view name, const Feature& feature) {
    out[std::string(name)] = feature;
    return Status();
  }));
  return out;
}

Status read_all_of(std::span<const std::byte> record) {
  return read_example(record, [](std::string_view, const Feature& feature) -> Status {
    switch (feature.kind()) {
      case Feature::Kind::bytes:
        return feature.bytes().status();
      case Feature::Kind::floats:
        return feature.floats().status();
      case Feature::Kind::integers:
        return feature.integers().status();
      case Feature::Kind::empty:
        break;
    }
    return {};
  });
}

std::string text_of_span(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("records of TensorFlow have their features") {
  const auto records = must(records_of(tensorflow_file()));
  REQUIRE(records.size() == 5);
  for (int64_t row = 0; row < 4; ++row) {
    const auto features = features_of(records[static_cast<size_t>(row)]);
    CHECK(features.size() == 5);
    const auto images = must(features.at("image").bytes());
    CHECK(images.size() == static_cast<size_t>(1 + row % 2));
    CHECK(text_of_span(images[0]) == cat("picture ", row));
    CHECK(must(features.at("label").integers()) == std::vector<int64_t>{row * 1000 - 1});
    CHECK(must(features.at("box").floats()) ==
          std::vector<float>{static_cast<float>(row) + 0.5f, -1e-30f, 3e38f});
    CHECK(must(features.at("many").integers()) == std::vector<int64_t>{0, INT64_MIN, INT64_MAX});
    CHECK(features.at("none").kind() == Feature::Kind::empty);
  }
  CHECK(features_of(records[4]).empty());
}

TEST_CASE("lists that are not packed are read as well") {
  // feature { key: "a" value { int64_list { value: 5 value: 300 } } }, one field for each value.
  const unsigned char example[] = {0x0a, 0x10, 0x0a, 0x0e, 0x0a, 0x01, 'a',  0x12, 0x09,
                                   0x1a, 0x07, 0x08, 0x05, 0x08, 0xac, 0x02, 0x08, 0x00};
  Bytes record(sizeof example);
  std::memcpy(record.data(), example, sizeof example);
  CHECK(must(features_of(record).at("a").integers()) == std::vector<int64_t>{5, 300, 0});
}

TEST_CASE("a flipped bit anywhere in a file of records is noticed") {
  const Bytes whole = tensorflow_file();
  for (size_t at = 0; at < whole.size(); ++at) {
    Bytes bytes = whole;
    bytes[at] ^= std::byte{0x10};
    const auto records = records_of(bytes);
    INFO(at);
    REQUIRE(!records.ok());
    CHECK(records.status().code() == Code::invalid_argument);
  }
}

TEST_CASE("a file of records that is cut is noticed, and the error names the record") {
  const Bytes whole = tensorflow_file();
  for (size_t size = 1; size < whole.size(); ++size) {
    const auto records = records_of(std::span(whole).first(size));
    // A file may be cut between two records; then nothing shows it.
    if (records.ok()) CHECK(records->size() < 5);
  }
  const auto cut = records_of(std::span(whole).first(whole.size() - 1));
  CHECK(cut.status().message().find("'train.tfrecord': record 4 at byte ") == 0);
  Bytes gzip(32);
  gzip[0] = std::byte{0x1f};
  gzip[1] = std::byte{0x8b};
  CHECK(records_of(gzip).status().code() == Code::unimplemented);
}

TEST_CASE("an Example that is cut or changed anywhere is an error or another one") {
  const auto record = must(records_of(tensorflow_file()))[1];
  for (size_t size = 0; size < record.size(); ++size)
    (void)read_all_of(std::span(record).first(size)).ok();
  for (size_t at = 0; at < record.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      Bytes bytes = record;
      bytes[at] ^= static_cast<std::byte>(change);
      const Status status = read_all_of(bytes);
      if (!status.ok()) CHECK(status.code() == Code::invalid_argument);
    }
  }
  CHECK(read_all_of(Bytes(3, std::byte{0xff})).message() ==
        "expected a tf.train.Example, received bytes with a number without an end");
}

}  // namespace
}  // namespace leat
