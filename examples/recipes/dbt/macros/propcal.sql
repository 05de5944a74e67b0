{# Atoms: people by groups, rounded score and outcome. Only these counts leave the warehouse; propcal reads them with
   --weight people --weight-kind frequency. #}
{% macro propcal_atoms(relation, score, outcome, groups, bits=16) %}
select
  {{ groups | join(', ') }},
  floor({{ score }} * {{ 2 ** bits }} + 0.5) / {{ 2 ** bits }} as score,
  {{ outcome }} as outcome,
  count(*) as people
from {{ relation }}
where {{ score }} between 0 and 1 and {{ outcome }} is not null
group by {{ range(1, groups | length + 3) | join(', ') }}
{% endmacro %}

{# A test that fails the build: groups whose observed events differ from the expected ones by more than the share `within`
   and `z` standard errors of a calibrated score. Groups with fewer than `events` expected events are not judged. #}
{% test calibrated(model, score, outcome, group, within=0.2, z=3.5, events=30, weight='1') %}
with sums as (
  select
    {{ group }} as level,
    sum({{ weight }} * {{ outcome }}) as observed,
    sum({{ weight }} * {{ score }}) as expected,
    sum({{ weight }} * {{ score }} * (1 - {{ score }})) as variance
  from {{ model }}
  group by 1
)
select level, observed, expected, observed / expected as ratio
from sums
where expected >= {{ events }}
  and abs(observed - expected) > {{ within }} * expected + {{ z }} * sqrt(variance)
{% endtest %}
