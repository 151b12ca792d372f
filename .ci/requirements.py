"""Print what pyproject.toml wants installed: `core`, `build`, or an extra such as `test`, with the extras it names."""

import re
import sys
import tomllib
from pathlib import Path

about = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
extras = about["project"]["optional-dependencies"]
groups = {**extras, "core": about["project"]["dependencies"], "build": about["build-system"]["requires"]}


def requirements(group: str) -> list[str]:
    """The lines of a group; a line that names extras of the project itself stands for theirs."""
    lines = []
    for line in groups[group]:
        named = re.fullmatch(r"maxendnet\[([\w,]+)\]", line)
        lines += [inner for extra in named[1].split(",") for inner in requirements(extra)] if named else [line]
    return lines


print(*dict.fromkeys(line for group in sys.argv[1:] for line in requirements(group)), sep="\n")
