"""Sites: how much a score differs between hospitals, and whether a correction
travels.
"""
