"""Libraries of the vendors, which a program uses where it is asked to and finds them: which products a library may
compute (match.py, epilogue.py), the choice that is made when a program is loaded (choice.py), how native code calls
what was chosen (plan.py, calls.py), and a file for each library (cublaslt.py)."""
