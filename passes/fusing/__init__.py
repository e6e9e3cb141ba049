"""The analysis behind the `fusion` pass: a light graph of one block, clusters of its ops, and their outlining."""
