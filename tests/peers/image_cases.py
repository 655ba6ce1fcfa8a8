"""Writes tests/ops/images/: small images of every kind, and what Pillow makes of them.

    python tests/peers/image_cases.py tests/ops/images

references.npz has the pixels of each file (as RGB, and as Pillow's "L" of that where it says so), and results of
Image.resize() under names such as "resize bilinear 17x23". Those that begin with "floats" are of an image of Pillow's
mode F: the red of rgb.png divided by 255, and beyond both ends of that range in places. The tests read the files; they
need no Python.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy
from PIL import Image

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
SIZES = [(17, 23), (56, 33), (40, 9), (5, 30)]
BOXES = [(3, 2, 33, 21), (0.25, 1.5, 39.5, 28.75)]


def picture(width, height, seed=1):
    """Smooth colours with edges and noise, so that every filter and every rounding shows."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [127 + 120 * numpy.sin(x / (4.0 + c) + y / (7.0 - c)) for c in range(3)]
    image = numpy.stack(planes, axis=-1) + random.normal(0, 12, (height, width, 3))
    image[height // 3 : height // 2, width // 4 : width // 2] = [250, 3, 128]
    return Image.fromarray(numpy.clip(image, 0, 255).astype(numpy.uint8))


def encode(image, **how):
    out = io.BytesIO()
    image.save(out, **how)
    return out.getvalue()


def interlaced_png(image):
    """Adam7, which Pillow reads and does not write."""
    pixels = numpy.asarray(image)
    data = b""
    for y0, x0, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        for row in pixels[y0::dy, x0::dx]:
            if row.size:
                data += b"\0" + row.tobytes()

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def files():
    small, alpha = picture(40, 30), picture(40, 30).convert("RGBA")
    alpha.putalpha(Image.fromarray(numpy.tile(numpy.arange(40, dtype=numpy.uint8) * 6, (30, 1))))
    palette = picture(33, 21).quantize(16)
    gray16 = Image.fromarray(numpy.arange(20 * 12, dtype=numpy.uint16).reshape(12, 20) * 270)
    return {
        "420.jpg": encode(picture(51, 37), format="JPEG", quality=90, subsampling="4:2:0"),
        "422.jpg": encode(picture(51, 37), format="JPEG", quality=90, subsampling="4:2:2"),
        "444.jpg": encode(picture(51, 37), format="JPEG", quality=90, subsampling="4:4:4"),
        "progressive.jpg": encode(picture(51, 37), format="JPEG", quality=85, progressive=True),
        "gray.jpg": encode(small.convert("L"), format="JPEG", quality=90),
        "cmyk.jpg": encode(small.convert("CMYK"), format="JPEG", quality=90),
        "rgb.png": encode(small, format="PNG"),
        "rgba.png": encode(alpha, format="PNG"),
        "palette.png": encode(palette, format="PNG", transparency=3),
        "gray.png": encode(small.convert("L"), format="PNG"),
        "bits.png": encode(small.convert("1"), format="PNG"),
        "gray16.png": encode(gray16, format="PNG"),
        "interlaced.png": interlaced_png(small),
        "lossy.webp": encode(small, format="WEBP", quality=80),
        "lossless.webp": encode(alpha, format="WEBP", lossless=True, exact=True),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    arrays = {}
    for name, content in files().items():
        (folder / name).write_bytes(content)
        image = Image.open(io.BytesIO(content))
        if image.mode.startswith("I;16"):  # convert() would clip; the upper byte is what a viewer shows
            upper = (numpy.asarray(image) >> 8).astype(numpy.uint8)
            image = Image.fromarray(upper)
        arrays[name] = numpy.asarray(image.convert("RGB"))
    arrays["rgb.png L"] = numpy.asarray(Image.open(folder / "rgb.png").convert("L"))
    source = Image.open(folder / "rgb.png")
    for name, resample in FILTERS.items():
        for width, height in SIZES:
            arrays[f"resize {name} {width}x{height}"] = numpy.asarray(source.resize((width, height), resample))
        for number, box in enumerate(BOXES):
            arrays[f"box{number} {name} 21x26"] = numpy.asarray(source.resize((21, 26), resample, box=box))
        floats = numpy.asarray(source, numpy.float32)[:, :, 0] / numpy.float32(255)
        floats[3:9, 5:12] *= numpy.float32(-3)
        for width, height in SIZES:
            made = Image.fromarray(floats).resize((width, height), resample)
            arrays[f"floats {name} {width}x{height}"] = numpy.asarray(made)
        arrays[f"gray {name} 13x50"] = numpy.asarray(source.convert("L").resize((13, 50), resample))
    arrays = {name: numpy.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    numpy.savez(folder / "references.npz", **arrays)


main()
