"""Print pip constraints that hold every package at the lowest version that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

about = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
lists = [about["build-system"]["requires"], about["project"]["dependencies"]]
lists += about["project"]["optional-dependencies"].values()
bounds = {re.fullmatch(r"([\w.-]+)>=([\w.]+)", line) for wanted in lists for line in wanted}
print(*sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound}), sep="\n")
