"""Writes tests/ops/image_references.npz: images that torchvision has changed, for image_test.cc.

    python tests/peers/transform_references.py [OUT.npz]

Needs torch, torchvision and numpy. Each array but x is named STEP=VALUE, as leat.AugmentImages has
them (ops/definitions/image.h); resize=H,W,MODE is of the op Resize.
"""
import math
import sys

import numpy as np
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

NEAREST = InterpolationMode.NEAREST


def shear(x, along_x, along_y):
    degrees = [math.degrees(math.atan(along_x)), math.degrees(math.atan(along_y))]
    return F.affine(x, angle=0.0, translate=[0, 0], scale=1.0, shear=degrees,
                    interpolation=NEAREST, fill=None, center=[0, 0])


def translate(x, right, down):
    return F.affine(x, angle=0.0, translate=[right, down], scale=1.0, shear=[0.0, 0.0],
                    interpolation=NEAREST, fill=None)


def changed(x):
    out = {}
    for value in (0.4, 1.7):
        out[f'brightness={value}'] = F.adjust_brightness(x, value)
        out[f'contrast={value}'] = F.adjust_contrast(x, value)
        out[f'saturation={value}'] = F.adjust_saturation(x, value)
        out[f'sharpness={value}'] = F.adjust_sharpness(x, value)
    for value in (-0.4, 0.07):
        out[f'hue={value}'] = F.adjust_hue(x, value)
    for value in (1, 4):
        out[f'posterize={value}'] = F.posterize(x, value)
    for value in (0.71,):
        out[f'solarize={value}'] = F.solarize(x, value)
    out['auto_contrast=0'] = F.autocontrast(x)
    out['equalize=0'] = F.equalize(x)
    for value in (-0.21, 0.3):
        out[f'shear_x={value}'] = shear(x, value, 0.0)
        out[f'shear_y={value}'] = shear(x, 0.0, value)
    for value in (-3, 2):
        out[f'translate_x={value}'] = translate(x, value, 0)
        out[f'translate_y={value}'] = translate(x, 0, value)
    for value in (-27.0, 9.0):
        out[f'rotate={value}'] = F.rotate(x, value, interpolation=NEAREST, fill=None)
    for mode in ('bilinear', 'bicubic', 'nearest-exact'):
        for height, width in ((7, 5), (23, 17)):
            out[f'resize={height},{width},{mode}'] = F.resize(
                x, [height, width], InterpolationMode(mode), antialias=True)
    return out


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else 'tests/ops/image_references.npz'
    rng = np.random.default_rng(7)
    # Noise, with gray, black and white corners.
    x = rng.random((3, 24, 21), dtype=np.float32)
    x[:, :6, :6] = x[:1, :6, :6]
    x[:, 20:, :4] = 0
    x[:, 20:, 4:8] = 1
    image = torch.from_numpy(x)
    arrays = {'x': x}
    for name, y in changed(image).items():
        arrays[name] = y.numpy().astype(np.float32)
    gray = image[:1]
    arrays['gray:contrast=1.3'] = F.adjust_contrast(gray, 1.3).numpy()
    arrays['gray:equalize=0'] = F.equalize(gray).numpy()
    np.savez(path, **arrays)
    print(path, len(arrays), 'arrays')


main()
