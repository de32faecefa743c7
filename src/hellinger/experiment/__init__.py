"""The experiment: how traffic is split between variants, and what the figures say."""
