#include "daemon/authority/issued_certificate.h"

#include "daemon/base/json_line.h"
#include "daemon/base/yaml_reader.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr const char* kNumber = "certificates";  // the key of the last line

std::string line_of(const IssuedCertificate& each) {
  JsonLine line;
  line.add("serial", each.serial)
      .add("role", each.role)
      .add("name", each.name)
      .add("hosts", each.hosts)
      .add("from", each.from)
      .add("until", each.until)
      .add("authority", each.authority);
  if (each.revoked) line.add("revoked", *each.revoked);
  return line.text();
}

bool is_serial(const std::string& text) {
  constexpr size_t kMostDigits = 40;  // RFC 5280: 20 octets
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void read_line(YamlMap& top, IssuedCertificate& out) {
  int64_t revoked = 0;
  if (top.get_string("serial", Need::required, out.serial) && !is_serial(out.serial))
    top.fail("serial", cat("expected hexadecimal digits, received '", printable(out.serial), "'"));
  top.get_string("role", Need::required, out.role);
  top.get_string("name", Need::required, out.name);
  top.get_strings("hosts", Need::required, out.hosts);
  top.get_int("from", Need::required, {}, out.from);
  top.get_int("until", Need::required, {}, out.until);
  top.get_string("authority", Need::required, out.authority);
  if (top.get_int("revoked", Need::optional, {}, revoked)) out.revoked = revoked;
}

}  // namespace

std::string text_of(const std::vector<IssuedCertificate>& issued) {
  std::string text;
  for (const IssuedCertificate& each : issued) text += line_of(each);
  JsonLine last;
  return text + last.add(kNumber, static_cast<int64_t>(issued.size())).text();
}

Result<std::vector<IssuedCertificate>> read_issued(std::string_view text,
                                                   const std::string& subject) {
  std::vector<IssuedCertificate> issued;
  int64_t number = -1;
  size_t at = 0;
  while (number < 0) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    // JSON is YAML, too.
    LEAT_ASSIGN_OR_RETURN(
        const YamlDocument document,
        YamlDocument::parse(text.substr(at, end - at), cat(subject, ", line ", issued.size() + 1)));
    YamlReader reader(document);
    YamlMap top = reader.top();
    if (top.has(kNumber)) {
      top.get_int(kNumber, Need::required, {.min = 0}, number);
    } else {
      read_line(top, issued.emplace_back());
    }
    top.finish();
    LEAT_RETURN_IF_ERROR(reader.status());
    at = end + 1;
  }
  if (at == text.size() && number == static_cast<int64_t>(issued.size())) return issued;
  return invalid_argument(cat(subject,
                              ": expected a last line with the number of the lines before "
                              "it, received ",
                              issued.size(), " lines without it: the file was cut or changed"));
}

}  // namespace leat
