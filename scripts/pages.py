"""Pages that a script writes parts of: what stands between its marks is its own, all else stays."""

from pathlib import Path

END = "<!-- to here -->\n"


def begin(script, part=None):
    """The line above what `script` writes; `part` tells several such places on a page apart."""
    return f"<!-- scripts/{script} writes {part + ' ' if part else ''}from here -->\n"


def read(path, script, part=None):
    """What stands between the marks of a page."""
    return Path(path).read_text().partition(begin(script, part))[2].partition(END)[0]


def write(path, script, text, part=None):
    """Puts the text between the marks of a page."""
    page = Path(path).read_text()
    before, found, rest = page.partition(begin(script, part))
    _, found_end, after = rest.partition(END)
    if not (found and found_end):
        raise SystemExit(f"{script}: {path} has no place for {part or 'the table'}: {begin(script, part).strip()}")
    Path(path).write_text(before + found + text + found_end + after)
