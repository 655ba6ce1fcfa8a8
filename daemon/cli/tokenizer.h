// Tokenizers make numbers of text, for `leat data tokenize`.
//
// Threads: one at a time for each tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // The numbers of a document, behind those in `out`. invalid_argument names the byte at which the
  // text cannot be read.
  virtual Status encode(std::string_view text, std::vector<uint32_t>& out) const = 0;
  // Tokens are below it.
  virtual uint32_t vocabulary() const = 0;
  // The characters that the tokenizer has found in its texts, in their order; empty: it has found
  // none.
  virtual std::string found_characters() const { return ""; }
};

// Makes the tokenizer that `spec` names:
//
//   bytes                  each byte is a token, 0 to 255
//   char                   each character of UTF-8, numbered in the order of their code points
//   char:FILE              the same with the characters of that file, as found_characters() has
//                          them
//
// `texts`: the files that the vocabulary of `char` is collected from. invalid_argument for another
// name or a file that is none of these; errors of reading.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(Files& files, const std::string& spec,
                                                  const std::vector<std::string>& texts);

// The largest file that is read as a whole.
inline constexpr uint64_t kMostTextBytes = uint64_t{4} << 30;
inline std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace leat
