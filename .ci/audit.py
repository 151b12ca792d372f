"""Check the packages of requirements.lock for known vulnerabilities, and the licences of what users install.

Usage: python .ci/audit.py [--without-vulnerabilities]

A package that pip-audit could not look up is a failure, like a vulnerability: "no known vulnerabilities" means nothing
if no package was checked. The list of components (SBOM, CycloneDX) is written to build/audit/sbom.json.
"""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
FOLDER = ROOT / "build/audit"
PERMISSIVE = re.compile(r"\b(BSD|MIT|Apache|ISC|PSF|Python-2|HPND|Zlib|0BSD|Unlicense|CC0|MPL|CNRI)", re.IGNORECASE)
"""Licences that allow every use; MPL is weak copyleft by file, and tqdm offers it beside MIT."""


def run(*command: str | Path, stdin: str | None = None) -> str:
    done = subprocess.run(list(map(str, command)), input=stdin, capture_output=True, text=True)
    if done.returncode and not done.stdout:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def vulnerabilities() -> list[str]:
    """Return a complaint for each package that has a known vulnerability or was not checked."""
    report = json.loads(
        run(TOOLS / "pip-audit", "--require-hashes", "--disable-pip", "--format", "json", "--requirement",
            ROOT / "requirements.lock")
    )  # fmt: skip
    packages = report["dependencies"]
    complaints = [f"{p['name']} was not checked: {p['skip_reason']}" for p in packages if "skip_reason" in p]
    complaints += [
        f"{p['name']} {p['version']}: {', '.join(v['id'] for v in p['vulns'])}" for p in packages if p.get("vulns")
    ]
    if not packages:
        complaints.append("pip-audit reported no package")
    print(f"vulnerabilities: {len(packages)} packages, {len(complaints)} with a vulnerability or not checked")
    return complaints


def locked(*groups: str) -> list[str]:
    """Return the requirements of groups of pyproject.toml with all their dependencies, as name==version."""
    wanted = run(sys.executable, ROOT / ".ci/requirements.py", *groups)
    options = ("--no-header", "--no-annotate", "--quiet", "--constraint", ROOT / "requirements.lock")
    return run(TOOLS / "uv", "pip", "compile", "-", *options, stdin=wanted).split()


def licence_of(name: str) -> str:
    """Return the licence that an installed package declares."""
    about = distribution(name).metadata
    classifiers = [line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    text = about.get("License-Expression") or "; ".join(classifiers) or about.get("License") or ""
    return text.splitlines()[0] if text else "unknown"


def licences(packages: list[str]) -> list[str]:
    """Print the licence of each package, and return a complaint for each that is not permissive or unknown."""
    complaints = []
    for package in packages:
        name = package.split("==")[0]
        try:
            licence = licence_of(name)
        except PackageNotFoundError:
            licence = "not installed"
        print(f"  {package:32} {licence}")
        if not PERMISSIVE.search(licence):
            complaints.append(f"the licence of {name} is {licence}")
    return complaints


def write_components(packages: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "sbom.json"
    (FOLDER / "packages.txt").write_text("\n".join(packages))
    command = (TOOLS / "cyclonedx-py", "requirements", FOLDER / "packages.txt", "--pyproject", ROOT / "pyproject.toml")
    run(*command, "--output-reproducible", "--output-file", path)
    components = json.loads(path.read_text())["components"]
    if len(components) != len(packages):
        sys.exit(f"{path} has {len(components)} components, expected {len(packages)}")
    print(f"components: {len(components)} packages in {path.relative_to(ROOT)}")


def main() -> int:
    packages = locked("core")
    print(f"licences: {len(packages)} packages that users install")
    complaints = licences(packages)
    write_components(packages)
    if "--without-vulnerabilities" not in sys.argv:
        complaints += vulnerabilities()
    for complaint in complaints:
        print(complaint)
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
