"""What may be handed on: counts are protected, findings and statistics of many people
are not.
"""
