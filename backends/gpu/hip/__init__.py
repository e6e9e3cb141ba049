"""HIP, the interface to AMD's GPUs, through ctypes: the library (library.py), what a device is like (description.py),
its stream (stream.py), all of it together (device.py), calls from native code (calls.py)."""
