"""Images with classes, made into examples of the ImageNet layout."""

import functools
import pathlib

import tensorflow as tf

from .shards import bytes_feature, int64_feature
from .sources import IMAGES, BadSource, files, folder, is_jpeg, pixels

LIST = "list.txt"
JPEG_QUALITY = 95  # of what is no JPEG yet


def examples(options):
    """A function for each example, and the text files that go with them."""
    directory = folder(options.images)
    if options.first_class < 0:
        raise BadSource(f"--first-class {options.first_class}: expected 0 or more")
    if (directory / LIST).is_file():
        entries, names = listed(directory / LIST), {}
    else:
        entries, names = in_folders(directory, options.first_class)
    notes = {"classes.txt": "".join(f"{label} {name}\n" for label, name in names.items())} if names else {}
    makers = [functools.partial(example, path, label, names.get(label, str(label))) for path, label in entries]
    return makers, notes


def in_folders(directory, first):
    """Images and classes, and the classes' names."""
    folders = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not folders:
        raise BadSource(f"{directory}: neither folders, one for each class, nor {LIST}")
    entries, names = [], {}
    for label, each in enumerate(folders, first):
        found = files(each, IMAGES)
        if not found:
            raise BadSource(f"{each}: no images ({', '.join(IMAGES)}) of this class")
        entries += [(path, label) for path in found]
        names[label] = each.name
    return entries, names


def listed(path):
    """The images and classes of a list."""
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal():
            raise BadSource(f"{path}:{number}: expected 'IMAGE CLASS', the class a number from 0, not '{line.strip()}'")
        image = path.parent / name.strip()
        if not image.is_file():
            raise BadSource(f"{path}:{number}: no such image: {image}")
        entries.append((image, int(label)))
    return entries


def example(path, label, name):
    """The features of an image, under the names that TensorFlow's own ImageNet records have."""
    data = pathlib.Path(path).read_bytes()
    image = pixels(path, data)
    if not is_jpeg(data):
        data = tf.io.encode_jpeg(image, quality=JPEG_QUALITY).numpy()
    height, width, channels = image.shape
    return {
        "image/encoded": bytes_feature(data),
        "image/format": bytes_feature(b"JPEG"),
        "image/colorspace": bytes_feature(b"RGB"),
        "image/channels": int64_feature(channels),
        "image/height": int64_feature(height),
        "image/width": int64_feature(width),
        "image/filename": bytes_feature(path.name.encode()),
        "image/class/label": int64_feature(label),
        "image/class/text": bytes_feature(name.encode()),
    }
