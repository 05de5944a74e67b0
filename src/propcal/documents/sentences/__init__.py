"""What is said of a result: sentence by sentence.

Each module decides which sentences apply, and the template of that name has their
words.
"""
