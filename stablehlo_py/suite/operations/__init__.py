"""Single operations at sizes where each takes its time: what finds the one op that is much slower than under a peer.

The sizes were fixed before anything was tuned for them. At the size `small`, long dimensions are cut (`cases.cut`).
"""
