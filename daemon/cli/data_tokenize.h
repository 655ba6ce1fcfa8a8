// `leat data tokenize`: text files become a file of tokens, which jobs read with `format: tokens`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Prints the numbers of documents and tokens, and the size of the vocabulary, on stderr.
struct DataTokenizeCommand {
  std::vector<std::string> files;    // the texts, and at the end the file to write
  std::string tokenizer = "bytes";   // as make_tokenizer() reads it
  std::string documents = "files";   // files, lines, paragraphs: what a document is
  std::optional<int64_t> separator;  // a token behind each document
  std::string starts;                // .npy: where each document begins; empty: not written
  std::string dtype;                 // uint8, uint16 or uint32; empty: uint16
  ColorMode color = ColorMode::automatic;
};
int run_data_tokenize(const DataTokenizeCommand& command);

// The counts of what has been written.
struct TokenizedText {
  uint64_t documents = 0, tokens = 0;
  uint32_t vocabulary = 0;
};
// Writes `output` whole or not at all: little-endian integers without a header. With the tokenizer
// `char` its characters are written to OUTPUT.characters first. invalid_argument, with the
// file, for a text that the tokenizer cannot read and for a token that the type cannot hold.
Result<TokenizedText> tokenize_files(Files& files, const DataTokenizeCommand& command);

}  // namespace leat
