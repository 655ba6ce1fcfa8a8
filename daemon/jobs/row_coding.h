// The encoding of values in the rows of the journal, and the checksums of rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/records.h"
#include "devices/base/crc32c.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// Appends fields one after the other, each text with its length before it. Lists are stored so, and
// checksums are computed over this encoding.
class RowEncoder {
 public:
  RowEncoder& add(uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>((number >> (8 * i)) & 0xff);
    return *this;
  }
  RowEncoder& add(std::string_view text) {
    add(uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  RowEncoder& add(const std::vector<std::string>& list) {
    for (const std::string& each : list) add(std::string_view(each));
    return *this;
  }
  std::string take() { return std::move(bytes_); }
  int64_t crc() const { return crc32c(std::as_bytes(std::span(bytes_.data(), bytes_.size()))); }

 private:
  std::string bytes_;
};

// The inverse of add(uint64_t), and of add() for a list: failed_precondition if it is cut short.
uint64_t decode_number(std::string_view bytes);
Result<std::vector<std::string>> decode_list(std::string_view bytes);

std::string_view view_of(const Sha256Digest& digest);
// Returns false if `bytes` is no digest.
bool read_digest(std::string_view bytes, Sha256Digest& digest);

// The checksum of the row of a job, and of a row in another table that belongs to job `number`.
// `result`: the text of the condition's result.
int64_t crc_of(const StoredJob& job);
int64_t crc_of(int64_t number, const JobCondition& condition, std::string_view result);
int64_t crc_of(int64_t number, const LostAssembly& lost);
int64_t crc_of(int64_t number, const FiredFault& fired);
// The same of a progress report, whose bytes are a list of numbers.
int64_t crc_of_report(int64_t number, std::string_view bytes);

}  // namespace leat
