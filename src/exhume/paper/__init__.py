"""The paper's evaluation: one module per table and figure, the published values beside them as data.

`registry` finds a table by name; each lists the jobs that it needs (`work`), which `execute` hands to `exhume.jobs`;
`comparisons` puts measured and published side by side, and `render` shows them.
"""
