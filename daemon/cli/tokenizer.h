// Tokenizers make numbers of text, for `leat data tokenize`.
//
// Threads: one at a time for each tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
  // Passes the tokens of each document to `take`, in order, until it fails. The default encodes one
  // after the other.
  using TakeTokens = std::function<Status(const std::vector<uint32_t>&)>;
  virtual Status encode_each(std::span<const std::string_view> documents,
                             const TakeTokens& take) const;
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
//   sentencepiece:FILE     the pieces of a model of SentencePiece (sentencepiece.h)
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
