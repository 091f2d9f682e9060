"""`luxel bench strangers`: quality on captures that are made from a seed, so that nothing can be tuned to them.

made.py      The captures: how each is written, and what is trained on it.
methods.py   The trainings: kinds of scenes with their presets, and gsplat's.
run.py       Writes captures and trains them, the most informative first, within a budget of time.
trained.py   One training: the command as a user gives it, in a process of its own, and what it wrote.
mesh.py      Distances of extracted meshes to the exact solid.
promises.py  What luxel promises of its presets and kinds of scenes, and where it does not hold.
report.py    Tables of the report.
"""
