#include "daemon/cli/data_tokenize.h"

#include <cstdio>

#include "daemon/cli/commands.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/tokenizer.h"
#include "devices/base/counted.h"
#include "devices/base/dtype.h"
#include "devices/base/text.h"
#include "devices/core/tensor.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

// The documents of a text. Paragraphs end at empty lines; documents without a character are left
// out, and so are the ends of lines between documents.
std::vector<std::string_view> cut_documents(std::string_view text, const std::string& documents) {
  if (documents == "files") return {text};
  const std::string_view end = documents == "lines" ? "\n" : "\n\n";
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(end, at), text.size());
    std::string_view document = text.substr(at, found - at);
    while (document.ends_with('\n') || document.ends_with('\r')) document.remove_suffix(1);
    while (document.starts_with('\n')) document.remove_prefix(1);
    if (!document.empty()) out.push_back(document);
    at = found + end.size();
  }
  return out;
}

// The bytes of tokens that are to be written.
class TokenBytes {
 public:
  explicit TokenBytes(DType dtype) : size_(dtype_size(dtype)) {}
  // The first token that the type cannot hold; nothing if all fit.
  std::optional<uint32_t> add(const std::vector<uint32_t>& tokens) {
    for (const uint32_t token : tokens) {
      if (size_ < 4 && token >> (8 * size_) != 0) return token;
      for (size_t i = 0; i < size_; ++i)
        bytes_.push_back(static_cast<std::byte>(token >> (8 * i) & 0xff));
    }
    return {};
  }
  const Bytes& bytes() const { return bytes_; }
  uint64_t count() const { return bytes_.size() / size_; }

 private:
  const size_t size_;
  Bytes bytes_;
};

struct Collected {
  TokenBytes tokens;
  std::vector<int64_t> starts;
};

Status add_text(const DataTokenizeCommand& command, const Tokenizer& tokenizer, DType dtype,
                std::string_view text, Collected& to) {
  return tokenizer.encode_each(
      cut_documents(text, command.documents), [&](const std::vector<uint32_t>& encoded) -> Status {
        std::vector<uint32_t> tokens = encoded;
        if (command.separator) tokens.push_back(static_cast<uint32_t>(*command.separator));
        to.starts.push_back(static_cast<int64_t>(to.tokens.count()));
        const auto large = to.tokens.add(tokens);
        if (!large) return {};
        return invalid_argument(cat("expected tokens that ", dtype, " can hold, received ", *large,
                                    "; write --dtype ", *large < 65536 ? "uint16" : "uint32"));
      });
}

Status write_starts(Files& files, const std::string& path, const std::vector<int64_t>& starts) {
  if (path.empty()) return {};
  return write_npy(files, path, Tensor::of<int64_t>({static_cast<int64_t>(starts.size())}, starts));
}

Status write_text(Files& files, const std::string& path, const std::string& text) {
  return write_file_atomically(files, path,
                               std::as_bytes(std::span<const char>(text.data(), text.size())));
}

}  // namespace

Result<TokenizedText> tokenize_files(Files& files, const DataTokenizeCommand& command) {
  const std::vector<std::string> texts(command.files.begin(), command.files.end() - 1);
  const std::string& output = command.files.back();
  LEAT_ASSIGN_OR_RETURN(const auto tokenizer, make_tokenizer(files, command.tokenizer, texts));
  const DType dtype =
      dtype_from_name(command.dtype.empty() ? "uint16" : command.dtype).value_or(DType::u16);
  Collected collected{TokenBytes(dtype), {}};
  for (const std::string& path : texts) {
    if (path == output)
      return invalid_argument(
          cat("'", path, "': expected another file to write than those to read"));
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, kMostTextBytes));
    const Status added = add_text(command, *tokenizer, dtype, text_of(bytes), collected);
    if (!added.ok()) return Status(added.code(), cat("'", path, "': ", added.message()));
  }
  if (const std::string characters = tokenizer->found_characters(); !characters.empty())
    LEAT_RETURN_IF_ERROR(write_text(files, output + ".characters", characters));
  LEAT_RETURN_IF_ERROR(write_starts(files, command.starts, collected.starts));
  LEAT_RETURN_IF_ERROR(write_file_atomically(files, output, collected.tokens.bytes()));
  return TokenizedText{collected.starts.size(), collected.tokens.count(), tokenizer->vocabulary()};
}

int run_data_tokenize(const DataTokenizeCommand& command) {
  for (size_t i = 0; i + 1 < command.files.size(); ++i) {
    if (report_missing("text file", command.files[i], command.color)) return kExitNoSuch;
  }
  const auto made = tokenize_files(real_files(), command);
  if (!made.ok()) return report(made.status(), command.color);
  std::fprintf(stderr, "%s: %s, %s, a vocabulary of %u\n", command.files.back().c_str(),
               counted(static_cast<int64_t>(made->tokens), "token").c_str(),
               counted(static_cast<int64_t>(made->documents), "document").c_str(),
               made->vocabulary);
  return kExitOk;
}

}  // namespace leat
