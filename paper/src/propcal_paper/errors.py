"""The errors of the experiment; errors.toml has their texts."""

from propcal.building_blocks import Refusals

refused = Refusals("propcal_paper")
