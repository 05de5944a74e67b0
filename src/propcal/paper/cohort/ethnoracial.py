"""Assigns MIMIC's words for race and ethnicity to the seven groups of Table 1.

MIMIC-IV 1.0 has eight words (`ethnicity`), which are the groups of Table 1 with "unknown" and "unable to
obtain" combined. Versions 2.x have more detailed words (`race`). Those that begin with the name of a group
belong to it. The others are assigned as follows:

- SOUTH AMERICAN is Hispanic/Latino: the federal standard for hospital reports includes people of South or
  Central American origin there.
- PORTUGUESE is Other: the standard does not include it in Hispanic, and MIMIC separates it from the words
  that begin with WHITE.
- NATIVE HAWAIIAN OR OTHER PACIFIC ISLANDER and MULTIPLE RACE/ETHNICITY are Other: Table 1 has no group for
  them, and version 1.0 has no word.
- PATIENT DECLINED TO ANSWER and a missing word are unknown.

A word that is not listed counts as Other; the cohort reports how often this happened.
"""

from __future__ import annotations

NATIVE, ASIAN, BLACK = "American Indian/Alaska Native", "Asian", "Black/African American"
HISPANIC, OTHER, UNKNOWN, WHITE = "Hispanic/Latino", "Other", "Unknown/Unable to Obtain", "White"

GROUP_OF = {
    # the words of 1.0, also used in 2.x, where HISPANIC/LATINO became HISPANIC OR LATINO
    "AMERICAN INDIAN/ALASKA NATIVE": NATIVE,
    "ASIAN": ASIAN,
    "BLACK/AFRICAN AMERICAN": BLACK,
    "HISPANIC/LATINO": HISPANIC,
    "OTHER": OTHER,
    "UNABLE TO OBTAIN": UNKNOWN,
    "UNKNOWN": UNKNOWN,
    "WHITE": WHITE,
    # 2.x
    "ASIAN - ASIAN INDIAN": ASIAN,
    "ASIAN - CHINESE": ASIAN,
    "ASIAN - KOREAN": ASIAN,
    "ASIAN - SOUTH EAST ASIAN": ASIAN,
    "BLACK/AFRICAN": BLACK,
    "BLACK/CAPE VERDEAN": BLACK,
    "BLACK/CARIBBEAN ISLAND": BLACK,
    "HISPANIC OR LATINO": HISPANIC,
    "HISPANIC/LATINO - CENTRAL AMERICAN": HISPANIC,
    "HISPANIC/LATINO - COLUMBIAN": HISPANIC,
    "HISPANIC/LATINO - CUBAN": HISPANIC,
    "HISPANIC/LATINO - DOMINICAN": HISPANIC,
    "HISPANIC/LATINO - GUATEMALAN": HISPANIC,
    "HISPANIC/LATINO - HONDURAN": HISPANIC,
    "HISPANIC/LATINO - MEXICAN": HISPANIC,
    "HISPANIC/LATINO - PUERTO RICAN": HISPANIC,
    "HISPANIC/LATINO - SALVADORAN": HISPANIC,
    "SOUTH AMERICAN": HISPANIC,
    "MULTIPLE RACE/ETHNICITY": OTHER,
    "NATIVE HAWAIIAN OR OTHER PACIFIC ISLANDER": OTHER,
    "PORTUGUESE": OTHER,
    "PATIENT DECLINED TO ANSWER": UNKNOWN,
    "WHITE - BRAZILIAN": WHITE,
    "WHITE - EASTERN EUROPEAN": WHITE,
    "WHITE - OTHER EUROPEAN": WHITE,
    "WHITE - RUSSIAN": WHITE,
}
