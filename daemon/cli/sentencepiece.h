// The tokens of SentencePiece, for `leat data tokenize`.
#pragma once

#include <memory>
#include <string>

#include "daemon/cli/tokenizer.h"

namespace leat {

// Makes the tokenizer of a model that spm_train wrote. The programs spm_encode and spm_export_vocab
// do the work, in processes of their own: Debian's libsentencepiece brings a protobuf of its own,
// with which ONNX files cannot be read in the same process.
//
// A line of a text is what SentencePiece calls a sentence: lines are encoded one by one, their ends
// are no tokens, and the numbers are those of spm_encode --output_format=id. failed_precondition if
// the programs are not installed, which names their package, and for a file that is no model;
// deadline_exceeded if they do nothing for a minute.
Result<std::unique_ptr<Tokenizer>> make_sentencepiece(Files& files, const std::string& model);

}  // namespace leat
