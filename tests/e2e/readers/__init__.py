"""Where one text has two readers, for speed or because it is read in two places: search for what they read otherwise.

What one reader takes and the other does not, or takes for something else, is a request that was not judged. Each
search prints its seed, and begins again from the one in READERS_SEED.
"""
