"""Files of images and arrays to make records of."""

import pathlib

import tensorflow as tf

IMAGES = [".jpg", ".jpeg", ".png"]


class BadSource(Exception):
    """Files that no records can be made of."""


def folder(path):
    found = pathlib.Path(path)
    if not found.is_dir():
        raise BadSource(f"{path}: no such folder")
    return found


def files(directory, suffixes):
    """The files with one of the suffixes, in the order of their names. Hidden ones do not count."""
    found = [
        path
        for path in directory.iterdir()
        if path.is_file() and path.suffix.lower() in suffixes and not path.name.startswith(".")
    ]
    return sorted(found, key=lambda path: path.name)


def by_stem(directory, suffixes):
    """The files by their names without suffix; each name may be there once."""
    found = {}
    for path in files(directory, suffixes):
        if path.stem in found:
            raise BadSource(f"{path}: {found[path.stem].name} has the same name; which of them counts?")
        found[path.stem] = path
    if not found:
        raise BadSource(f"{directory}: no files {', '.join('*' + suffix for suffix in suffixes)} here")
    return found


def pairs(left, left_suffixes, right, right_suffixes, what, wanted=None):
    """The files of the left folder, all or those named in `wanted`, each with that of its name in the right one."""
    ours, partners = by_stem(folder(left), left_suffixes), by_stem(folder(right), right_suffixes)
    found = []
    for stem in ours if wanted is None else wanted:
        if stem not in ours:
            raise BadSource(f"{left}: no {stem} with suffix {' or '.join(left_suffixes)}")
        if stem not in partners:
            raise BadSource(f"{ours[stem]}: no {what} {stem}{right_suffixes[0]} in {right}")
        found.append((ours[stem], partners[stem]))
    return found


def is_jpeg(data):
    return data.startswith(b"\xff\xd8")


def is_png(data):
    return data.startswith(b"\x89PNG\r\n\x1a\n")


def pixels(path, data, channels=3):
    """An image's pixels."""
    if not is_jpeg(data) and not is_png(data):
        raise BadSource(f"{path}: neither JPEG nor PNG")
    try:
        return tf.io.decode_image(data, channels, expand_animations=False)
    except tf.errors.InvalidArgumentError as error:
        raise BadSource(f"{path}: cannot be decoded: {error.message.splitlines()[0]}") from None
