"""sdEM for multinomial counts, one step per document (Masegosa 2014, Algorithm 2), and merging of lanes."""

import numpy as np

from sdem_dist.kernels.csr import measured
from sdem_dist.kernels.jit import jit, jit_once
from sdem_dist.kernels.losses import HINGE, advanced, column_weights, renew_prior
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.rows import add_row, copy_row
from sdem_dist.kernels.vectors import WIDTH, add_columns, fetch, fetch_row, fetch_rows, log, log_single

NEGLIGIBLE = 0.01  # a class with a loss weight below this share of the largest is not updated; see below
AT_ONCE = 2_048  # number of counts whose logarithms are computed together, within the L1 cache
NEAR = 1 << 20  # size in bytes of a table in the L2 cache; prefetching its rows would not help
MANY = 4  # entire rows are updated if more than one class in this many needs a step


def with_logarithms(table: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return rows of `words` for `run_documents`, counts > 0 and their ln, shape (n_words, 2 n_columns), float32."""
    n, width = len(words), 2 * table.shape[1]
    # NumPy, not a kernel, since NumPy uses huge pages. WIDTH more elements, since kernels read 8 columns at once.
    rows = np.empty(n * width + WIDTH, np.float32)[: n * width].reshape(n, width)
    write_rows(table, words, rows)
    return rows


@jit
def write_rows(table, words, rows):
    n_columns = table.shape[1]
    at_once = larger(1, AT_ONCE // n_columns)
    counts = empty(at_once * n_columns, np.float32)
    logs = empty(at_once * n_columns, np.float32)
    for first in range(0, words.size, at_once):
        last = smaller(first + at_once, words.size)
        for i in range(first, last):
            fetch_row(table, words, i)
            copy_row(table[words[i]], counts[(i - first) * n_columns : (i - first + 1) * n_columns])
        for j in range(counts.size):  # one loop, which vectorises; rows after the last are stale
            logs[j] = log_single(counts[j])
        for i in range(first, last):
            row, own = rows[i], slice((i - first) * n_columns, (i - first + 1) * n_columns)
            copy_row(counts[own], row[:n_columns])
            copy_row(logs[own], row[n_columns:])


@jit
def changes_of(rows, table, words):
    """Return the changes of the counts since `table`, shape (n_words, n_columns), float32."""
    changes = empty((words.size, table.shape[1]), np.float32)
    for i in range(words.size):
        fetch_row(table, words, i)
        before = table[words[i]]
        for k in range(before.size):
            changes[i, k] = rows[i, k] - np.float32(before[k])
    return changes


@jit
def run_documents(documents, table, schedule, t, blend_credit, objective):
    """Run sdEM over documents in order, with one step per document; the counts change in place.

    A step: scores at the current parameters, mu += rho * weighted statistics, check (no count below
    ``schedule.floor``), M-step (logarithms of changed counts). The prior is the start of mu, not a running correction.

    `documents`: Visited. `table`: Table; `words` from `with_logarithms`; a column is a class, or a component of one.
    Each label of `targets` has its own classifier, with the columns ``2 l`` (without the label) and ``2 l + 1``.
    `blend_credit`: for a blend, the accumulated share of a step, per label, or a single one; starts at .5.
    `t`: documents of the corpus before these documents. Returns `t` after the last document.
    """
    data, indices, indptr, labels, weights, order, members = documents
    rows, totals, class_counts, log_prior, learn_prior, _ = table
    loss, tolerance, component_class = objective
    n_columns, n_groups = totals.size, larger(1, members.shape[1])
    width = n_columns // n_groups
    sums = empty(n_columns + WIDTH, np.float32)
    scores, step, log_totals = empty(width), empty(n_columns), empty(n_columns)
    active = empty(width, np.int64)
    share, many = smaller(NEGLIGIBLE, 0.5 / width), False
    new, logs = empty(larger(AT_ONCE, n_columns), np.float32), empty(larger(AT_ONCE, n_columns), np.float32)
    for k in range(n_columns):
        log_totals[k] = log(totals[k])
        if learn_prior:
            log_prior[k] = np.log(class_counts[k])
    # Rows have single precision, since reading them takes most of the time. Totals have double precision, since a step
    # adds only about a millionth to these sums over all words.
    last, far = order.size - 1, rows.nbytes > NEAR
    for i in range(order.size):
        d, following, after = order[i], order[smaller(i + 1, last)], order[smaller(i + 2, last)]
        fetch(data, indptr[after], indptr[after + 1])
        fetch(indices, indptr[after], indptr[after + 1])
        if far:
            fetch_rows(indices[indptr[following] : indptr[following + 1]], rows, 0 if many else n_columns)
        if weights[d] <= 0.0:
            continue
        t += schedule.corpus_scale * weights[d]
        values, words = data[indptr[d] : indptr[d + 1]], indices[indptr[d] : indptr[d + 1]]
        length, square = add_scores(values, words, rows, sums)
        # A step is at most that of a mean document, for any weight and length.
        scale = smaller(weights[d], schedule.mean_square / square) if square > 0.0 else smaller(weights[d], 1.0)
        scale /= 1.0 + schedule.decay * t
        for group in range(n_groups):
            first = group * width
            label = np.int64(members[d, group]) if members.shape[1] else np.int64(labels[d])
            group_step = step[first : first + width]
            for k in range(width):
                scores[k] = sums[first + k] + log_prior[first + k] - length * log_totals[first + k]
            largest = column_weights(loss, scores, label, component_class, group_step)
            if loss.kind == HINGE and largest == loss.share > 0.0:
                largest = rarer_step(loss.share, group, blend_credit, group_step)
            if largest <= tolerance:
                continue
            # A class with a negligible weight is not updated: an update writes two numbers per word, and its weight is
            # at most a hundredth of the largest. With many classes the bound is inversely proportional to their number,
            # so that the sum of the omitted weights is below half of the largest weight.
            n_active = 0
            for k in range(width):
                if abs(group_step[k]) > share * largest:
                    active[n_active] = first + k
                    n_active += 1
            many = MANY * n_active > width > 2  # also used to prefetch the next document's rows
            if many:
                for k in range(width):
                    step[k] = step[k] if abs(step[k]) > share * largest else 0.0
                move_rows(values, words, rows, schedule.start * scale, step, schedule.floor, totals, (new, logs))
            else:
                columns = active[:n_active]
                move(values, words, rows, schedule.start * scale, step, columns, schedule.floor, totals)
            for k in active[:n_active]:
                log_totals[k] = log(totals[k])
                if learn_prior:
                    count = class_counts[k] + schedule.class_start * scale * step[k]
                    class_counts[k] = larger(count, schedule.class_floor)
                    log_prior[k] = np.log(class_counts[k])
    return t


@jit_once
def rarer_step(share, group, blend_credit, step):
    """Replace a fraction of a step by a rare full step; return the largest weight, 0 if no step is due.

    In a blend of the hinge loss with NLL, each document that keeps its margin has the same small step, `share`.
    Instead, one in 1 / share such documents takes a full step, so that the cost is about that of the hinge loss.
    """
    blend_credit[group] += share
    largest = 1.0 if blend_credit[group] >= 1.0 else 0.0
    blend_credit[group] -= largest
    for k in range(step.size):
        step[k] /= share
    return largest


@jit_once
def add_scores(values, words, rows, sums):
    """Set `sums` to a document's ``sum_j x_j ln N_j``; return the sums of its entries and of their squares."""
    n_columns = rows.shape[1] // 2
    if n_columns == 2:  # sums in registers
        first, second, length, square = 0.0, 0.0, 0.0, 0.0
        for j in range(values.size):
            x = np.float64(values[j])
            row = rows[words[j]]
            length += x
            square += x * x
            first += x * row[2]
            second += x * row[3]
        sums[0], sums[1] = first, second
        return length, square
    return add_columns(values, words, rows, 0, n_columns, sums)


@jit_once
def move(values, words, rows, rho, step, columns, least, totals):
    """Add a document's weighted entries to a few columns."""
    n_columns, floor = rows.shape[1] // 2, np.float32(least)
    new, logs = empty(values.size, np.float32), empty(values.size, np.float32)
    for k in columns:
        rho_k, gain = np.float32(rho * step[k]), 0.0
        for j in range(values.size):
            old = rows[words[j]][k]
            new[j] = larger(old + rho_k * np.float32(values[j]), floor)
            gain += new[j] - old
        for j in range(values.size):  # a separate loop, which vectorises
            logs[j] = log_single(new[j])
        for j in range(values.size):
            row = rows[words[j]]
            row[k], row[n_columns + k] = new[j], logs[j]
        totals[k] += gain


@jit_once
def move_rows(values, words, rows, rho, step, least, totals, room):
    """Add a document's weighted entries to all columns; `room`: two flat float32 buffers of at least one row."""
    n_columns, floor = rows.shape[1] // 2, np.float32(least)
    new, logs = room
    rhos, gains = empty(n_columns, np.float32), empty(n_columns)
    for k in range(n_columns):
        rhos[k], gains[k] = rho * step[k], 0.0
    at_once = new.size // n_columns
    for first in range(0, values.size, at_once):
        last = smaller(first + at_once, values.size)
        for j in range(first, last):
            x, old, start = np.float32(values[j]), rows[words[j]][:n_columns], (j - first) * n_columns
            target = new[start : start + n_columns]
            for k in range(n_columns):
                target[k] = larger(old[k] + rhos[k] * x, floor)
                gains[k] += target[k] - old[k]
        for j in range((last - first) * n_columns):
            logs[j] = log_single(new[j])
        for j in range(first, last):
            row, own = rows[words[j]], slice((j - first) * n_columns, (j - first + 1) * n_columns)
            copy_row(new[own], row[:n_columns])
            copy_row(logs[own], row[n_columns:])
    for k in range(n_columns):
        totals[k] += gains[k]


@jit
def run_paper_steps(documents, table, schedule, moment, objective):
    """Run sdEM literally (Masegosa 2014, Algorithms 2 to 4 as corrected); the counts change in place.

    Every logarithm is computed with the current gamma, and every class is updated; negative counts are set to zero.
    It is the reference for `run_documents`. Returns the final `gamma`, `class_gamma`, `t` (float).
    """
    # A NamedTuple would be created by Python code, in which an interrupt is an error that Numba does not check.
    data, indices, indptr, labels, weights, order, _ = documents
    words, totals, class_counts, log_prior, learn_prior, vocabulary_size = table
    loss, tolerance, component_class = objective
    n_columns = totals.size
    lengths, _ = measured(documents, words.shape[0])
    scores, step, log_totals = empty(n_columns), empty(n_columns), empty(n_columns)
    for d in order:
        rho, moment = advanced(schedule, moment, weights[d])
        for k in range(n_columns):
            log_totals[k] = log(totals[k] + moment.gamma * vocabulary_size)
        renew_prior(table, moment.class_gamma)
        start, stop = indptr[d], indptr[d + 1]
        for k in range(n_columns):
            scores[k] = log_prior[k] - lengths[d] * log_totals[k]
        for j in range(start, stop):
            for k in range(n_columns):
                scores[k] += np.float64(data[j]) * log(words[indices[j], k] + moment.gamma)
        largest = column_weights(loss, scores, labels[d], component_class, step)
        if weights[d] * largest <= tolerance:
            continue
        factor = rho * weights[d]
        for j in range(start, stop):
            add_row(factor * data[j], step, words[indices[j]])
        for k in range(n_columns):
            totals[k] += factor * lengths[d] * step[k]
            if learn_prior:
                class_counts[k] = larger(class_counts[k] + factor * step[k], 0.0)
        for j in range(start, stop):  # the check: no negative counts; totals remain the sums of the rows
            row = words[indices[j]]
            for k in range(n_columns):
                below = smaller(row[k], 0.0)
                totals[k] -= below
                row[k] -= below
    return moment.gamma, moment.class_gamma, moment.t


@jit
def damped_changes(changes, met, before, damping):
    """Replace each row's sum of the lanes' changes by ``mean + (sum - mean) / (1 + damping * r)``.

    The mean is over the lanes that changed the row (their number is `met`); r is the largest absolute value of the sum,
    relative to the row's mean count before. Small changes are summed, as in one long run; large ones are averaged.
    """
    n_columns = before.shape[1]
    for i in range(met.size):
        if met[i] > 1.0:
            largest, total = 0.0, 0.0
            for k in range(n_columns):
                largest = larger(largest, abs(changes[i, k]))
                total += before[i, k]
            share = 1.0 / met[i]
            factor = share + (1.0 - share) / (1.0 + damping * largest * n_columns / total)
            for k in range(n_columns):
                changes[i, k] *= factor


@jit
def shifts(before, changes, of_mean, factor, entries, totals, floor):
    """Return the shifts of the mean document's scores by ``factor * (changes + of_mean * mean)``, and their slopes."""
    n_words, n_columns = before.shape
    moved, slopes, gains = zeros(n_columns), zeros(n_columns), zeros(n_columns)
    mean_length = 0.0
    for i in range(n_words):
        mean_length += entries[i]
        for k in range(n_columns):
            old = before[i, k]
            new = larger(old + factor * (changes[i, k] + entries[i] * of_mean[k]), floor)
            gains[k] += new - old
            moved[k] += entries[i] * log(new / old)
            slopes[k] += entries[i] * entries[i] / new
    for k in range(n_columns):
        total = totals[k] + gains[k]
        moved[k] -= mean_length * log(total / totals[k])
        slopes[k] -= mean_length * mean_length / total
    return moved, slopes


@jit
def add_changes(changes, entries, of_mean, floor, words, table):
    """Add changes, and `of_mean` times the mean document, to a table's rows; counts are at least `floor`."""
    for i in range(words.size):
        fetch_row(table, words, i)
        row = table[words[i]]
        for k in range(row.size):
            row[k] = larger(row[k] + changes[i, k] + entries[i] * of_mean[k], floor)
