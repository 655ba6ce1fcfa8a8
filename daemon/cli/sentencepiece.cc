#include "daemon/cli/sentencepiece.h"

#include <charconv>
#include <chrono>

#include "daemon/cli/filter_program.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kSilence{60'000};
constexpr size_t kRunBytes = size_t{8} << 20;  // of texts, for one process

Result<std::string> run_sentencepiece(const std::string& program, const std::string& model,
                                      const std::vector<std::string>& more,
                                      std::string_view input) {
  std::vector<std::string> words{program, "--model=" + model};
  words.insert(words.end(), more.begin(), more.end());
  auto output = run_filter(words, input, kSilence);
  if (output.ok()) return output;
  const Status& status = output.status();
  if (status.code() != Code::failed_precondition)  // there is the program
    return Status(status.code(), cat("'", model, "': ", status.message()));
  return failed_precondition(
      cat("--tokenizer sentencepiece: expected the programs of the package ",
          "sentencepiece (apt-get install sentencepiece): ", status.message()));
}

// The numbers of one line of the output.
Status parse_numbers(std::string_view line, std::vector<uint32_t>& out) {
  while (!line.empty()) {
    uint32_t token = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), token);
    if (error != std::errc() || end == line.data())
      return internal_error(
          cat("spm_encode: expected numbers, received '", line.substr(0, 60), "'"));
    out.push_back(token);
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    while (line.starts_with(' ')) line.remove_prefix(1);
  }
  return {};
}

// The lines of documents, for one process.
class SentenceRun {
 public:
  explicit SentenceRun(const std::string& model) : model_(model) {}
  bool is_full() const { return text_.size() >= kRunBytes; }
  // `tokens` gets those of the line.
  void add(std::string_view line, std::vector<uint32_t>* tokens) {
    text_ += line;
    text_ += '\n';
    tokens_.push_back(tokens);
  }
  Status run() {
    if (tokens_.empty()) return {};
    LEAT_ASSIGN_OR_RETURN(const std::string output,
                          run_sentencepiece("spm_encode", model_, {"--output_format=id"}, text_));
    std::string_view rest = output;
    for (std::vector<uint32_t>* tokens : tokens_) {
      const size_t end = rest.find('\n');
      if (end == std::string_view::npos)
        return internal_error(
            cat("spm_encode: expected ", tokens_.size(), " lines, received fewer"));
      LEAT_RETURN_IF_ERROR(parse_numbers(rest.substr(0, end), *tokens));
      rest.remove_prefix(end + 1);
    }
    if (!rest.empty())
      return internal_error(cat("spm_encode: expected ", tokens_.size(), " lines, received more"));
    text_.clear();
    tokens_.clear();
    return {};
  }

 private:
  const std::string& model_;
  std::string text_;
  std::vector<std::vector<uint32_t>*> tokens_;  // by line
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, uint32_t vocabulary)
      : model_(std::move(model)), vocabulary_(vocabulary) {}

  Status encode(std::string_view text, std::vector<uint32_t>& out) const override {
    return encode_each({&text, 1}, [&](const std::vector<uint32_t>& tokens) -> Status {
      out.insert(out.end(), tokens.begin(), tokens.end());
      return {};
    });
  }

  Status encode_each(std::span<const std::string_view> documents,
                     const TakeTokens& take) const override {
    // Tokens are passed on as soon as all documents before them are done.
    std::vector<std::vector<uint32_t>> tokens(documents.size());
    SentenceRun run(model_);
    size_t next = 0;
    for (size_t d = 0; d < documents.size(); ++d) {
      std::string_view rest = documents[d];
      while (!rest.empty()) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        if (end > 0) run.add(rest.substr(0, end), &tokens[d]);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (run.is_full()) LEAT_RETURN_IF_ERROR(run.run());
      }
      if (!run.is_full() && d + 1 < documents.size()) continue;
      LEAT_RETURN_IF_ERROR(run.run());
      for (; next <= d; ++next) {
        LEAT_RETURN_IF_ERROR(take(tokens[next]));
        tokens[next] = {};
      }
    }
    return {};
  }

  uint32_t vocabulary() const override { return vocabulary_; }

 private:
  const std::string model_;
  const uint32_t vocabulary_;
};

// The pieces of a model: lines of a piece, which may have any character, and its score.
uint32_t count_pieces(std::string_view text) {
  uint32_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t tab = line.rfind('\t');
    double score = 0;
    if (tab != std::string_view::npos &&
        std::from_chars(line.data() + tab + 1, line.data() + line.size(), score).ec == std::errc())
      ++count;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return count;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece(Files& files, const std::string& model) {
  LEAT_RETURN_IF_ERROR(files.open(model).status());
  LEAT_ASSIGN_OR_RETURN(const std::string pieces,
                        run_sentencepiece("spm_export_vocab", model, {}, ""));
  const uint32_t count = count_pieces(pieces);
  if (count == 0) return invalid_argument(cat("'", model, "': expected a model with pieces"));
  return std::unique_ptr<Tokenizer>(std::make_unique<SentencePieceTokenizer>(model, count));
}

}  // namespace leat
