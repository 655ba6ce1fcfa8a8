#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/gzip.h"
#include "tests/memory_files.h"
#include "tests/temporary_directory.h"

using namespace leat;

namespace {

Result<ArrayHeader> npy_header_of(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file,
                        ArrayFile::open(real_files(), path, npy_format(), ~uint64_t{0}));
  return file.header();
}

Result<Tensor> parse_npy(std::span<const std::byte> bytes, const std::string& path) {
  MemoryFiles files(bytes);
  return read_npy(files, path);
}

Bytes bytes_of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Returns a version 1 file with this literal and these elements.
Bytes npy(std::string_view literal, std::string_view data, int major = 1) {
  std::string text = "\x93NUMPY";
  text += {static_cast<char>(major), '\0', static_cast<char>(literal.size() & 255),
           static_cast<char>(literal.size() >> 8)};
  if (major > 1) text += {'\0', '\0'};
  return bytes_of_text(text.append(literal).append(data));
}

std::string literal_of(std::string_view descr, std::string_view shape, bool fortran = false) {
  std::string text = "{'descr': '";
  return text.append(descr)
      .append("', 'fortran_order': ")
      .append(fortran ? "True" : "False")
      .append(", 'shape': ")
      .append(shape)
      .append(", }\n");
}

// Counts the bytes that are read from files.
class CountedFiles final : public ForwardingFiles {
 public:
  CountedFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
    return std::unique_ptr<ReadableFile>(new File(std::move(file), bytes));
  }
  uint64_t bytes = 0;

 private:
  class File final : public ReadableFile {
   public:
    File(std::unique_ptr<ReadableFile> file, uint64_t& bytes)
        : file_(std::move(file)), bytes_(bytes) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      bytes_ += out.size();
      return file_->read(offset, out);
    }

   private:
    const std::unique_ptr<ReadableFile> file_;
    uint64_t& bytes_;
  };
};

Status npy_error(const Bytes& bytes) { return parse_npy(bytes, "f").status(); }
Status literal_error(std::string_view literal) { return npy_error(npy(literal, "")); }

}  // namespace

TEST_CASE("NPY files are read in all three versions") {
  const std::string data("\x01\x00\xfe\xff", 4);
  for (int major : {1, 2, 3}) {
    const auto tensor = parse_npy(npy(literal_of("<i2", "(2,)"), data, major), "f");
    REQUIRE(tensor.ok());
    CHECK(tensor->identical(Tensor::of<int16_t>({2}, {1, -2})));
  }
}

TEST_CASE("every element type of numpy that we have is written and read back") {
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (dtype == DType::bf16 || is_narrow(dtype)) continue;
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}, Shape{1, 2, 1, 2}}) {
      Tensor tensor(dtype, shape);
      for (int64_t k = 0; k < tensor.elements(); ++k) tensor.set(k, static_cast<double>(k % 2));
      const auto bytes = format_npy(tensor);
      REQUIRE(bytes.ok());
      CHECK((bytes->size() - tensor.bytes()) % 64 == 0);
      const auto back = parse_npy(*bytes, "f");
      REQUIRE(back.ok());
      CHECK(back->identical(tensor));
    }
  }
  CHECK(format_npy(Tensor(DType::bf16, {2})).status().code() == Code::unimplemented);
  CHECK(format_npy(Tensor()).status().code() == Code::unimplemented);
}

TEST_CASE("NPY is written with the bytes that numpy writes") {
  const auto bytes = format_npy(Tensor::of<float>({2}, {1.0f, 2.0f}));
  REQUIRE(bytes.ok());
  std::string expected("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, ", 51);
  expected += "'shape': (2,), }";
  expected.append(127 - expected.size(), ' ');
  expected.append("\n\0\0\x80\x3f\0\0\0\x40", 9);
  CHECK(*bytes == bytes_of_text(expected));
}

TEST_CASE("arrays in Fortran's order come out in C's") {
  const std::string data("\x00\x01\x02\x03\x04\x05", 6);
  const auto tensor = parse_npy(npy(literal_of("|u1", "(2, 3)", true), data), "f");
  REQUIRE(tensor.ok());
  CHECK(tensor->identical(Tensor::of<uint8_t>({2, 3}, {0, 2, 4, 1, 3, 5})));
  const auto one = parse_npy(npy(literal_of("|u1", "(6,)", true), data), "f");
  CHECK(one->identical(Tensor::of<uint8_t>({6}, {0, 1, 2, 3, 4, 5})));
  CHECK(parse_npy(npy(literal_of("<f4", "(2, 0)", true), ""), "f").ok());
}

TEST_CASE("the NPY header may have its keys in any order, either quote and any space") {
  for (const char* literal :
       {"{'shape':(2,),\"fortran_order\":False,'descr':\"|i1\"}",
        "  { 'shape' : ( 2 , ) , 'fortran_order' : False , 'descr' : '<i1' , }  \n"}) {
    const auto tensor = parse_npy(npy(literal, "\x01\x02"), "f");
    REQUIRE(tensor.ok());
    CHECK(tensor->identical(Tensor::of<int8_t>({2}, {1, 2})));
  }
}

TEST_CASE("an NPY file cut anywhere, or with a byte more, is refused") {
  Bytes good = *format_npy(Tensor::of<int32_t>({2, 1}, {1, 2}));
  for (size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(npy_error(cut).code() == Code::invalid_argument);
  }
  good.push_back(std::byte{0});
  CHECK(npy_error(good).message() ==
        "'f': expected 8 bytes for int32[2,1] from byte 128 to the end, received 9");
}

TEST_CASE("pickles, big-endian and structured arrays are refused in so many words") {
  const Status pickle = literal_error(literal_of("|O", "(1,)"));
  CHECK(pickle.code() == Code::invalid_argument);
  CHECK(pickle.message() ==
        "'f': expected numbers, received an array of objects ('|O'): it is a pickle, which can run "
        "code");
  const Status big = literal_error(literal_of(">f4", "(1,)"));
  CHECK(big.code() == Code::unimplemented);
  CHECK(big.message() ==
        "'f': expected little-endian elements, received '>f4': save array.astype('<f4')");
  const Status structured =
      literal_error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}");
  CHECK(structured.code() == Code::unimplemented);
  for (const char* descr :
       {"<c8", "<U3", "|S3", "<M8[ns]", "|V2", "f4", "=f4", "|f4", "<f", "", "<f44", "<f4\\"}) {
    CHECK(literal_error(literal_of(descr, "(1,)")).code() == Code::invalid_argument);
  }
}

TEST_CASE("NPY headers that are not exactly the literal are refused") {
  const char* literals[] = {
      "",
      "{",
      "}",
      "{}",
      "{'descr'}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
      "{'descr': '<f4', 'fortran_order': false, 'shape': ()}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
      "{'descr': '<f4' 'fortran_order': False, 'shape': ()}",
      "{,'descr': '<f4', 'fortran_order': False, 'shape': ()}",
      "{'descr': '<f4',, 'fortran_order': False, 'shape': ()}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (",
      "{'descr: '<f4', 'fortran_order': False, 'shape': ()}",
      "{'descr': '<f4\n', 'fortran_order': False, 'shape': ()}",
  };
  for (const char* literal : literals) {
    INFO(literal);
    CHECK(literal_error(literal).code() == Code::invalid_argument);
  }
  for (const char* shape :
       {"3", "(3)", "(,)", "(3", "[3]", "(3,,)", "(3 4)", "(-1,)", "(0x3,)", "(3.0,)", "(3L,)",
        "(+3,)", "(1,1,1,1,1,1,1,1,1)", "(9223372036854775808,)", "(4611686018427387904, 2)",
        "(4294967296, 4294967296)", "(99999999999999999999999999,)", "None", "()()"}) {
    INFO(shape);
    CHECK(literal_error(literal_of("<f4", shape)).code() == Code::invalid_argument);
  }
  CHECK(literal_error("{'descr': '<f4', 'fortran_order': maybe}").message() ==
        "'f': expected True or False in the header at byte 44, received 'maybe}'");
}

TEST_CASE("an error in an NPY header says what was expected") {
  const auto refused = [](const std::string& literal, std::string_view what) {
    INFO(literal);
    const std::string message = parse_npy(npy(literal, ""), "f").status().message();
    INFO(message);
    CHECK(message.starts_with(cat("'f': expected ", what, " in the header at byte ")));
  };
  refused(literal_of("<f4", "(0,)") + "x", "the end of the header");
  refused("{'desc': '<f4'}", "descr, fortran_order or shape");
  refused("{'descr': '<f4', 'descr': '<f4'}", "'descr' only once");
  refused("{'shape': (0,), 'shape': (0,)}", "'shape' only once");
  refused(literal_of("<f4", "(1 2)"), "',' or ')'");
  refused(literal_of("<f4", "(0,0,0,0,0,0,0,0,0)"), "at most 8 sizes");
  refused(literal_of("<f4", "(0)"), "',' after a single size");
  refused("{descr: '<f4'}", "a string");
  refused("{'descr: 4}", "a string that ends");
  refused("{'descr\n': 4}", "a string that ends");
}

TEST_CASE("an NPY file that ends in its header is refused with the bytes that it lacks") {
  const Bytes whole = npy(literal_of("<f4", "(0,)"), "", 2);
  REQUIRE(parse_npy(whole, "f").ok());
  for (const size_t size : {size_t{10}, size_t{11}, size_t{12}, whole.size() - 1}) {
    const size_t needed = size < 12 ? 12 : whole.size();
    CHECK(parse_npy(std::span(whole).first(size), "f").status().message() ==
          cat("'f': expected a header up to byte ", needed, ", the file has ", size, " bytes"));
  }
}

TEST_CASE("NPY sizes beyond the file are refused and nothing is allocated for them") {
  CHECK(literal_error(literal_of("<f8", "(4611686018427387904,)")).message() ==
        "'f': expected over 2^63 bytes for double[4611686018427387904] from byte 86 to the end, "
        "received 0");
  CHECK(literal_error(literal_of("|u1", "(4611686018427387904,)")).code() ==
        Code::invalid_argument);
  Bytes header = npy(literal_of("<f4", "()"), "", 2);
  for (size_t at = 8; at < 12; ++at) header[at] = std::byte{0xff};
  CHECK(npy_error(header).message() ==
        "'f': expected a header of at most 65535 bytes, byte 8 says 4294967295");
}

TEST_CASE("a file that is not NPY is refused") {
  CHECK(npy_error({}).message() == "'f': expected '\\x93NUMPY' at byte 0, received an empty file");
  CHECK(npy_error(bytes_of_text("PK\x03\x04zipped")).message() ==
        "'f': expected '\\x93NUMPY' at byte 0, received 'PK??zi'");
  CHECK(npy_error(npy("{}", "", 4)).message() ==
        "'f': expected NPY version 1.0, 2.0 or 3.0 at byte 6, received 4.0");
}

TEST_CASE("a boolean that is neither 0 nor 1 is refused") {
  CHECK(npy_error(npy(literal_of("|b1", "(3,)"), std::string("\x00\x01\x02", 3))).message() ==
        "'f': expected booleans of 0 or 1, received 2 at byte 70");
}

TEST_CASE("a compressed NPY file is read, its header without the rest") {
  const TemporaryDirectory dir;
  const Tensor tensor = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  REQUIRE(write_npy(real_files(), dir / "a.npy", tensor).ok());
  const auto plain = read_file(real_files(), dir / "a.npy", 1000);
  REQUIRE(plain.ok());
  const std::string text(reinterpret_cast<const char*>(plain->data()), plain->size());
  const auto write = [&](const std::string& bytes) {
    REQUIRE(
        write_file_atomically(real_files(), dir / "a.npy", std::as_bytes(std::span(bytes))).ok());
  };
  write(gzipped(text));
  const auto back = read_npy(real_files(), dir / "a.npy");
  REQUIRE(back.ok());
  CHECK(back->identical(tensor));
  write(gzipped(text.substr(0, 128)));  // without elements
  const auto header = npy_header_of(dir / "a.npy");
  REQUIRE(header.ok());
  CHECK(header->dtype == DType::f32);
  CHECK(header->shape == Shape{3, 2});
  CHECK_FALSE(read_npy(real_files(), dir / "a.npy").ok());
  write(text.substr(0, 140));  // the size of a plain file is known
  CHECK(npy_header_of(dir / "a.npy").status().message().find("expected 24 bytes") !=
        std::string::npos);
}

TEST_CASE("a compressed NPY file is inflated to what its header says, and no further") {
  const TemporaryDirectory dir;
  const Bytes header = npy(literal_of("<f4", "(2, 2)"), "");
  const std::string text(reinterpret_cast<const char*>(header.data()), header.size());
  std::string more(4 << 20, 'x');  // does not compress
  uint32_t noise = 1;
  for (char& c : more) c = static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
  const auto error_of = [&](const std::string& content, CountedFiles& files) {
    const std::string packed = gzipped(content);
    REQUIRE(
        write_file_atomically(real_files(), dir / "a.npy", std::as_bytes(std::span(packed))).ok());
    const auto read = read_npy(files, dir / "a.npy");
    CHECK(read.status().code() == Code::invalid_argument);
    const std::string& message = read.status().message();
    CHECK(message.starts_with("'" + (dir / "a.npy") + "': expected "));
    return message.substr(message.find("expected"));
  };
  CountedFiles surplus;
  const std::string from = " from byte " + std::to_string(text.size());
  CHECK(error_of(text + more, surplus) ==
        "expected 16 bytes for float[2,2]" + from + " to the end, received more");
  CHECK(surplus.bytes < 1 << 20);
  CountedFiles one;
  CHECK(error_of(text + more.substr(0, 17), one) ==
        "expected 16 bytes for float[2,2]" + from + " to the end, received more");
  CountedFiles shortfall;
  CHECK(error_of(text + more.substr(0, 15), shortfall) ==
        "expected 16 bytes for float[2,2]" + from + " to the end, received 15");
  // A size that no file of this length can hold is refused before any allocation.
  const Bytes vast = npy(literal_of("<f4", "(1000, 1000, 1000)"), "");
  CountedFiles none;
  CHECK(error_of({reinterpret_cast<const char*>(vast.data()), vast.size()}, none)
            .find("so small a gzip file holds at most ") != std::string::npos);
}

TEST_CASE("an NPY file is written to disk and read back") {
  const TemporaryDirectory dir;
  const Tensor tensor = Tensor::of<double>({2, 2}, {1, 2, 3, 4});
  REQUIRE(write_npy(real_files(), dir / "a.npy", tensor).ok());
  const auto back = read_npy(real_files(), dir / "a.npy");
  REQUIRE(back.ok());
  CHECK(back->identical(tensor));
  CHECK(npy_header_of(dir / "a.npy")->shape == Shape{2, 2});
  CHECK(read_npy(real_files(), dir / "a.npy", 10).status().code() == Code::resource_exhausted);
  CHECK(write_npy(real_files(), dir / "b", Tensor(DType::bf16, {1})).message().find(dir / "b") !=
        std::string::npos);
}
