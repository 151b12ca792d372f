"""Check that at least 95 % of the public names have complete types, as type checkers of users see them.

basedpyright infers no types of packages without annotations, such as scikit-learn. maxendnet/utils/scikit_learn.py
declares those that our classes inherit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

FLOOR = 0.95
ROOT = Path(__file__).parents[1]


def main() -> int:
    command = [Path(sys.executable).with_name("basedpyright"), "--pythonpath", sys.executable, "--ignoreexternal"]
    # the editable installation is an import hook, which type checkers do not see
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*command, "--verifytypes", "maxendnet", "--outputjson"], capture_output=True, text=True, env=environment
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    incomplete = [symbol for symbol in report["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    score = report["completenessScore"]
    if score < FLOOR:
        for symbol in incomplete:
            reasons = {line["message"].splitlines()[0] for line in symbol["diagnostics"]}
            print(f"{symbol['name']}: {'; '.join(sorted(reasons))}")
    print(f"types: {score:.1%} of the public names are complete, at least {FLOOR:.0%} expected")
    return int(score < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
