// A response of unknown length, which the server sends piece by piece: a stream of server-sent
// events.
#pragma once

#include <string>

namespace leat {

// Threads: one, the server's.
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // Returns the bytes that came up since the last call; "" if there are none yet. It must not
  // block. The server asks again a short time after the client has taken them.
  virtual std::string next() = 0;
  // True if no more bytes will come: the server then closes the connection.
  virtual bool has_ended() const = 0;
};

}  // namespace leat
