"""Images per second of one core: leat's image folder beside PyTorch's DataLoader with torchvision.

    python tests/peers/image_pipeline.py build/release/bin/image_benchmark

Both read the same JPEG files, draw a random resized crop of 224x224 and a flip, and normalize to floats. Time is that
of the CPU (user and system, one thread), so that other programs on the machine change little. The files are parts of
the two photographs that scikit-learn has, at the size and quality of ImageNet's.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torchvision
from PIL import Image
from sklearn.datasets import load_sample_images
from torchvision import transforms
from torchvision.transforms import v2

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SECONDS = 5.0


def write_images(folder, count=200):
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    random = numpy.random.default_rng(1)
    for number in range(count):
        photograph = photographs[number % 2]
        factor = random.uniform(0.8, 1.6)
        width, height = (500, 375) if random.random() < 0.7 else (375, 500)
        source = photograph.resize((int(photograph.width * factor) + 180, int(photograph.height * factor) + 180))
        x, y = random.integers(0, source.width - width), random.integers(0, source.height - height)
        place = folder / ("china" if number % 2 == 0 else "flower")
        place.mkdir(exist_ok=True)
        source.crop((x, y, x + width, y + height)).save(place / f"{number:04}.jpg", quality=90, subsampling="4:2:0")


def rate_of(loader):
    """Images per second of CPU time."""
    images, begin = 0, None
    while True:
        for batch, _ in loader:
            if begin is None:  # the first batch warms up
                begin = time.process_time()
                continue
            images += len(batch)
            if time.process_time() - begin > SECONDS:
                return images / (time.process_time() - begin)


def with_pillow(folder):
    steps = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION),
    ])
    return torchvision.datasets.ImageFolder(folder, steps)


def with_tensors(folder):
    steps = v2.Compose([
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, DEVIATION),
    ])
    read = lambda path: torchvision.io.decode_jpeg(torchvision.io.read_file(path), mode=torchvision.io.ImageReadMode.RGB)
    return torchvision.datasets.ImageFolder(folder, steps, loader=read)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder)
        rates = {}
        for what, make in [("PyTorch, Pillow", with_pillow), ("PyTorch, tensors", with_tensors)]:
            rates[what] = rate_of(torch.utils.data.DataLoader(make(folder), batch_size=50, shuffle=True))
        leat = json.loads(subprocess.run([sys.argv[1], name, str(SECONDS)], check=True, capture_output=True, text=True).stdout)
    for what, rate in rates.items():
        print(f"{what:34} {rate:8.0f} images/s")
    print(f"{'leat, image folder':34} {leat['pipeline']:8.0f} images/s")
    print(f"{'libjpeg-turbo, whole, and resize':34} {leat['decode_and_resize']:8.0f} images/s")
    print(f"{'libjpeg-turbo, whole':34} {leat['decode']:8.0f} images/s")
    print(f"leat / PyTorch's best {leat['pipeline'] / max(rates.values()):.2f}, "
          f"leat / bare {leat['pipeline'] / leat['decode_and_resize']:.2f}")


main()
