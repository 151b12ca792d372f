"""Check that prose and names use the field's usual words; see "How we write" in CONTRIBUTING.md.

Usage: python .ci/vocabulary.py [PATH ...]      the paths to check; the whole repository by default
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROSE = {".py", ".pyi", ".md", ".cpp", ".hpp", ".js", ".html"}
REPLACEMENTS = {
    r"(?<!none\s)(?<!each\s)(?<!either\s)(?<!all\s)\bof which\b": "split the sentence",
    r"\bthat (?:is|are) not known\b": "unknown",
    r"\bin the place of\b": "instead of",
    r"\bthat stands? for\b": "represents, replaces",
    r"\bso many\b": "at most n, n",
    r"\b(?:is|are) dear\b": "expensive",
    r"\bwhat (?:is|was) (?:wanted|asked)\b": "requested",
    r"\b(?:is|was|are|were|if) asked for\b": "requested",
    r"\btaken for the tru(?:e|th)\b": "used as the target",
    r"\bha(?:s|ve) no say\b": "does not affect",
    r"\b(?:is|are) no numbers?\b": "NaN",
    r"\b(?:is|are|of) alike\b": "equal, similar",
    r"\bof now\b": "current",
    r"\bsome (?:hundred|thousand|dozen|million)\b": "a few hundred",
    r"\bmak(?:es?|ing) up\b": "compute",
    r"\bmade up\b": "compute",
    r"\bis told\b": "detects, is given",
    r"\blooks? at the (?:fit|certificate|gap)\b": "evaluation",
    r"\bgo(?:es|ing)? on from\b": "resume from",
    r"\bto the same bits?\b": "bit-for-bit identical",
    r"\bthe ones? before (?:it|them)\b": "the previous one",
    r"\bone behind the other\b": "concatenated",
    r"\bat the door\b": "on input",
}
"""Phrases to avoid, and what to write instead."""
NAMES = {"found", "some", "made", "kept", "own", "told", "tried", "said"}
"""Words that do not say what a variable, function or attribute holds."""


def checked_files(arguments: list[str]) -> list[Path]:
    """Files under version control with prose or code, except this one."""
    listing = subprocess.run(["git", "ls-files", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.suffix in PROSE and path.exists() and path != Path(__file__).resolve()]


def phrases(text: str) -> list[tuple[int, str]]:
    """Line number and complaint for each phrase to avoid; a phrase may cross a line break."""
    joined = re.sub(r"\n[ \t]*(?:#|//|\*)?[ \t]*", lambda gap: "\n" + " " * (len(gap[0]) - 1), text)
    complaints = []
    for pattern, advice in REPLACEMENTS.items():
        for match in re.finditer(pattern.replace(" ", r"\s+"), joined, re.IGNORECASE):
            phrase = " ".join(match[0].split())
            complaints.append((joined.count("\n", 0, match.start()) + 1, f'"{phrase}": write "{advice}"'))
    return complaints


def names(text: str) -> list[tuple[int, str]]:
    """Line number and complaint for each identifier that does not say what it holds."""
    complaints = []
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name.strip("_") in NAMES:
                complaints.append((node.lineno, f"name `{name}`: say what it holds"))
    return complaints


def main(arguments: list[str]) -> int:
    count = 0
    for path in checked_files(arguments):
        text = path.read_text()
        complaints = phrases(text)
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src"):
            complaints += names(text)
        for line, complaint in sorted(complaints):
            print(f"{path.relative_to(ROOT)}:{line}: {complaint}")
        count += len(complaints)
    print(f"vocabulary: {count} {'place' if count == 1 else 'places'} to rewrite")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
