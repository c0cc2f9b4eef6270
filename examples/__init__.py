"""Things to try: each folder is a manifest, its data and how to run it."""
