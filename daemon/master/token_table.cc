#include "daemon/master/token_table.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>

#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMostTokenBytes = 8u << 20;
constexpr int64_t kKeptMs = std::chrono::milliseconds(30 * 24h).count();
constexpr std::string_view kFirstLine =
    "# The tokens of this master: number, role, name, expires (s), created (ms), revoked (ms), "
    "by\n";

// Begins the comment with the mark of a token's secret: earlier versions of leatd pass over it.
constexpr std::string_view kMark = "#secret ";

std::string line_of_token(const TokenView& token) {
  const Grant& grant = token.grant;
  std::string line =
      cat(grant.number, " ", right_name(grant.right), " ", grant.name, " ", grant.expires, " ",
          token.created_ms, " ", token.revoked_ms, " ", token.by, "\n");
  if (!token.mark.empty()) line += cat(kMark, grant.number, " ", token.mark, "\n");
  return line;
}

// A hash of the token's key, of which nothing else can be learned.
std::string mark_of(const Grant& grant, std::string_view secret) {
  const std::string text = cat("leat mark of a token's secret ", key_of(grant, secret));
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  return to_hex(std::span(digest).first(16));
}

TokenSecret secret_of(const TokenView& token, std::string_view secret, std::string_view previous) {
  if (token.mark.empty() || secret.empty()) return TokenSecret::unknown;
  if (token.mark == mark_of(token.grant, secret)) return TokenSecret::current;
  return !previous.empty() && token.mark == mark_of(token.grant, previous) ? TokenSecret::previous
                                                                           : TokenSecret::old;
}

Result<TokenView> token_of_line(const std::string& line) {
  std::istringstream words(line);
  TokenView token;
  Grant& grant = token.grant;
  std::string role;
  words >> grant.number >> role >> grant.name >> grant.expires >> token.created_ms >>
      token.revoked_ms;
  if (words.fail()) return invalid_argument("expected number, role, name and three times");
  words.get();  // the space
  std::getline(words, token.by);
  LEAT_ASSIGN_OR_RETURN(grant.right, right_named(role));
  LEAT_RETURN_IF_ERROR(check_name(grant.name));
  return token;
}

}  // namespace

Result<std::unique_ptr<TokenTable>> TokenTable::open(Files& files, std::string path,
                                                     const Clock& clock,
                                                     std::function<uint64_t()> random) {
  std::unique_ptr<TokenTable> table(
      new TokenTable(files, std::move(path), clock, std::move(random)));
  LEAT_RETURN_IF_ERROR(table->read());
  return table;
}

int64_t TokenTable::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now().time_since_epoch())
      .count();
}

Status TokenTable::read() {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files_.exists(path_));
  if (!exists) return {};
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files_, path_, kMostTokenBytes));
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with(kMark)) {
      std::istringstream words(line.substr(kMark.size()));
      uint64_t of = 0;
      std::string mark;
      const auto token = words >> of >> mark ? tokens_.find(of) : tokens_.end();
      if (token != tokens_.end()) token->second.mark = mark;
    }
    if (line.starts_with('#')) continue;
    const auto token = token_of_line(line);
    if (!token.ok())
      return invalid_argument(cat(path_, ":", number, ": ", token.status().message()));
    tokens_[token->grant.number] = *token;
  }
  return {};
}

Status TokenTable::write(const std::map<uint64_t, TokenView>& tokens) const {
  std::string text(kFirstLine);
  for (const auto& [number, token] : tokens) text += line_of_token(token);
  return write_file_atomically(files_, path_, std::as_bytes(std::span(text)));
}

Result<TokenView> TokenTable::add(Grant grant, const std::string& by, std::string_view secret) {
  const int64_t now = now_ms();
  LEAT_RETURN_IF_ERROR(check_name(grant.name));
  if (grant.right == Right::member || grant.right == Right::runner)
    return invalid_argument(
        cat("role: expected that of a token, received ", right_name(grant.right)));
  if (grant.expires != 0 && grant.expires <= now / 1000)
    return invalid_argument(
        cat("expires: expected a time that is to come, received ", grant.expires));
  const std::lock_guard changes(changes_);
  std::map<uint64_t, TokenView> tokens;
  {
    const std::lock_guard lock(mutex_);
    tokens = tokens_;
  }
  std::erase_if(tokens, [&](const auto& each) {
    const TokenView& token = each.second;
    const bool was_revoked = token.revoked_ms != 0 && token.revoked_ms < now - kKeptMs;
    const bool is_over = token.grant.expires != 0 && token.grant.expires * 1000 < now - kKeptMs;
    return was_revoked || is_over;
  });
  if (tokens.size() >= kMost)
    return resource_exhausted(cat("tokens: expected at most ", kMost, ", there are so many"));
  do {
    grant.number = random_();
  } while (grant.number == 0 || tokens.contains(grant.number));
  const TokenView token{grant, now, 0, printable(by), mark_of(grant, secret), TokenSecret::current};
  tokens[grant.number] = token;
  LEAT_RETURN_IF_ERROR(write(tokens));
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  return token;
}

Result<TokenView> TokenTable::revoke(uint64_t number) {
  const std::lock_guard changes(changes_);
  std::map<uint64_t, TokenView> tokens;
  {
    const std::lock_guard lock(mutex_);
    tokens = tokens_;
  }
  const auto found = tokens.find(number);
  if (found == tokens.end())
    return failed_precondition(cat("token: expected the number of one, received ", number));
  if (found->second.revoked_ms != 0) return found->second;
  found->second.revoked_ms = now_ms();
  const TokenView token = found->second;
  LEAT_RETURN_IF_ERROR(write(tokens));
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  return token;
}

bool TokenTable::is_good(const Grant& grant) const {
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(grant.number);
  return found != tokens_.end() && found->second.grant == grant && found->second.revoked_ms == 0;
}

std::vector<TokenView> TokenTable::all(std::string_view secret, std::string_view previous) const {
  std::vector<TokenView> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, token] : tokens_) all.push_back(token);
  }
  for (TokenView& token : all) token.secret = secret_of(token, secret, previous);
  std::sort(all.begin(), all.end(), [](const TokenView& a, const TokenView& b) {
    return std::pair(a.created_ms, a.grant.number) < std::pair(b.created_ms, b.grant.number);
  });
  return all;
}

}  // namespace leat
