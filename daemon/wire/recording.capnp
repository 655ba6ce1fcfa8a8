# A recording of what the devices of a job did in some steps: the file that Runner.recorded and
# Master.record of cluster.capnp offer. daemon/traces/recording.h explains the fields; both have the same names.

@0xd3c5a7e19b42f086;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("leat::wire");

struct RecordingFile {
  job @0 :Text;
  partitions @1 :List(Partition);

  struct Partition {
    node @0 :Text;
    device @1 :Text;
    plan @2 :Text;
    partition @3 :UInt32;
    threads @4 :UInt32;
    cores @5 :UInt32;
    firstStep @6 :UInt64;
    first @7 :UInt64;
    end @8 :UInt64;
    dropped @9 :UInt64;
    clockOffset @10 :Int64;
    clockError @11 :Int64;
    nodes @12 :List(Node);
    events @13 :List(Event);
    lostFrom @14 :UInt64 = 0xffffffffffffffff;
  }

  struct Node {
    name @0 :Text;
    op @1 :Text;
    type @2 :Text;
    kind @3 :UInt8;
    edge @4 :UInt32;
    peer @5 :UInt32;
    bytes @6 :UInt64;
    chain @7 :UInt32;
    inputs @8 :List(UInt32);
  }

  struct Event {
    begin @0 :Int64;
    end @1 :Int64;
    turn @2 :UInt64;
    instruction @3 :UInt32;
    pieces @4 :UInt32;
    kind @5 :UInt8;
    thread @6 :UInt16;
  }
}
