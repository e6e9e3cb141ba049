"""Every op with every element type, run on any target, and what says the right results (docs/conformance.md)."""
