"""A backend of stablehlo-py for Newname."""
