"""``python -m maxendnet`` is the command ``maxendnet``."""

from maxendnet.cli import main

main(prog_name="maxendnet")
