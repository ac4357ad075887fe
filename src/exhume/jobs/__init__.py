"""How every experiment is carried out: one key, one store, one runner, one progress bar.

Names live in their modules and are not repeated here: a result's key follows imports, and must not follow them into
what only shows or moves results.
"""
