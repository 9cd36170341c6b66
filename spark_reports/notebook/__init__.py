"""A notebook (jupytext) over the traces of bundled scenarios."""
