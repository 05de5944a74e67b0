"""Corrected scores for one person, batches, frames and files, by the correction maps of
`propcal.core.correction.maps`.
"""
