#include "daemon/cli/tokenizer.h"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/cli/sentencepiece.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr uint64_t kMostVocabularyBytes = uint64_t{64} << 20;

class ByteTokenizer final : public Tokenizer {
 public:
  Status encode(std::string_view text, std::vector<uint32_t>& out) const override {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return {};
  }
  uint32_t vocabulary() const override { return 256; }
};

// Calls f with each character of UTF-8.
template <typename F>
Status each_character(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = utf8_sequence(text.substr(at));
    if (size == 0) return invalid_argument(cat("expected UTF-8 at byte ", at));
    LEAT_RETURN_IF_ERROR(f(text.substr(at, size), at));
    at += size;
  }
  return {};
}

// Characters in the order of their bytes, which in UTF-8 is that of their code points.
class CharacterTokenizer final : public Tokenizer {
 public:
  CharacterTokenizer(const std::vector<std::string>& characters, bool found) : found_(found) {
    for (const std::string& each : characters)
      numbers_.emplace(each, static_cast<uint32_t>(numbers_.size()));
    characters_ = characters;
  }
  Status encode(std::string_view text, std::vector<uint32_t>& out) const override {
    return each_character(text, [&](std::string_view character, size_t at) -> Status {
      const auto known = numbers_.find(character);
      if (known == numbers_.end()) {
        return invalid_argument(cat("expected characters of the vocabulary, received '",
                                    printable(character), "' at byte ", at));
      }
      out.push_back(known->second);
      return {};
    });
  }
  uint32_t vocabulary() const override { return static_cast<uint32_t>(numbers_.size()); }
  std::string found_characters() const override { return found_ ? join(characters_, "") : ""; }

 private:
  const bool found_;
  std::vector<std::string> characters_;
  std::map<std::string, uint32_t, std::less<>> numbers_;
};

Result<std::unique_ptr<Tokenizer>> find_characters(Files& files,
                                                   const std::vector<std::string>& texts) {
  std::set<std::string, std::less<>> all;
  for (const std::string& path : texts) {
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, kMostTextBytes));
    const Status read = each_character(text_of(bytes), [&](std::string_view character, size_t) {
      if (!all.contains(character)) all.emplace(character);
      return Status();
    });
    if (!read.ok()) return invalid_argument(cat("'", path, "': ", read.message()));
  }
  return std::unique_ptr<Tokenizer>(
      std::make_unique<CharacterTokenizer>(std::vector<std::string>(all.begin(), all.end()), true));
}

Result<std::unique_ptr<Tokenizer>> read_characters(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, path, kMostVocabularyBytes));
  std::vector<std::string> characters;
  Status read = each_character(text_of(bytes), [&](std::string_view character, size_t) {
    characters.emplace_back(character);
    return Status();
  });
  const std::set<std::string> different(characters.begin(), characters.end());
  if (!read.ok() || characters.empty() || different.size() != characters.size()) {
    return invalid_argument(cat("'", path, "': expected a vocabulary, each of whose characters is ",
                                "there once, as --tokenizer char writes it"));
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<CharacterTokenizer>(characters, false));
}

}  // namespace

Status Tokenizer::encode_each(std::span<const std::string_view> documents,
                              const TakeTokens& take) const {
  std::vector<uint32_t> tokens;
  for (const std::string_view document : documents) {
    tokens.clear();
    LEAT_RETURN_IF_ERROR(encode(document, tokens));
    LEAT_RETURN_IF_ERROR(take(tokens));
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(Files& files, const std::string& spec,
                                                  const std::vector<std::string>& texts) {
  const size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (spec == "bytes") return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  if (spec == "char") return find_characters(files, texts);
  if (name == "char" && !path.empty()) return read_characters(files, path);
  if (name == "sentencepiece" && !path.empty()) return make_sentencepiece(files, path);
  return invalid_argument(cat("--tokenizer: expected bytes, char, char:VOCABULARY or ",
                              "sentencepiece:MODEL, received '", printable(spec), "'"));
}

}  // namespace leat
