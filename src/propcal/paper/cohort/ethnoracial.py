"""From MIMIC's words for race and ethnicity to the seven groups of Table 1, as data.

MIMIC-IV 1.0 has eight words (`ethnicity`), which are Table 1's groups with "unknown" and "unable to
obtain" taken together. Versions 2.x have finer ones (`race`). Those that begin with the name of a group
belong to it. The others, and why they are where they are:

- SOUTH AMERICAN is Hispanic/Latino: the federal standard that hospitals report by counts people of
  South or Central American origin there.
- PORTUGUESE is Other: the standard does not count it as Hispanic, and MIMIC keeps it apart from the
  words that begin with WHITE.
- NATIVE HAWAIIAN OR OTHER PACIFIC ISLANDER and MULTIPLE RACE/ETHNICITY are Other: Table 1 has no group
  of their own for them, and 1.0 no word.
- PATIENT DECLINED TO ANSWER and a missing word are unknown.

A word that is not listed counts as Other; the cohort says how often that happened.
"""

from __future__ import annotations

NATIVE, ASIAN, BLACK = "American Indian/Alaska Native", "Asian", "Black/African American"
HISPANIC, OTHER, UNKNOWN, WHITE = "Hispanic/Latino", "Other", "Unknown/Unable to Obtain", "White"

GROUP_OF = {
    # the words of 1.0, which 2.x has too; HISPANIC/LATINO became HISPANIC OR LATINO
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
