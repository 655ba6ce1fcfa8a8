#include "daemon/wire/tokens.h"

#include "daemon/wire/views.h"
#include "devices/base/text.h"

namespace leat {

void write_view(const TokenView& view, wire::TokenView::Builder out) {
  const std::string_view role = right_name(view.grant.right);
  out.setRole(capnp::Text::Reader(role.data(), role.size()));
  out.setName(view.grant.name.c_str());
  out.setNumber(view.grant.number);
  out.setExpires(view.grant.expires);
  out.setCreatedMs(view.created_ms);
  out.setRevokedMs(view.revoked_ms);
  out.setBy(view.by.c_str());
  out.setSecret(static_cast<uint8_t>(view.secret));
}

Result<TokenView> read_view(wire::TokenView::Reader in) {
  TokenView view;
  const auto right = right_named(to_string(in.getRole()));
  if (!right.ok()) return internal_error(cat("token: ", right.status().message()));
  view.grant.right = *right;
  view.grant.name = to_string(in.getName());
  if (const Status sound = check_name(view.grant.name); !sound.ok())
    return internal_error(cat("token: ", sound.message()));
  view.grant.number = in.getNumber();
  view.grant.expires = in.getExpires();
  view.created_ms = in.getCreatedMs();
  view.revoked_ms = in.getRevokedMs();
  view.by = to_string(in.getBy());
  if (in.getSecret() <= static_cast<uint8_t>(TokenSecret::old))
    view.secret = static_cast<TokenSecret>(in.getSecret());
  return view;
}

}  // namespace leat
