"""The paper's evaluation: one module per table and figure, the published values beside them as data.

`registry` finds a table by name; each lists the jobs that it needs (`work`), which `execute` runs and `store` keeps;
`render` puts measured and published side by side.
"""
