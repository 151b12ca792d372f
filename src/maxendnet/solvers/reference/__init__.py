"""Reference solvers: methods that the paper mentions or compares with. None of them is ever a default.

They are exported by `maxendnet.solvers`. The tests compare the default solvers with them.
"""
