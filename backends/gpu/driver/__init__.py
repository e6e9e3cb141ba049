"""What drivers of GPUs have in common, whatever their functions are called: the library (library.py), the order of work
(queue.py), memory that is used again (memory.py), devices by number (device.py), calls from native code (calls.py). Of
those whose work is in streams, CUDA's and HIP, also the functions (stream_library.py), the stream and what is loaded
(stream.py), its memory (stream_memory.py) and calls (stream_calls.py)."""
