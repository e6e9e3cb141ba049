"""Parts of the `symbolize` pass."""
