"""Parts of the `infer-symbolic-shapes` pass."""
