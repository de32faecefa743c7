"""``python -m hellinger``."""

from hellinger.cli import main

if __name__ == "__main__":
    main()
