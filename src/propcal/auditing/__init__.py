"""The audit: is this score wrong, for whom, and is it noise?"""
