"""The routes, a file for each thing they are about."""
