"""OpenCL through ctypes: the library (library.py), what a device is like (description.py), its queue (queue.py), its
memory (memory.py), and all of it together (device.py)."""
