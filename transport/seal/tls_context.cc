#include "transport/seal/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdio>
#include <cstdlib>

#include "devices/base/text.h"

namespace leat {

void no_crypto(const char* what) {
  std::fprintf(stderr, "OpenSSL has no %s: it is not installed properly\n", what);
  std::abort();
}

ssl_ctx_st* new_tls_context() {
  SSL_CTX* made = SSL_CTX_new(TLS_method());
  if (made == nullptr || SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(made, "X25519") != 1) {
    no_crypto("TLS 1.3");
  }
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(made, 0);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(made, 1);
  return made;
}

std::string tls_reason(const char* otherwise) {
  const unsigned long error = ERR_peek_last_error();
  if (error == 0) return otherwise;
  const char* const reason = ERR_reason_error_string(error);
  if (reason == nullptr) return otherwise;
  const int number = ERR_GET_REASON(error);
  // OpenSSL has a row of reasons for what a peer has sent as an alert.
  const bool alert = ERR_GET_LIB(error) == ERR_LIB_SSL && number > SSL_AD_REASON_OFFSET;
  return alert ? cat("the peer refuses it: ",
                     SSL_alert_desc_string_long(number - SSL_AD_REASON_OFFSET))
               : std::string(reason);
}

}  // namespace leat
