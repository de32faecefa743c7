"""One file a revision, ``v0001_words.py`` onwards: the file's number is the revision's name."""
