#!/usr/bin/env python3
"""Says which dependencies are not as they should be: their licences, their sources, and crates that are there in two versions.

    scripts/check_dependencies.py

Needs cargo, and no network once dependencies are fetched. What is known of faults in crates, and updated each day, is asked elsewhere:

    cargo install cargo-deny --locked && cargo deny check advisories
"""

import json
import subprocess
import sys
from collections import defaultdict

#: Licences that let anybody use and pass on what is built from them.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

#: Crates of which others bring older versions too, and who does. A line goes when that crate has moved on.
TWICE = {
    "darling": "derive_builder 0.11, of clarabel",
    "darling_core": "derive_builder 0.11, of clarabel",
    "darling_macro": "derive_builder 0.11, of clarabel",
    "hashbrown": "petgraph, of prost-build; only to make the generated files",
    "itertools": "clarabel, and criterion for benches",
    "libloading": "tensorflow-sys-runtime, and nvml-wrapper",
    "miniz_oxide": "png, of resvg",
    "strsim": "derive_builder 0.11, of clarabel",
    "syn": "derive_builder 0.11, of clarabel, and newer macros",
    "thiserror": "clarabel",
    "thiserror-impl": "clarabel",
    "unicode-width": "miette, for messages about text files",
    "web-time": "clarabel, and indicatif; for browsers only",
}

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def metadata():
    """What cargo knows of all packages."""
    flags = ["--format-version", "1", "--locked", "--all-features"]
    return json.loads(subprocess.run(["cargo", "metadata", *flags], check=True, capture_output=True, text=True).stdout)


def is_allowed(expression):
    """Whether a licence, as SPDX writes it, leaves a choice that is allowed: `A OR B`, `(A OR B) AND C`, and `A/B` of older crates."""
    parts = [part.split(" OR ") for part in expression.replace("/", " OR ").split(" AND ")]
    return all(any(name.strip(" ()") in ALLOWED for name in choice) for choice in parts)


def complaints(packages):
    """What is not as it should be, in words."""
    versions = defaultdict(set)
    for package in packages:
        name, source = package["name"], package["source"]
        versions[name].add(package["version"])
        if source is None:
            continue
        if source != REGISTRY:
            yield f"{name} comes from {source}"
        if not is_allowed(package["license"] or "none"):
            yield f"{name} has the licence {package['license']}"
    for name, several in sorted(versions.items()):
        if len(several) > 1 and name not in TWICE:
            yield f"{name} is there as {' and '.join(sorted(several))}"
        if len(several) == 1 and name in TWICE:
            yield f"{name} is there but once: take it from the list in this script"


def main():
    found = list(complaints(metadata()["packages"]))
    for complaint in found:
        print(f"check_dependencies.py: {complaint}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
