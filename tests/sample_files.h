// Files of images, tar shards and TFRecord, written by the rules of their formats, for tests of
// what reads them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/crc32c.h"
#include "devices/base/files.h"

namespace leat {

inline Bytes bytes_of_text(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}
inline std::string text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A PNG file of width x height pixels, three bytes each, which `pixel` gives for x, y and channel.
// It is not compressed.
inline std::string png_of(uint32_t width, uint32_t height,
                          const std::function<uint8_t(uint32_t, uint32_t, int)>& pixel) {
  const auto big = [](uint32_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  };
  const auto chunk = [&](std::string_view kind, const std::string& content) {
    const std::string all = std::string(kind) + content;
    uint32_t crc = 0xffffffff;
    for (const char c : all) {
      crc ^= static_cast<uint8_t>(c);
      for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return big(static_cast<uint32_t>(content.size())) + all + big(~crc);
  };
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (uint32_t x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) rows += static_cast<char>(pixel(x, y, c));
    }
  }
  // zlib: blocks of at most 65,535 bytes as they are, and the sums of Adler.
  std::string stream = "\x78\x01";
  for (size_t at = 0; at < rows.size(); at += 65'535) {
    const std::string block = rows.substr(at, 65'535);
    const auto size = static_cast<uint16_t>(block.size());
    stream += at + 65'535 >= rows.size() ? '\x01' : '\0';
    for (const uint16_t part : {size, static_cast<uint16_t>(~size)}) {
      stream += static_cast<char>(part);
      stream += static_cast<char>(part >> 8);
    }
    stream += block;
  }
  uint32_t a = 1, b = 0;
  for (const char c : rows) {
    a = (a + static_cast<uint8_t>(c)) % 65'521;
    b = (b + a) % 65'521;
  }
  stream += big(b << 16 | a);
  const std::string header = big(width) + big(height) + std::string("\x08\x02\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", stream) + chunk("IEND", "");
}

// A tar archive of files, with names of at most 100 bytes.
inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  for (const auto& [name, content] : files) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, std::string_view text) {
      header.replace(at, text.size(), text);
    };
    char number[16];
    put(0, name);
    std::snprintf(number, sizeof number, "%011o", static_cast<unsigned>(content.size()));
    put(124, number);
    put(156, "0");
    put(257, std::string_view("ustar\00000", 8));
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    std::snprintf(number, sizeof number, "%06o", sum);
    put(148, std::string_view(number, 7));
    out += header + content;
    out.resize((out.size() + 511) / 512 * 512, '\0');
  }
  return out + std::string(1024, '\0');
}

// A TFRecord file.
inline std::string tfrecord_of(const std::vector<std::string>& records) {
  const auto little = [](uint64_t value, size_t size) {
    return std::string(reinterpret_cast<const char*>(&value), size);
  };
  const auto checksum = [&](const std::string& text) {
    const uint32_t crc = crc32c(std::as_bytes(std::span(text)));
    return little((crc >> 15 | crc << 17) + 0xa282ead8u, 4);
  };
  std::string out;
  for (const std::string& record : records) {
    const std::string length = little(record.size(), 8);
    out += length + checksum(length) + record + checksum(record);
  }
  return out;
}

// The parts of a tf.train.Example: example_of({feature_of("label", integers_of({3}))}).
inline std::string proto_number(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string proto_field(int number, const std::string& content) {
  return proto_number(static_cast<uint64_t>(number) << 3 | 2) + proto_number(content.size()) +
         content;
}
inline std::string texts_of(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += proto_field(1, value);
  return proto_field(1, list);
}
inline std::string floats_of(const std::vector<float>& values) {
  return proto_field(2, proto_field(1, std::string(reinterpret_cast<const char*>(values.data()),
                                                   4 * values.size())));
}
inline std::string integers_of(const std::vector<int64_t>& values) {
  std::string packed;
  for (const int64_t value : values) packed += proto_number(static_cast<uint64_t>(value));
  return proto_field(3, proto_field(1, packed));
}
inline std::string feature_of(const std::string& name, const std::string& value) {
  return proto_field(1, proto_field(1, name) + proto_field(2, value));
}
inline std::string example_of(const std::vector<std::string>& features) {
  std::string all;
  for (const std::string& each : features) all += each;
  return proto_field(1, all);
}

}  // namespace leat
