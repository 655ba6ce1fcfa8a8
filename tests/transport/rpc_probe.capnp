# An interface for the tests of transport/rpc.

@0xb7e2a6c90d514f83;

using Cxx = import "/capnp/c++.capnp";
using Common = import "/transport/rpc/common.capnp";
$Cxx.namespace("leat::probe");

interface Probe {
  echo @0 (text :Text) -> (text :Text);

  hold @1 (bytes :Data) -> ();
  # Never answers.

  holding @2 () -> (calls :UInt32);
  # How many calls of hold() are there now, of all peers.

  take @3 () -> (probe :Probe);
  # A new capability.

  fail @4 (how :Common.Status) -> (outcome :Common.Outcome(Common.Nothing));
  # The error that it is told.

  crash @5 () -> ();
  # Throws.

  elsewhere @6 (text :Text) -> (text :Text);
  # Another thread's answer.

  send @7 (size :UInt64, sha256 :Data) -> (outcome :Common.Outcome(Common.Upload));
  # Up to 4 MiB; what comes is kept for fetch().

  fetch @8 () -> (size :UInt64, sha256 :Data, from :Common.Download);

  fill @9 (size :UInt32) -> (bytes :Data);
  # So many bytes.
}
