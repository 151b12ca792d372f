"""Build the source distribution and wheels into dist/, and check them as a user meets them.

Usage: python .ci/wheels.py [--python PATH ...] [--twice]

One wheel is built from the source distribution for each interpreter: a wheel of the stable ABI by Python 3.12 or newer,
and one for 3.11 by 3.11. Each is repaired and checked by auditwheel, checked by abi3audit, and installed in a fresh
environment in which no compiler can be found. There it runs the first example of the README. With --twice, everything
is built twice, and the two builds must have equal hashes.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
MAX_BYTES = 6_000_000
MAX_SECONDS = 60
LIBRARIES = {"_bindings", "libmaxendnet_baseline", "libmaxendnet_avx2"}
"""Compiled files of a wheel for x86-64."""
SUFFIXES = {".py", ".pyi", ".typed", ".so", ".dll", ".pyd", ".html", ".js", ".css", ".json", ".txt", ".svg"}
"""Suffixes of files in wheels."""


def run(*command, **options):
    """Run a command, and return its output and its seconds."""
    began = time.perf_counter()
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr, time.perf_counter() - began


def build(pythons, folder):
    """Build the source distribution and, from it, the wheels. Return their paths."""
    folder.mkdir(parents=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    for python in pythons:
        raw = folder / "raw"
        _, seconds = run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", raw, sdist)
        (wheel,) = raw.glob("*.whl")
        print(f"built {wheel.name} in {seconds:.0f} s")
        if sys.platform == "linux":
            environment = os.environ | {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
            run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, env=environment)
        else:
            shutil.copy(wheel, folder)
        shutil.rmtree(raw)
    return [sdist, *sorted(folder.glob("*.whl"))]


def check_sdist(path):
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "src/maxendnet/kernels/common/level.cpp"}
    problems = [f"{name} is missing" for name in sorted(needed - names)]
    problems += [f"{name} does not belong there" for name in sorted(names) if name.endswith((".so", ".pyc", ".medn"))]
    report(path, problems)


def check_wheel(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
        dates = {entry.date_time for entry in archive.infolist()}
    code = [name for name in names if ".dist-info/" not in name and not name.endswith("/")]
    compiled = {Path(name).name.split(".")[0] for name in code if name.endswith((".so", ".pyd", ".dll"))}
    problems = [f"{name} does not belong there" for name in code if not name.startswith("maxendnet/")]
    problems += [f"{name} does not belong there" for name in code if Path(name).suffix not in SUFFIXES]
    problems += [f"{name} is missing" for name in ("maxendnet/py.typed", "maxendnet/_kernels.pyi") if name not in names]
    if not any(name.endswith("licenses/LICENSE") for name in names):
        problems.append("the licence is missing")
    if "x86_64" in path.name and compiled != LIBRARIES:
        problems.append(f"the compiled files are {sorted(compiled)}, expected {sorted(LIBRARIES)}")
    if "Requires-Python: >=3.11" not in metadata:
        problems.append("Requires-Python is not >=3.11")
    if path.stat().st_size > MAX_BYTES:
        problems.append(f"it has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} expected")
    if "SOURCE_DATE_EPOCH" in os.environ and len(dates) > 1:
        problems.append("its files have several dates")
    report(path, problems)
    if sys.platform == "linux":
        text, _ = run(sys.executable, "-m", "auditwheel", "show", path)
        print("  auditwheel:", re.search(r'platform tag:\s*"(\w+)"', " ".join(text.split()))[1])
    if "abi3" in path.name:
        text, _ = run(TOOLS / "abi3audit", "--strict", "--verbose", path)
        result = re.search(r"\d+ ABI version mismatches and \d+ ABI violations", " ".join(text.split()))
        print("  abi3audit:", result[0])


def report(path, problems):
    if problems:
        sys.exit(f"{path.name}: " + "; ".join(problems))
    print(f"{path.name}: {path.stat().st_size:,} bytes, SHA-256 {digest(path)[:16]}")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(python, wheel):
    """Install a wheel in a fresh environment without a compiler, and run the first example of the README."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    expected = [line.split("  # ")[1] for line in example.splitlines() if line.startswith("print(")]
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        run(python, "-m", "venv", venv)
        environment = {"PATH": str(venv / "bin"), "HOME": folder, "CC": "none", "CXX": "none"}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip = [venv / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--only-binary=:all:"]
        _, seconds = run(*pip, wheel, env=environment)
        code = "import time; t = time.perf_counter(); from maxendnet import M3N; print(time.perf_counter() - t)"
        run(venv / "bin/python", "-c", code, env=environment, cwd=folder)  # compiles to bytecode
        imported, _ = run(venv / "bin/python", "-c", code, env=environment, cwd=folder)
        output, example_seconds = run(venv / "bin/python", "-c", example, env=environment, cwd=folder)
        version, _ = run(venv / "bin/python", "--version", env=environment)
    if output.split("\n")[:-1] != expected:
        sys.exit(f"the example of the README printed {output!r}, expected {expected}")
    total = seconds + example_seconds
    times = f"installed in {seconds:.1f} s, imported in {float(imported):.2f} s, example in {example_seconds:.1f} s"
    print(f"  {version.strip()}: {times}")
    if total > MAX_SECONDS:
        sys.exit(f"installation and example took {total:.0f} s, at most {MAX_SECONDS} expected")


def supports(python, wheel):
    """Whether an interpreter can install a wheel of this folder."""
    text, _ = run(python, "-c", "import sys; print(*sys.version_info[:2])")
    version = tuple(map(int, text.split()))
    return version == (3, 11) if "cp311" in wheel.name else version >= (3, 12)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="interpreter to build with; repeat for several")
    parser.add_argument("--install", action="append", default=[], help="further interpreter to install the wheels with")
    parser.add_argument("--twice", action="store_true", help="build twice, and compare")
    arguments = parser.parse_args()
    pythons = arguments.python or [sys.executable]
    if arguments.twice:
        os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800")
    shutil.rmtree(DIST, ignore_errors=True)
    files = build(pythons, DIST)
    check_sdist(files[0])
    for wheel in files[1:]:
        check_wheel(wheel)
        for python in dict.fromkeys([*pythons, *arguments.install]):
            if supports(python, wheel):
                install(python, wheel)
    if arguments.twice:
        with tempfile.TemporaryDirectory() as folder:
            again = build(pythons, Path(folder) / "dist")
            differing = [a.name for a, b in zip(files, again) if digest(a) != digest(b)]
        if differing:
            sys.exit(f"a second build differs in {', '.join(differing)}")
        print("a second build has equal hashes")


if __name__ == "__main__":
    main()
