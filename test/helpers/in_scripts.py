"""What scripts for platforms of JAX's (platform_scripts.py) call when they run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable


def on_threads(work: Callable[[int], object], numbers: Iterable[int]) -> None:
    """work(number) on a thread for each, all at once; none may raise."""
    failures: list[tuple[int, str]] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # a thread would swallow it
            failures.append((number, repr(error)))

    threads = [threading.Thread(target=guarded, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def check_forked_child(*attempts: Callable[[], object]) -> None:
    """In a forked child each attempt raises an error that says so."""
    child = os.fork()
    if child == 0:
        for attempt in attempts:
            try:
                attempt()
            except Exception as error:  # JAX has several kinds
                if "forked child" not in str(error):
                    os._exit(2)
            else:
                os._exit(1)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def check_element_types() -> None:
    """Arrays of every element type, and strided ones, come to the default device and back."""
    import jax
    import ml_dtypes
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    numbers = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
    narrow = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4)
    for dtype in (bool, *numbers, *narrow):
        for shape in ((), (3,), (0, 2), (2, 3)):
            x = np.ones(shape, dtype)
            y = jax.device_put(x)
            assert (y.dtype, y.shape) == (x.dtype, x.shape)
            assert np.asarray(y).tobytes() == x.tobytes()
    strided = np.arange(24).reshape(2, 3, 4)[:, ::2, ::-1]
    assert (np.asarray(jax.device_put(strided)) == strided).all()
