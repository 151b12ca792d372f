"""Reference solvers: methods that the paper names or compares with, and that are never a default.

They are exported by `maxendnet.solvers`, and the tests compare the default solvers with them.
"""
