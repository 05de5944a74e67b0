"""The fitted correction: how it maps, looks up and explains scores; its fit summary;
sharing it.
"""
