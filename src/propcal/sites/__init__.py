"""Sites: how much a score differs between hospitals, and does a correction travel?"""
