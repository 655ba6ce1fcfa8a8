// TLS as all connections of a cluster have it. For the .cc files of this folder.
#pragma once

#include <string>

// A type of OpenSSL, whose headers only the .cc files include.
struct ssl_ctx_st;

namespace leat {

// A context with TLS 1.3 alone, TLS_AES_128_GCM_SHA256 and X25519 alone, without tickets,
// resumption, renegotiation and compression. Ends the process if OpenSSL cannot make one: there is
// no way to go on safely.
ssl_ctx_st* new_tls_context();
// Ends the process with that reason.
[[noreturn]] void no_crypto(const char* what);
// The reason of the last failed call, from OpenSSL's list of errors; `otherwise` if it has none. An
// alert of the peer is named as such.
std::string tls_reason(const char* otherwise);

}  // namespace leat
