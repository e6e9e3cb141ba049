"""What any backend needs: fusions as read, descriptions of programs, the analyses that kernels stand on, the walk over
a scheduled program. Nothing here knows a machine, or imports a backend."""
