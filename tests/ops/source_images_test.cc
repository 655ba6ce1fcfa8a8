// Image folders, tar shards and TFRecord as data sets: the same images give the same rows, in any
// order, and damage is one error that names file and record.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/mixture.h"
#include "ops/data/sources/shard_index.h"
#include "tests/catch.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr int kImages = 12;

// Image i has 9 + i % 3 x 8 pixels.
std::string image_number(int i) {
  return png_of(static_cast<uint32_t>(9 + i % 3), 8, [&](uint32_t x, uint32_t y, int c) {
    return static_cast<uint8_t>(x * 20 + y * 9 + static_cast<uint32_t>(c * 60 + i * 7));
  });
}
const char* class_of(int i) { return i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "zebra"; }

// The images in each of the formats, in the order of an image folder: by class, then by number.
class ImageData {
 public:
  ImageData() {
    std::vector<std::pair<std::string, std::string>> files[2];
    std::vector<std::string> records;
    int row = 0;
    for (int label = 0; label < 3; ++label) {
      fs::create_directories(folder / ("train/" + std::string(class_of(label))));
      for (int i = label; i < kImages; i += 3, ++row) {
        const std::string image = image_number(i), key = "s" + std::to_string(100 + row);
        folder_files.write(cat("train/", class_of(label), "/", 100 + i, ".PNG"), image);
        auto& shard = files[row < 5 ? 0 : 1];
        shard.emplace_back("a/" + key + ".png", image);
        shard.emplace_back("a/" + key + ".cls", std::to_string(label) + "\n");
        shard.emplace_back("a/" + key + ".json",
                           cat("{\"score\": ", row, ".5, \"box\": {\"at\": [1, ", row, "]}}"));
        records.push_back(example_of({feature_of("image/encoded", texts_of({image})),
                                      feature_of("label", integers_of({label})),
                                      feature_of("score", floats_of({static_cast<float>(row)}))}));
      }
    }
    folder_files.write("a-0.tar", tar_of(files[0]));
    folder_files.write("a-1.tar", tar_of(files[1]));
    folder_files.write("all.tfrecord", tfrecord_of(records));
  }
  DatasetFiles in_folder(std::vector<std::string> options) const {
    return folder_files.names("image_folder", {"train"}, std::move(options));
  }
  DatasetFiles in_shards(const std::vector<std::string>& options,
                         std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"columns:image=", "columns:image:ext=jpg",
                                    "columns:image:ext=png"};
    for (const std::string& each : options) all.push_back("columns:image:" + each);
    all.insert(all.end(),
               {"columns:labels=", "columns:labels:ext=cls", "columns:labels:dtype=int64"});
    all.insert(all.end(), more.begin(), more.end());
    return folder_files.names("webdataset", {"a-*.tar"}, all);
  }
  DatasetFiles in_records(const std::vector<std::string>& options,
                          std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"columns:image=", "columns:image:feature=image/encoded"};
    for (const std::string& each : options) all.push_back("columns:image:" + each);
    all.insert(all.end(),
               {"columns:labels=", "columns:labels:feature=label", "columns:labels:dtype=int64"});
    all.insert(all.end(), more.begin(), more.end());
    return folder_files.names("tfrecord", {"all.tfrecord"}, all);
  }

  SourceFolder folder_files;
  const TemporaryDirectory& folder = folder_files.directory;
};

std::unique_ptr<Dataset> open_data(const DatasetFiles& names) {
  return must(Dataset::open(real_files(), names));
}

std::vector<uint8_t> drawn_row(const Dataset& data, int64_t row, const RowKey& key) {
  std::vector<uint8_t> out(static_cast<size_t>(data.info().columns[0].row_bytes()));
  std::vector<std::byte*> outs(data.info().columns.size());
  outs[0] = reinterpret_cast<std::byte*>(out.data());
  must(data.read_row(row, key, outs));
  return out;
}

TEST_CASE("the same images in a folder, in tar shards and in TFRecord are the same rows") {
  const ImageData files;
  const std::vector<std::string> options = {"size=6", "size=7", "crop=random_resized", "flip=0.5"};
  const auto folder = open_data(files.in_folder(options)),
             shards = open_data(files.in_shards(options)),
             records = open_data(files.in_records(options));
  for (const Dataset* data : {folder.get(), shards.get(), records.get()}) {
    CHECK(data->info().count == kImages);
    REQUIRE(data->info().columns.size() == 2);
    CHECK(data->info().columns[0] == ColumnInfo{"image", DType::u8, Shape{3, 6, 7}});
    CHECK(data->info().columns[1] == ColumnInfo{"labels", DType::i64, Shape{}});
    check_any_order(*data);
  }
  CHECK(folder->class_names(1) == std::vector<std::string>{"cat", "dog", "zebra"});
  std::set<std::vector<uint8_t>> rows;
  for (int64_t row = 0; row < kImages; ++row) {
    CHECK(row_values<int64_t>(*shards, 1, row)[0] == row / 4);
    CHECK(row_values<int64_t>(*records, 1, row)[0] == row / 4);
    const auto* label = reinterpret_cast<const int64_t*>(folder->in_memory(1, row));
    REQUIRE(label);
    CHECK(*label == row / 4);
    for (uint64_t position = 0; position < 4; ++position) {
      const RowKey key{11, position};
      const auto pixels = drawn_row(*folder, row, key);
      CHECK(pixels == drawn_row(*shards, row, key));
      CHECK(pixels == drawn_row(*records, row, key));
      rows.insert(pixels);
    }
    CHECK(drawn_row(*folder, row, {11, 1}) != drawn_row(*folder, row, {12, 1}));
  }
  CHECK(rows.size() == 4 * kImages);
}

TEST_CASE("a sample's other files are columns of the declared types") {
  const ImageData files;
  const auto shards = open_data(files.in_shards(
      {"size=4"},
      {"columns:score=", "columns:score:ext=json", "columns:score:field=score",
       "columns:at=", "columns:at:ext=json", "columns:at:field=box.at", "columns:at:shape=2",
       "columns:at:dtype=int32", "columns:none=", "columns:none:ext=txt", "columns:none:fill=7",
       "columns:name=", "columns:name:ext=cls", "columns:name:bytes=3"}));
  check_any_order(*shards);
  for (const int64_t row : {7, 0, 11}) {
    CHECK(row_values<float>(*shards, 2, row)[0] == static_cast<float>(row) + 0.5f);
    CHECK(row_values<int32_t>(*shards, 3, row) ==
          std::vector<int32_t>{1, static_cast<int32_t>(row)});
    CHECK(row_values<float>(*shards, 4, row)[0] == 7);
    CHECK(row_values<uint8_t>(*shards, 5, row) ==
          std::vector<uint8_t>{static_cast<uint8_t>('0' + row / 4), '\n', 0});
  }
  const auto records = open_data(files.in_records({"size=4"}, {"columns:score="}));
  CHECK(row_values<float>(*records, 2, 9)[0] == 9);
}

TEST_CASE("a tar shard may hold arrays, and TFRecord raw elements") {
  const SourceFolder folder;
  const std::string values("\0\0\x80\x3f\0\0\0\x40", 8);  // 1 and 2 as floats
  std::string npy = "\x93NUMPY\x01" + std::string(1, '\0') + "\x76" + std::string(1, '\0') +
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  npy.resize(127, ' ');
  npy += "\n" + values;
  folder.write("x.tar", tar_of({{"0.x.npy", npy}, {"1.x.npy", npy}}));
  const auto shard = open_data(folder.names(
      "webdataset", {"x.tar"}, {"columns:x=", "columns:x:ext=x.npy", "columns:x:shape=2"}));
  CHECK(row_values<float>(*shard, 0, 1) == std::vector<float>{1, 2});
  folder.write("x.tfrecord", tfrecord_of({example_of({feature_of("x", texts_of({values}))})}));
  const auto raw = open_data(folder.names(
      "tfrecord", {"x.tfrecord"}, {"columns:x=", "columns:x:raw=true", "columns:x:shape=2"}));
  CHECK(row_values<float>(*raw, 0, 0) == std::vector<float>{1, 2});
  const auto other = open_data(folder.names(
      "webdataset", {"x.tar"}, {"columns:x=", "columns:x:ext=x.npy", "columns:x:shape=3"}));
  CHECK(row_error(*other, 0, 1) ==
        "'x.tar': record 2: column 'x': expected an NPY file of float[3] in C's order, received "
        "float[2]");
}

TEST_CASE("a mixture draws the crops of its sources by its own positions") {
  const ImageData files;
  const std::vector<std::string> options = {"size=6", "size=7", "crop=random_resized"};
  const DatasetFiles alone = files.in_folder(options);
  DatasetFiles names = files.folder_files.names("mixture", {});
  for (const char* name : {"a", "b"}) {
    MixturePart part{name, 1, alone};
    part.names.root.clear();
    add_mixture_part(part, names.options);
  }
  const auto mixture = open_data(names), folder = open_data(alone);
  CHECK(mixture->info().count == 2 * kImages);
  CHECK(mixture->class_names(1) == folder->class_names(1));
  check_any_order(*mixture);
  for (int64_t row = 0; row < 2 * kImages; ++row) {
    const RowKey key{3, static_cast<uint64_t>(row) + 100};
    CHECK(drawn_row(*mixture, row, key) == drawn_row(*folder, row / 2, key));
  }
  fs::create_directories(files.folder / "other/dog");
  files.folder_files.write("other/dog/1.png", image_number(0));
  MixturePart other{"c", 1, alone};
  other.names.root.clear();
  other.names.files = {"other"};
  add_mixture_part(other, names.options);
  CHECK(refusal(names).find("expected the classes of 'labels' that source 'a' has") !=
        std::string::npos);
}

TEST_CASE("options that do not fit an image are refused") {
  const ImageData files;
  const auto error = [&](std::vector<std::string> options) {
    return refusal(files.in_folder(std::move(options)));
  };
  CHECK(error({"size=4"}) == "");
  CHECK(error({}).find("size: expected one number, or [height, width], received none") !=
        std::string::npos);
  CHECK(error({"size=4", "scale=0.5", "scale=1"}).find("crop: random_resized") !=
        std::string::npos);
  CHECK(error({"size=4", "crop=random_resized", "scale=0.5"}).find("[least, most]") !=
        std::string::npos);
  CHECK(error({"size=4", "padding=4"}).find("crop: center or random") != std::string::npos);
  CHECK(error({"size=4", "channels=2"}).find("1 or 3") != std::string::npos);
  CHECK(error({"size=4", "crop=middle"}) != "");
  CHECK(
      refusal(files.in_records({"size=4", "dtype=float32"})).find("dtype: expected no such key") !=
      std::string::npos);
  CHECK(refusal(files.in_records({"flip=1"})).find("flip: expected a size with it") !=
        std::string::npos);
}

TEST_CASE("a bad image is one error that names it, or is left out") {
  const ImageData files;
  const std::string whole = image_number(3);
  files.folder_files.write("train/cat/103.PNG", whole.substr(0, whole.size() / 2));
  const auto data = open_data(files.in_folder({"size=4"}));
  CHECK(data->info().count == kImages);
  CHECK(row_error(*data, 0, 1) ==
        "'train/cat/103.PNG': a PNG image: expected one that is whole, received one with damage: "
        "premature end of data");
  const auto skipping = open_data(files.in_folder({"size=4", "on_bad_record=skip"}));
  CHECK(skipping->info().count == kImages - 1);
  check_any_order(*skipping);
  const auto report =
      must(report_dataset(real_files(), files.in_folder({"size=4", "on_bad_record=skip"}), {}));
  REQUIRE(report.notes.size() == 2);
  CHECK(report.notes[0].find("left out 1 bad record of the data, first 'train/cat/103.PNG'") == 0);
  CHECK(report.notes[1] == "the classes of 'labels' are 0 'cat', 1 'dog', 2 'zebra'");
}

TEST_CASE("a sample that lacks a file or has a bad one is named, or is left out") {
  const SourceFolder folder;
  const std::string image = image_number(0);
  folder.write("b.tar", tar_of({{"0.png", image},
                                {"0.cls", "1"},
                                {"1.png", image},
                                {"2.png", "no image"},
                                {"2.cls", "2"},
                                {"3.png", image},
                                {"3.cls", "x"},
                                {"4.png", image},
                                {"4.cls", "4"},
                                {".hidden.png", image},
                                {"README", "no sample"}}));
  std::vector<std::string> options = {
      "columns:image=",  "columns:image:ext=png",  "columns:image:size=4",
      "columns:labels=", "columns:labels:ext=cls", "columns:labels:dtype=int64"};
  CHECK(refusal(folder.names("webdataset", {"b.tar"}, options)) ==
        "'b.tar': sample '1': column 'labels': expected a file .cls, received .png");
  options.push_back("on_bad_record=skip");
  const auto data = open_data(folder.names("webdataset", {"b.tar"}, options));
  REQUIRE(data->info().count == 2);
  CHECK(row_values<int64_t>(*data, 1, 0)[0] == 1);
  CHECK(row_values<int64_t>(*data, 1, 1)[0] == 4);
  folder.write("twice.tar", tar_of({{"0.cls", "1"}, {"0.cls", "1"}}));
  CHECK(refusal(folder.names("webdataset", {"twice.tar"},
                             {"columns:labels=", "columns:labels:ext=cls"})) ==
        "'twice.tar': expected '0.cls' once, received it twice");
}

TEST_CASE("bytes that hold images are read whole, or named, or left out") {
  const SourceFolder folder;
  const std::string image = image_number(0), damaged = image.substr(0, image.size() - 20);
  folder.write("b.tar", tar_of({{"0.png", image},
                                {"1.png", "no image"},
                                {"2.png", damaged},
                                {"3.png", image + std::string(99, '\1')},
                                {"4.png", image}}));
  std::vector<std::string> records;
  for (const std::string& each : {image, std::string("no image"), damaged})
    records.push_back(example_of({feature_of("image", texts_of({each}))}));
  folder.write("b.tfrecord", tfrecord_of(records));
  const std::string bytes = cat("columns:image:bytes=", image.size() + 9);
  std::vector<std::string> options = {"columns:image=", bytes, "columns:image:holds=image"};
  const auto opened = [&](bool shards) {
    std::vector<std::string> all = options;
    if (shards) all.push_back("columns:image:ext=png");
    return open_data(
        folder.names(shards ? "webdataset" : "tfrecord", {shards ? "b.tar" : "b.tfrecord"}, all));
  };
  const auto data = opened(true);
  CHECK(row_values<uint8_t>(*data, 0, 0)[1] == 'P');
  CHECK(row_error(*data, 0, 1) ==
        "'b.tar': record 2: column 'image': an image: expected JPEG, PNG or WebP, received 8 bytes "
        "of something else");
  // Damage behind the header shows when a transform decodes the file.
  CHECK(row_values<uint8_t>(*data, 0, 2)[1] == 'P');
  CHECK(row_error(*data, 0, 3) ==
        cat("'b.tar': record 4: column 'image': expected an image in a file of at most ",
            image.size() + 9, " bytes, received ", image.size() + 99));
  CHECK(row_error(*opened(false), 0, 1) ==
        "'b.tfrecord': record 2: column 'image': feature 'image': an image: expected JPEG, PNG or "
        "WebP, received 8 bytes of something else");
  options.emplace_back("on_bad_record=skip");
  CHECK(opened(true)->info().count == 2);
  CHECK(opened(false)->info().count == 1);
  // The header of a WebP file has its size, which one that was cut off does not have.
  const Bytes webp =
      must(read_file(real_files(), LEAT_SOURCE_DIR "/tests/ops/images/lossless.webp", 1 << 20));
  const std::string whole = text_of_bytes(webp);
  folder.write("w.tar", tar_of({{"0.webp", whole}, {"1.webp", whole.substr(0, 2000)}}));
  options = {"columns:image=", "columns:image:ext=webp", "columns:image:bytes=4000",
             "columns:image:holds=image"};
  const auto shard = open_data(folder.names("webdataset", {"w.tar"}, options));
  CHECK(row_values<uint8_t>(*shard, 0, 0)[0] == 'R');
  CHECK(row_error(*shard, 0, 1) ==
        cat("'w.tar': record 2: column 'image': a WebP image: expected the ", whole.size(),
            " bytes that it says it has, received 2000"));
  CHECK(refusal(folder.names(
            "webdataset", {"b.tar"},
            {"columns:image=", "columns:image:ext=png", "columns:image:holds=image"})) ==
        "column 'image': holds: expected it of a column with bytes, received none");
}

TEST_CASE("a record with a flipped bit is named, or is left out") {
  const SourceFolder folder;
  std::string file = tfrecord_of({example_of({feature_of("x", integers_of({1}))}),
                                  example_of({feature_of("x", integers_of({2, 3}))}),
                                  example_of({feature_of("x", integers_of({4}))})});
  const std::vector<std::string> x = {"columns:x=", "columns:x:dtype=int64"};
  folder.write("c.tfrecord", file);
  const auto data = open_data(folder.names("tfrecord", {"c.tfrecord"}, x));
  CHECK(row_values<int64_t>(*data, 0, 0)[0] == 1);
  CHECK(row_error(*data, 0, 1) ==
        "'c.tfrecord': record 2: column 'x': feature 'x': expected 1 values, received 2");
  file[file.size() - 6] ^= 1;  // in the last record
  folder.write("c.tfrecord", file);
  const auto damaged = open_data(folder.names("tfrecord", {"c.tfrecord"}, x));
  CHECK(row_error(*damaged, 0, 2) ==
        "'c.tfrecord': record 3: expected a record with its checksum, received another checksum");
  const auto skipping =
      open_data(folder.names("tfrecord", {"c.tfrecord"}, {x[0], x[1], "on_bad_record=skip"}));
  CHECK(skipping->info().count == 1);
}

TEST_CASE("labels that are no classes are named") {
  const ImageData files;
  const ClassCheck check{"labels", 2, {}};
  const auto error = [&](const DatasetFiles& names) {
    return check_classes(real_files(), names, check).message();
  };
  CHECK(error(files.in_folder({"size=4"})) ==
        "'train/zebra/102.PNG': label: expected in [0, 1], received 2");
  CHECK(error(files.in_shards({"size=4"})) ==
        "'a-1.tar': record 4: label: expected in [0, 1], received 2");
  CHECK(error(files.in_records({"size=4"})) ==
        "'all.tfrecord': record 9: label: expected in [0, 1], received 2");
}

TEST_CASE("nothing beside regular images of the folder is read") {
  const ImageData files;
  const std::string secret = files.folder / "secret.png";
  files.folder_files.write("secret.png", image_number(0));
  fs::create_symlink(secret, files.folder / "train/cat/000.png");
  fs::create_directories(files.folder / "train/empty");
  files.folder_files.write("train/README", "no class");
  files.folder_files.write("train/cat/notes.txt", "no image");
  const auto data = open_data(files.in_folder({"size=4"}));
  CHECK(data->info().count == kImages + 1);
  CHECK(row_error(*data, 0, 0).find("expected a path below") != std::string::npos);
  CHECK(row_error(*data, 0, 1) == "");
  REQUIRE(::mkfifo((files.folder / "train/cat/001.png").c_str(), 0600) == 0);
  const auto with_pipe = open_data(files.in_folder({"size=4"}));
  CHECK(row_error(*with_pipe, 0, 1) != "");
  CHECK(refusal(files.folder_files.names("image_folder", {"train/empty"}, {"size=4"}))
            .find("expected a folder for each class") != std::string::npos);
  CHECK(refusal(files.folder_files.names("image_folder", {"train/README"}, {"size=4"})) != "");
}

TEST_CASE("a folder of images has another print when an image is added") {
  const ImageData files;
  const auto print = [&] {
    return must(image_folder_source().print(real_files(), files.folder / "train"));
  };
  const std::string before = print();
  CHECK(before.find("12 images, crc32c of their names ") == 0);
  files.folder_files.write("train/dog/999.png", image_number(0));
  CHECK(print() != before);
}

TEST_CASE("the index of a large shard is kept beside it, and is read only if it fits") {
  const ImageData files;
  const std::string path = files.folder / "a-0.tar";
  const auto file = must(real_files().open(path));
  int scans = 0;
  const ScanShard scan = [&](const ReadableFile& shard, const TakeMember& take) -> Status {
    ++scans;
    LEAT_RETURN_IF_ERROR(take({"one", 0, 100}));
    return take({"two", 100, shard.size() - 100});
  };
  const auto names = [&](std::string_view kind) {
    std::string out;
    must(read_shard(
        real_files(), *file, kind, scan,
        [&](const ShardMember& member) {
          out += member.name + " " + std::to_string(member.offset) + ",";
          return Status();
        },
        1));
    return out;
  };
  CHECK(names("tar") == "one 0,two 100,");
  CHECK(scans == 1);
  CHECK(fs::exists(files.folder / ".a-0.tar.leat-index"));
  CHECK(names("tar") == "one 0,two 100,");
  CHECK(scans == 1);
  CHECK(names("other") == "one 0,two 100,");
  CHECK(scans == 2);
  // Whatever byte of it is changed, or wherever it is cut, the shard is read again.
  const Bytes whole = must(read_file(real_files(), shard_index_path(path), 1 << 20));
  for (size_t at = 0; at < whole.size(); at += 5) {
    Bytes bytes = whole;
    bytes[at] ^= std::byte{4};
    must(write_file_atomically(real_files(), shard_index_path(path), bytes));
    scans = 0;
    CHECK(names("other") == "one 0,two 100,");
    CHECK(scans == 1);
    must(write_file_atomically(real_files(), shard_index_path(path), std::span(whole).first(at)));
    CHECK(names("other") == "one 0,two 100,");
    CHECK(scans == 2);
  }
  // Small shards have none.
  (void)open_data(files.in_shards({"size=4"}));
  CHECK(!fs::exists(files.folder / ".a-1.tar.leat-index"));
}

TEST_CASE("a shard that was changed in its middle, with the same size, is read again") {
  const SourceFolder folder;
  constexpr size_t kMiB = size_t{1} << 20;
  const std::string path = folder.directory / "a.tar";
  std::string content(3 * kMiB, 'x');
  int scans = 0;
  const auto read = [&](int64_t second) {
    folder.write("a.tar", content);
    // The system's own times may be equal for two writes within a few milliseconds.
    const timespec times[2] = {{second, 5}, {second, 5}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    const auto shard = must(real_files().open(path));
    std::string seen;
    must(read_shard(
        real_files(), *shard, "tar",
        [&](const ReadableFile& file, const TakeMember& take) -> Status {
          ++scans;
          char middle = 0;
          LEAT_RETURN_IF_ERROR(
              file.read(3 * kMiB / 2, std::as_writable_bytes(std::span(&middle, 1))));
          return take({std::string(1, middle), 0, 1});
        },
        [&](const ShardMember& member) {
          seen += member.name;
          return Status();
        },
        1));
    return seen;
  };
  CHECK(read(1'700'000'000) == "x");
  CHECK(read(1'700'000'000) == "x");
  CHECK(scans == 1);
  const std::string print = must(fingerprint(real_files(), path));
  content[3 * kMiB / 2] = 'y';
  CHECK(read(1'700'000'001) == "y");
  CHECK(scans == 2);
  CHECK(must(fingerprint(real_files(), path)) == print);
}

}  // namespace
}  // namespace leat
