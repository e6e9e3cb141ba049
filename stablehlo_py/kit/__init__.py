"""The kit for new hardware: what `shlo-new-backend` writes (docs/adding-a-backend.md)."""
