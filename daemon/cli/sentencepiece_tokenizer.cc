// The only file that knows SentencePiece.
#include <sentencepiece_processor.h>

#include <exception>

#include "daemon/cli/tokenizer.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMostModelBytes = uint64_t{256} << 20;

class SentencePieceTokenizer final : public Tokenizer {
 public:
  Status load(const Bytes& model) {
    const auto loaded = processor_.LoadFromSerializedProto(
        {reinterpret_cast<const char*>(model.data()), model.size()});
    return loaded.ok() ? Status() : invalid_argument(loaded.error_message());
  }
  Status encode(std::string_view text, std::vector<uint32_t>& out) const override {
    std::vector<int> ids;
    const auto done = processor_.Encode({text.data(), text.size()}, &ids);
    if (!done.ok()) return invalid_argument(done.error_message());
    for (const int id : ids) out.push_back(static_cast<uint32_t>(id));
    return {};
  }
  uint32_t vocabulary() const override { return static_cast<uint32_t>(processor_.GetPieceSize()); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes model, read_file(files, path, kMostModelBytes));
  auto made = std::make_unique<SentencePieceTokenizer>();
  // The library throws for some of the models that it cannot read.
  Status loaded;
  try {
    loaded = made->load(model);
  } catch (const std::exception& error) {
    loaded = invalid_argument(error.what());
  }
  if (!loaded.ok()) {
    return invalid_argument(
        cat("'", path, "': expected a model of SentencePiece: ", loaded.message()));
  }
  return std::unique_ptr<Tokenizer>(std::move(made));
}

}  // namespace leat
