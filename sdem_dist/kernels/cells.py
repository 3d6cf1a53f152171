"""Cells of tables, as bytes in one buffer."""

from sdem_dist.kernels.jit import jit

_TAB = 9


@jit
def tab_fields(data, begins, ends, starts, stops):
    """Find all columns of lines, which TABs separate.

    `data`: ndarray of uint8.
    `begins`, `ends`: int64 of shape (n_lines,), where lines are; all have as many columns as `starts` has rows.
    `starts`, `stops`: int64 of shape (n_columns, n_lines), overwritten, where the columns are.
    """
    for i in range(len(begins)):
        k, first, end = 0, begins[i], ends[i]
        for j in range(first, end):
            if data[j] == _TAB:
                starts[k, i], stops[k, i] = first, j
                k, first = k + 1, j + 1
        starts[k, i], stops[k, i] = first, end


@jit
def join_cells(data, starts, stops, out):
    """Copy ranges of bytes, one after another, into `out`."""
    place = 0
    for i in range(len(starts)):
        part = data[starts[i] : stops[i]]
        target = out[place : place + part.size]
        for j in range(part.size):
            target[j] = part[j]
        place += part.size
