"""Reports on what models predict, as arrays that know how to show themselves; no model is known here."""
