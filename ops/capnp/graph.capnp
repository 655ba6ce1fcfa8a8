# A graph on disk and on the wire. This file is the document of the format.
#
# One Graph, in Cap'n Proto's canonical form (one segment, no segment table, no trailing zeros): equal
# graphs are equal bytes, and the SHA-256 of the bytes is the graph's identity. Everything is linked by
# index; regions lie flat in one list; a message is 64 MiB at most, and larger constants stand outside
# as chunks of at most 1 MiB that are named by their own SHA-256.
#
# The message has the types of the graph's inputs only. All other types follow from them: a reader
# validates the graph, which infers them. Readers refuse a message that breaks a limit of
# ops/graph/limits.h or a rule below.
#
# A file (.leat) is, all integers little-endian:
#
#   offset  bytes
#        0  8      "LEATGRPH"
#        8  4      version of the file: 1
#       12  4      CRC-32C of all that follows
#       16  8      m: bytes of the message, a multiple of 8
#       24  8      c: number of chunks
#       32  m      the message
#              c times, in the order of their first use in the message:
#                  8    n: bytes of the chunk, 1 to 1 MiB
#                  n    its bytes
#                  0-7  zeros, up to a multiple of 8

@0x949cc2dda2084b49;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("leat::wire");

struct Graph {
  version @0 :UInt32;             # 1
  ops @1 :List(Text);             # "Conv", "leat.Read": those in use, ascending
  regions @2 :List(Region);       # [0] is the graph; a region stands after the one that holds it
}

struct Region {
  name @0 :Text;
  symbols @1 :List(Symbol);       # those of the inputs' types, in order of first use; then bounded ones
  inputs @2 :List(Value);         # values 0 to n-1
  nodes @3 :List(Node);           # each after its producers and what it waits for
  outputs @4 :List(UInt32);       # values
}

struct Symbol {
  name @0 :Text;
  bounded @1 :Bool;
  bound @2 :Int64;                # 0 unless bounded
}

struct Value {
  name @0 :Text;                  # may be empty
  kind @1 :UInt8;                 # 0 tensor, 1 rows, 2 resource, 3 token
  dtype @2 :UInt8;                # TensorProto.DataType of ONNX; 0: not known
  dims @3 :List(Dim);             # 8 at most
}

struct Dim {                      # a size: factor, or factor times a symbol
  factor @0 :Int64;
  symbol @1 :UInt32;              # 0: none; else the symbol's index + 1
}

struct Node {
  op @0 :UInt32;                  # index in Graph.ops
  inputs @1 :List(UInt32);        # values + 1, of the inputs or of nodes before; 0: absent
  # Each output that is wanted is the next value of the region; the others are not there.
  outputs @2 :List(Output);
  attrs @3 :List(Attr);           # ascending by name, each name once
  after @4 :List(UInt32);         # nodes before this one
  device @5 :Text;
  name @6 :Text;
  source @7 :UInt32;              # 0xffffffff: none
  firstRow @8 :Int64;
}

struct Output {
  wanted @0 :Bool;
  name @1 :Text;                  # may be empty
}

struct Attr {
  name @0 :Text;
  union {
    int @1 :Int64;
    float @2 :Float64;
    string @3 :Data;              # any bytes
    tensor @4 :Tensor;
    ints @5 :List(Int64);
    floats @6 :List(Float64);
    strings @7 :List(Data);
    region @8 :UInt32;            # index in Graph.regions: larger than this region's, used once. Graphs only
  }
}

struct Tensor {
  dtype @0 :UInt8;                # TensorProto.DataType
  dims @1 :List(Int64);
  union {
    inline @2 :Data;              # row-major, little-endian; a bool is a byte 0 or 1; 4096 bytes at most
    chunks @3 :List(Chunk);       # the same bytes cut every 1 MiB; more than 4096 bytes in all
  }
}

struct Chunk {
  sha256 @0 :Data;                # 32 bytes
  size @1 :UInt32;                # bytes
}
