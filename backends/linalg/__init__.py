"""Programs as linalg on tensors, with arith, math, scf and tensor (docs/linalg.md)."""
