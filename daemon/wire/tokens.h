// Tokens in the messages of daemon/wire/cluster.capnp. Includes Cap'n Proto: for .cc files.
#pragma once

#include "daemon/jobs/token_view.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"

namespace leat {

void write_view(const TokenView& view, wire::TokenView::Builder out);
// `internal` for a role that this build does not know, or a name that is none.
Result<TokenView> read_view(wire::TokenView::Reader in);

}  // namespace leat
