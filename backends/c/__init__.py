"""C99: a model as one portable file. Installed as `stablehlo_py.backends.c`."""
