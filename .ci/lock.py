"""Write requirements.lock: the packages of development and their dependencies, for all platforms, with hashes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
NAME = "requirements.lock"


def main() -> int:
    groups = subprocess.run(
        [sys.executable, ROOT / ".ci/requirements.py", "core", "build", "all", "test", "lint", "release", "dev"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade", "--quiet"]
    command = [TOOLS / "uv", "pip", "compile", "-", *options, "--no-header", "--no-annotate"]
    done = subprocess.run(command, input=groups.stdout, check=True, capture_output=True, text=True)
    title = "# Packages of development for Python 3.11 and newer, with hashes; written by `make lock`.\n"
    use = f"# Use: pip install --require-hashes -r {NAME}\n"
    (ROOT / NAME).write_text(title + use + done.stdout)
    print(f"{NAME}: {done.stdout.count('==')} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
