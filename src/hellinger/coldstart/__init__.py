"""The cold-start experiment: pools of new contents, every policy on the same ones, and a report."""
