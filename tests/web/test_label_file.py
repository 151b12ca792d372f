import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from maxendnet.web.fields.labels import LabelError, read_labels
from maxendnet.web.labelling.label_file import LabelFile


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_other_lines_and_other_keys_are_preserved(tmp_path):
    path = tmp_path / "labels.jsonl"
    first = '{"page":"b.html",   "values":{"price":"5 €"}}'
    path.write_text(
        "\ufeff" + first + '\n\n{"page": "a.html", "values": {"price": "6"}, "by": "Ann"}\n', encoding="utf-8"
    )
    LabelFile(path).put({"page": "a.html", "labels": [[3, "price"]], "done": True})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == first
    assert json.loads(lines[1]) == {"page": "a.html", "by": "Ann", "labels": [[3, "price"]], "done": True}


def test_lines_written_by_other_programs_are_preserved(tmp_path):
    path = tmp_path / "labels.jsonl"
    file = LabelFile(path)
    file.put({"page": "a.html", "labels": []})
    with open(path, "a") as text:
        text.write('{"page": "c.html", "values": {"price": "7"}}\n')
    file.put({"page": "a.html", "labels": [[2, "price"]]})
    assert [x.page for x in file.read()] == ["a.html", "c.html"]


@pytest.mark.parametrize("text", ['{"page": "a.html"', '{"page": "a.html"}\n{"page": "a.html"}\n', "[]\n", "\udcff"])
def test_a_damaged_file_is_reported_and_unchanged(tmp_path, text):
    path = tmp_path / "labels.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LabelError, match=r"labels\.jsonl"):
        LabelFile(path).put({"page": "b.html", "labels": []})
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_training_skips_pages_in_progress(tmp_path):
    file = LabelFile(tmp_path / "labels.jsonl")
    file.put({"page": "a.html", "labels": [[1, "price"]], "done": False})
    file.put({"page": "b.html", "labels": [[1, "price"]], "done": True})
    assert [x.page for x in read_labels(file.path)] == ["b.html"]


def test_concurrent_changes(tmp_path):
    file = LabelFile(tmp_path / "labels.jsonl")
    threads = [
        threading.Thread(target=lambda i=i: file.put({"page": f"{i}.html", "labels": [[i, "x"]]})) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row["labels"][0][0] for row in rows(file.path)) == list(range(12))


def test_the_file_is_complete_after_a_kill(tmp_path):
    path = tmp_path / "labels.jsonl"
    script = (
        "import sys; from pathlib import Path; from maxendnet.web.labelling.label_file import LabelFile\n"
        "file, n = LabelFile(Path(sys.argv[1])), 0\n"
        "while True:\n"
        "    n += 1; file.put({'page': f'{n % 50}.html', 'labels': [[n, 'x']] * 200}); print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    reported = [int(process.stdout.readline()) for _ in range(60)]
    os.kill(process.pid, signal.SIGKILL)
    reported += [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    nodes = {row["page"]: row["labels"][0][0] for row in rows(path)}
    assert len(nodes) == 50 and max(nodes.values()) >= reported[-1]  # every reported save is in the file
