"""The pages of the examples show code that is in the examples, and flags that they take. Nothing is trained."""

import pathlib
import re
import textwrap

import pytest
from conftest import run_program

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "python" / "examples").glob("*.py"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_each_example_has_a_page_that_is_found():
    pages = sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.md") if path.stem != "README")
    assert pages == EXAMPLES
    for place in ("docs/examples/README.md", "docs/python.md"):
        linked = re.findall(r"\((?:examples/)?(\w+)\.md\)", (ROOT / place).read_text())
        assert set(EXAMPLES) <= set(linked), place


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_page_shows_what_is_in_its_example(example):
    page = ROOT / "docs" / "examples" / f"{example}.md"
    program = (ROOT / "python" / "examples" / f"{example}.py").read_text()
    shown = blocks(page, "python")
    assert len(shown) >= 3
    for code in shown:
        # Wherever it is indented.
        depths = [0, 4, 8, 12]
        assert any(f"\n{textwrap.indent(code, ' ' * depth)}" in program for depth in depths), code


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_page_has_flags_that_its_example_takes(example):
    page = ROOT / "docs" / "examples" / f"{example}.md"
    commands = [line for block in blocks(page, "") for line in block.splitlines() if line.startswith("python ")]
    assert any(f"{example}.py --" in command for command in commands)
    told = run_program(ROOT / "python" / "examples" / f"{example}.py", "--help").stdout
    for flag in {flag for command in commands for flag in re.findall(r"--[\w-]+", command)}:
        assert re.search(rf"{flag}\b", told), flag
