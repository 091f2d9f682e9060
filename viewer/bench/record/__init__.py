"""`luxel bench record`: the complete protocol on one commit, and the documents that are generated from it.

part.py      What a part of the protocol is: a name, a table, and a function that returns its rows.
parts/       The parts, one file per topic; `parts.PARTS` lists them in the order in which they run.
tables.py    The tables of docs/results.md: which columns they have and how numbers are written.
store.py     results.json: reading, checking, merging, writing.
run.py       Runs the parts that are not done yet, one after another.
document.py  docs/results.md and the table of the README as a pure function of results.json.
"""
