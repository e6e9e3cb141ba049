"""Tools for wrong answers: engines to compare with, bisection, reduction, random programs (docs/wrong-answers.md).

Nothing here is part of what runs a user's model.
"""
