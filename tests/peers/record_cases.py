"""Writes tests/ops/records/: tar archives of Python's tarfile, and records of TensorFlow.

    python tests/peers/record_cases.py tests/ops/records

The tests know what is in them.
"""

import io
import pathlib
import sys
import tarfile

import tensorflow

LONG = "a-folder-with-a-long-name/" * 9 + "sample-000001"


def write_tar(path, form):
    with tarfile.open(path, "w", format=form, bufsize=512) as archive:
        for name, content in [
            ("0000.jpg", b"picture 0"),
            ("0000.cls", b"3"),
            (LONG + ".seg.png", b"picture 1"),
            (LONG + ".cls", b"12"),
            ("empty.txt", b""),
        ]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        last = tarfile.TarInfo("last.cls")
        last.size = 513
        archive.addfile(last, io.BytesIO(b"x" * 513))
    # The fill of 10 KiB says nothing.
    content = path.read_bytes()
    path.write_bytes(content.rstrip(b"\0") + b"\0" * (-len(content.rstrip(b"\0")) % 512 + 1024))


def write_records(path):
    train = tensorflow.train
    with tensorflow.io.TFRecordWriter(str(path)) as writer:
        for row in range(4):
            features = {
                "image": train.Feature(bytes_list=train.BytesList(value=[b"picture %d" % row, b"more"][: 1 + row % 2])),
                "label": train.Feature(int64_list=train.Int64List(value=[row * 1000 - 1])),
                "box": train.Feature(float_list=train.FloatList(value=[row + 0.5, -1e-30, 3e38])),
                "many": train.Feature(int64_list=train.Int64List(value=[0, -(2**63), 2**63 - 1])),
                "none": train.Feature(),
            }
            writer.write(train.Example(features=train.Features(feature=features)).SerializeToString())
        writer.write(b"")


folder = pathlib.Path(sys.argv[1])
write_tar(folder / "gnu.tar", tarfile.GNU_FORMAT)
write_tar(folder / "pax.tar", tarfile.PAX_FORMAT)
write_records(folder / "examples.tfrecord")
