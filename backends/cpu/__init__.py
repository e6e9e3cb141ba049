"""The CPU backend: see backend.py for its table of contents."""
