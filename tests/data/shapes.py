"""Makes a small data set that can be learned: discs, squares and stripes of three colours on noise.

    shapes.py OUT COUNT SIZE

writes OUT/classes/NAME/N.jpg, a folder for each of the three shapes; OUT/images/N.jpg with OUT/masks/N.png, whose
classes are 0 for the noise and 1 to 3 for the shapes, with pixels that do not count around them; and OUT/volumes/N.npy
with OUT/truths/N.npy, a ball in noise.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

NAMES = ["disc", "square", "stripe"]
COLOURS = np.array([[230, 40, 40], [40, 230, 40], [40, 40, 230]])
IGNORED = 255


def shape(kind, size, random):
    """Where a shape is in an image, at a random place."""
    y, x = np.mgrid[:size, :size]
    middle, reach = random.integers(size // 3, size - size // 3, 2), size // 4
    y, x = abs(y - middle[0]), abs(x - middle[1])
    return [np.hypot(y, x), np.maximum(y, x), y][kind] - reach


def picture(kind, size, random):
    """An image and its mask."""
    distance = shape(kind, size, random)
    image = random.integers(0, 160, [size, size, 3])
    image[distance <= 0] = COLOURS[kind] + random.integers(-20, 20, 3)
    mask = np.where(distance <= 0, kind + 1, 0)
    mask[(distance > 0) & (distance <= 1)] = IGNORED
    return np.clip(image, 0, 255).astype(np.uint8), mask.astype(np.uint8)[..., None]


def volume(size, random):
    """A ball of other brightness in noise, in four channels, and the truth of three classes."""
    z, y, x = np.mgrid[:size, :size, :size] - random.integers(size // 3, size - size // 3, 3)[:, None, None, None]
    ball = (np.sqrt(z * z + y * y + x * x) < size / 4).astype(np.float32)
    values = random.normal(size=[size, size, size, 4]).astype(np.float32) * 0.3 + ball[..., None]
    return values, np.stack([ball, ball, ball], -1)


def main(out, count, size):
    for name in ["images", "masks", "volumes", "truths", *[f"classes/{name}" for name in NAMES]]:
        (out / name).mkdir(parents=True)
    for number in range(count):
        random = np.random.default_rng(number)
        kind = number % len(NAMES)
        image, mask = picture(kind, size, random)
        jpeg = tf.io.encode_jpeg(image, quality=90).numpy()
        (out / f"classes/{NAMES[kind]}/{number}.jpg").write_bytes(jpeg)
        (out / f"images/{number}.jpg").write_bytes(jpeg)
        (out / f"masks/{number}.png").write_bytes(tf.io.encode_png(mask).numpy())
        if number % 4 == 0:
            values, truth = volume(16, random)
            np.save(out / f"volumes/{number}.npy", values)
            np.save(out / f"truths/{number}.npy", truth)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
