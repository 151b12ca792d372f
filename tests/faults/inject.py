"""Run operations that write files, with a fault at each of their writes, renames, syncs and truncations.

Run with `faults.c` preloaded; its compiled path is the first argument, the operations are the others. Prints JSON: the
number of cases and of results by operation, and a list of violations of these requirements:

- afterwards the file has its old content or the new one, and never anything else;
- an error is an `OSError` or `FolderError`, or of a command an exit code and a message without a traceback;
- the same operation succeeds afterwards, with the same result as without a fault, and leaves no temporary files.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from maxendnet import L2CRF, Examples, FolderError
from maxendnet.models import checkpoint
from maxendnet.models.checkpoint import Checkpoint
from maxendnet.solvers import LBFGS

FAULTS = ctypes.CDLL(sys.argv[1])
KINDS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "SIGKILL": -1}
X, Y = [np.eye(3), np.ones((2, 3)), np.eye(3)[::-1]], [["a", "b", "a"], ["b", "b"], ["a", "b", "b"]]
MODEL, OTHER = L2CRF(tol=0.1).fit(X, Y), L2CRF(tol=0.1, lam=5.0).fit(X, Y)
Checkpoint.__init__.__defaults__ = (60.0, None, lambda: 0.0)  # a checkpoint at every pass


def command(*arguments):
    """Run a command; its exit code and messages as an error."""
    from maxendnet.cli import main

    sys.argv = ["maxendnet", *map(str, arguments)]
    messages, code = io.StringIO(), 0
    with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as error:
            code = error.code
    if code:
        raise CommandError(f"{code}: {messages.getvalue()}")


class CommandError(Exception):
    pass


class Operation:
    """An operation on a folder: what is there before, what it does, and the content of its result."""

    def before(self, folder):
        pass

    def run(self, folder):
        raise NotImplementedError

    def content(self, folder):
        """Return the content that counts, or None if there is none."""
        return next((path.read_bytes() for path in folder.glob("file*") if path.suffix != ".progress"), None)


class Save(Operation):
    def before(self, folder):
        OTHER.save(folder / "file.medn")

    def run(self, folder):
        MODEL.save(folder / "file.medn")


class WriteCheckpoint(Operation):
    """Passes 3 to 6 of a fit, whose checkpoint of pass 2 is there before."""

    def fit(self, folder, n):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = L2CRF(tol=1e-12, max_passes=n, random_state=0, solver=LBFGS())
            model.fit(X, Y, checkpoint=folder / "file", checkpoint_every=0)

    def before(self, folder):
        self.fit(folder, 2)

    def run(self, folder):
        self.fit(folder, 6)

    def content(self, folder):
        """The pass, because a checkpoint contains times."""
        return checkpoint.read_sealed(folder / "file", checkpoint.KIND).header["n_pass"]


class WriteFolder(Operation):
    def run(self, folder):
        Examples.write(folder / "examples", zip(X, Y))

    def content(self, folder):
        try:
            examples = Examples.open(folder / "examples")
        except FolderError:
            return None
        return len(examples), examples.X.toarray().tolist(), examples.y.tolist()


class AppendToFolder(WriteFolder):
    def before(self, folder):
        Examples.write(folder / "examples", zip(X, Y))

    def run(self, folder):
        if len(Examples.open(folder / "examples")) == len(X):
            Examples.append(folder / "examples", zip(X, Y))


class Labels(Operation):
    def before(self, folder):
        self.put(folder, "a.html")

    def run(self, folder):
        self.put(folder, "b.html")

    def put(self, folder, page):
        from maxendnet.web.labelling.label_file import LabelFile

        LabelFile(folder / "file.jsonl").put({"page": page, "labels": [[4, "price"]], "done": True})


class Train(Operation):
    """The command ``train``, on a model that is there before."""

    def before(self, folder):
        OTHER.save(folder / "file.medn")
        rows = [
            f"{word}\t{tag}\n" for word, tag in zip(["the", "dog", "sees", "the", "cat"], ["D", "N", "V", "D", "N"])
        ]
        folder.with_name("train.txt").write_text("\n".join(["".join(rows)] * 8))

    def run(self, folder):
        data = folder.with_name("train.txt")
        command("train", data, "-o", folder / "file.medn", "--lam", "1", "--dev", data)

    def content(self, folder):
        """The weights, because a model contains times."""
        from maxendnet.estimators.file import KIND
        from maxendnet.models.container import read_sealed

        arrays = read_sealed(folder / "file.medn", KIND).arrays
        return {name: array.tobytes() for name, array in arrays.items() if name != "trace"}


class Extract(Operation):
    """The command ``web extract`` on eight pages in four batches, which is resumed after a fault."""

    def __init__(self):
        from maxendnet.web.tool import stream
        from maxendnet.web.tool.toy import toy_pages

        self.home = Path(tempfile.mkdtemp())
        toy = toy_pages(n_sites=2, n_pages=4)
        toy.write(self.home / "pages")
        lines = [json.dumps({"page": x.page, "values": x.values}) for x in toy.labels]
        (self.home / "labels.jsonl").write_text("\n".join(lines))
        command("web", "train", self.home / "pages", self.home / "labels.jsonl", "-o", self.home / "shop.medn")
        pages = sorted((self.home / "pages").rglob("*.html"))
        for page in pages[4:]:
            page.unlink()
        stream.Options.__new__.__defaults__ = (*stream.Options.__new__.__defaults__[:-1], 2)

    def run(self, folder):
        command("web", "extract", self.home / "shop.medn", self.home / "pages", "-o", folder / "file.csv")


OPERATIONS = {
    "save": Save, "checkpoint": WriteCheckpoint, "folder write": WriteFolder, "folder append": AppendToFolder,
    "labels": Labels, "train": Train, "extract": Extract,
}  # fmt: skip


def forked(function, *arguments):
    """Run a function in a child process; return its result, or the number of the signal that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer = ["done", function(*arguments)]
        except (OSError, FolderError) as error:
            answer = ["refused", str(error)]
        except CommandError as error:
            answer = ["refused" if "Traceback" not in str(error) else "traceback", str(error)]
        except BaseException as error:
            answer = ["traceback", f"{type(error).__name__}: {error}"]
        FAULTS.fault_arm(b"", 0, 0)
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(answer) if answer else ["killed" if os.WTERMSIG(status) == signal.SIGKILL else "crash", ""]


def armed(operation, folder, number, kind):
    FAULTS.fault_arm(os.fsencode(folder), number, kind)
    operation.run(folder)
    return FAULTS.fault_calls()


def fresh(home, operation):
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "files"
    folder.mkdir(parents=True)
    operation.before(folder)
    return folder


def attack(name, home):
    """Inject all faults into an operation; return the counts of results, and the violations."""
    operation, counts, wrong = OPERATIONS[name](), Counter(), []
    folder = fresh(home, operation)
    old = operation.content(folder)
    kind, n_calls = forked(armed, operation, folder, 0, 0)
    assert kind == "done" and n_calls > 0, (name, kind, n_calls)
    new, names = operation.content(folder), sorted(path.name for path in folder.rglob("*"))
    for number in range(1, n_calls + 1):
        for fault, how in KINDS.items():
            folder = fresh(home, operation)
            result, message = forked(armed, operation, folder, number, how)
            counts[result] += 1
            where = f"{name}, {fault} at call {number} of {n_calls}: {result} {message}"
            if result in ("traceback", "crash") or (result == "killed") != (fault == "SIGKILL"):
                wrong.append(f"{where}: not a clear error")
            if result == "refused" and not any(word in message for word in ("No space left", "Input/output", "again")):
                wrong.append(f"{where}: the message does not state the reason")
            after = operation.content(folder)
            if not valid(operation, after, old, new):
                wrong.append(f"{where}: the content is neither the old nor the new one")
            again, message = forked(operation.run, folder)
            complete = again == "done" or (after == new and "already contains examples" in message)
            if not complete or operation.content(folder) != new:
                wrong.append(f"{where}: afterwards {again} {message}")
            if sorted(path.name for path in folder.rglob("*")) != names:
                wrong.append(f"{where}: files left {sorted(path.name for path in folder.rglob('*'))}")
    return {"cases": 3 * n_calls, **counts}, wrong


def valid(operation, after, old, new):
    if isinstance(operation, WriteCheckpoint):  # of any pass since the old one
        return old <= after <= new
    if isinstance(operation, Extract):  # complete batches, or the beginning of one that is repeated
        return after is None or new.startswith(after)
    return after in (old, new)


if __name__ == "__main__":
    os.environ["PYTHONFAULTHANDLER"] = "0"
    results, violations = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for operation in sys.argv[2:]:
            results[operation], wrong = attack(operation, Path(os.path.realpath(scratch)) / operation.replace(" ", "_"))
            violations += wrong
    print(json.dumps({"counts": results, "violations": violations}, indent=1))
