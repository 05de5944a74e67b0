"""What is said of a result: each module decides which sentences apply, and the template
of that name has their words.
"""
