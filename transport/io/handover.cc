#include "transport/io/handover.h"

namespace leat {

Status hand_over(int unix_socket, Connection connection, Deadline deadline) {
  // The connection's socket closes here when this returns; the message keeps it open until the
  // other process has it.
  const HelloBytes hello = encode(connection.hello);
  const int descriptor = connection.socket.get();
  return send_descriptors(unix_socket, hello, {&descriptor, 1}, deadline, "handing a socket over");
}

Result<Connection> take_over(int unix_socket, Deadline deadline) {
  HelloBytes bytes;
  LEAT_ASSIGN_OR_RETURN(std::vector<Descriptor> sockets,
                        receive_descriptors(unix_socket, bytes, 1, deadline, "taking a socket"));
  // The hello was judged before it was handed over, but its bytes are decoded as any peer's.
  LEAT_ASSIGN_OR_RETURN(const LinkHello hello, decode_hello(bytes));
  return Connection{std::move(sockets[0]), hello};
}

}  // namespace leat
