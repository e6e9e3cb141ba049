"""The analysis behind the `buffer-assignment` pass: live ranges, which values share memory, offsets in the arena,
and a checker."""
