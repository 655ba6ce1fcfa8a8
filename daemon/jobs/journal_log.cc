// The format: "WAL File Format", https://www.sqlite.org/fileformat2.html#walformat
//
//   header, 32 bytes:  magic  version  page size  sequence  salt[2]  checksum[2]
//   frames:            page number  pages after a commit, else 0  salt[2]  checksum[2]  the page
//
// All numbers are big-endian, 32 bits. A frame's checksum goes on from the one of the frame before.
#include "daemon/jobs/journal_log.h"

#include <array>
#include <bit>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint32_t kMagic = 0x377f0682;  // with the lowest bit set: checksums of big-endian words
constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
using Pair = std::array<uint32_t, 2>;

uint32_t word_at(std::span<const std::byte> bytes, size_t offset, bool big_endian = true) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word = word << 8 | std::to_integer<uint32_t>(bytes[offset + (big_endian ? i : 3 - i)]);
  }
  return word;
}

Pair pair_at(std::span<const std::byte> bytes, size_t offset) {
  return {word_at(bytes, offset), word_at(bytes, offset + 4)};
}

Pair checksum(std::span<const std::byte> bytes, bool big_endian, Pair sum) {
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    sum[0] += word_at(bytes, i, big_endian) + sum[1];
    sum[1] += word_at(bytes, i + 4, big_endian) + sum[0];
  }
  return sum;
}

// Whether one flipped bit of a word makes up for all that its checksum lacks. `influence`: what
// adding 1 to the word adds to the checksum.
bool is_one_bit(const Pair& lacks, const Pair& influence, uint32_t word) {
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t value = 1u << bit;
    const uint32_t by = (word & value) != 0 ? 0u - value : value;
    if (by * influence[0] == lacks[0] && by * influence[1] == lacks[1]) return true;
  }
  return false;
}

// The same of any word of `bytes`, from the last to the first. `influence` is that of the last
// word, and comes back as that of the word before the first.
bool is_one_bit(std::span<const std::byte> bytes, bool big_endian, const Pair& lacks,
                Pair& influence) {
  for (size_t i = bytes.size(); i >= 8; i -= 8) {
    const auto [a, b] = influence;
    if (is_one_bit(lacks, {a, b}, word_at(bytes, i - 4, big_endian))) return true;
    if (is_one_bit(lacks, {b, a + b}, word_at(bytes, i - 8, big_endian))) return true;
    influence = {a + b, a + 2 * b};
  }
  return false;
}

int bits_apart(const Pair& a, const Pair& b) {
  return std::popcount(a[0] ^ b[0]) + std::popcount(a[1] ^ b[1]);
}

struct Frame {
  bool has_salt = false;  // not left over from before the log began anew
  bool commits = false;
  bool follows = false;  // its checksum goes on from the one that the frame before has
  // The next one goes on from this. They differ where bits of the frame are bad.
  Pair stored = {};
  Pair computed = {};
};

bool is_good(const Frame& frame) { return frame.has_salt && frame.follows; }

Frame read_frame(std::span<const std::byte> bytes, const Pair& salt, const Frame& before,
                 bool big_endian) {
  const auto sum = [&](const Pair& start) {
    const Pair page = checksum(bytes.first(8), big_endian, start);
    return checksum(bytes.subspan(kFrameHeaderBytes), big_endian, page);
  };
  Frame frame;
  frame.has_salt = pair_at(bytes, 8) == salt;
  frame.commits = word_at(bytes, 4) != 0;
  frame.stored = pair_at(bytes, 16);
  frame.computed = sum(before.stored);
  frame.follows = frame.computed == frame.stored || sum(before.computed) == frame.stored;
  return frame;
}

// Whether a frame that is not good lacks one bit for that. Sectors that a crash kept from the disk
// differ in more: in the salts, if they are of the log before, or in all that was zero. They may
// differ in one bit alone; is_whole_but_for() tells most of those.
bool is_one_bit_off(std::span<const std::byte> bytes, const Pair& salt, bool big_endian,
                    Frame& frame) {
  const int salt_bits = bits_apart(pair_at(bytes, 8), salt);
  const int sum_bits = bits_apart(frame.stored, frame.computed);
  if (salt_bits + sum_bits == 1) return true;
  if (salt_bits > 0) return false;
  const Pair lacks = {frame.stored[0] - frame.computed[0], frame.stored[1] - frame.computed[1]};
  Pair influence = {0, 1};
  if (is_one_bit(bytes.subspan(kFrameHeaderBytes), big_endian, lacks, influence)) return true;
  if (!is_one_bit(bytes.first(8), big_endian, lacks, influence)) return false;
  frame.commits = true;  // the bit may be that which said so
  return true;
}

// Whether the transaction of frame `bad`, of which one bit is, was on disk as a whole: no other
// frame of it lacks anything.
bool is_whole_but_for(const std::vector<Frame>& frames, size_t bad) {
  if (frames[bad].commits) return true;
  for (size_t i = bad + 1; i < frames.size() && is_good(frames[i]); ++i)
    if (frames[i].commits) return true;
  return false;
}

// True if what is behind a bad frame was written when the bad one was on disk already.
bool has_lost_frames(const std::vector<Frame>& frames) {
  size_t good = 0;
  while (good < frames.size() && is_good(frames[good])) ++good;
  for (size_t i = good + 1; i < frames.size(); ++i) {
    const Frame& before = frames[i - 1];
    const bool is_ours = before.has_salt || before.follows;
    if (is_ours && before.commits && frames[i].has_salt && frames[i].follows) return true;
  }
  return false;
}

}  // namespace

Status check_journal_log(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() <= kHeaderBytes) return {};  // nothing was written behind it
  std::array<std::byte, kHeaderBytes> header;
  LEAT_RETURN_IF_ERROR(file->read(0, header));
  const uint32_t magic = word_at(header, 0);
  const uint32_t page_bytes = word_at(header, 8);
  const bool big_endian = (magic & 1) != 0;
  const Pair first = checksum(std::span(header).first(24), big_endian, {});
  const bool has_size = std::has_single_bit(page_bytes) && page_bytes >= 512 && page_bytes <= 65536;
  if ((magic & ~1u) != kMagic || !has_size || first != pair_at(header, 24)) {
    return failed_precondition(cat("'", path, "': its header is damaged"));
  }
  std::vector<Frame> frames;
  std::vector<size_t> suspects;
  Frame before;
  before.has_salt = before.follows = true;
  before.stored = before.computed = first;
  std::vector<std::byte> bytes(kFrameHeaderBytes + page_bytes);
  for (uint64_t at = kHeaderBytes; at + bytes.size() <= file->size(); at += bytes.size()) {
    LEAT_RETURN_IF_ERROR(file->read(at, bytes));
    const Pair salt = pair_at(header, 16);
    Frame frame = read_frame(bytes, salt, before, big_endian);
    if (is_good(before) && !is_good(frame) && is_one_bit_off(bytes, salt, big_endian, frame))
      suspects.push_back(frames.size());
    frames.push_back(before = frame);
  }
  for (const size_t bad : suspects) {
    if (!is_whole_but_for(frames, bad)) continue;
    return failed_precondition(cat("'", path, "': one bit of a transaction in it is bad"));
  }
  if (!has_lost_frames(frames)) return {};
  return failed_precondition(
      cat("'", path, "': a transaction in it is damaged, and later ones follow"));
}

}  // namespace leat
