"""What drivers of GPUs have in common, whatever their functions are called: the library (library.py), the order of work
(queue.py), memory that is used again (memory.py), devices by number (device.py), calls from native code (calls.py)."""
