"""Turns samples into a table: medians, ratios, targets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A line of the table. Its target is a ratio to the official runtime, an absolute figure or none."""

    sample: str
    title: str
    unit: str
    times: float | None = None
    at_most: float | None = None


LINES = [
    Line("start", "start to `connect` reply", "ms", times=50),
    Line("create", "`session.create`, durable", "ms", times=15),
    Line("turn", "one turn", "ms", times=5),
    Line("turn_streamed", "one turn, streamed", "ms", times=5),
    Line("memory_start", "memory after start", "MB", times=15),
    Line("memory_1", "memory, 1 session", "MB"),
    Line("memory_20", "memory, 20 sessions", "MB"),
    Line("memory_1000", "memory, 1000 sessions", "MB"),
    Line("per_session", "each further idle session", "KB", at_most=100),
    Line("memory_start_rss", "memory after start, as RSS", "MB"),
    Line("disk", "size on disk", "MB", times=10),
]


def percentile(samples, percent):
    """Returns the sample that this percentage of samples does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def judge(report):
    """Returns the rows of the table as data."""
    return [row(line, report["samples"]) for line in LINES]


def row(line, samples):
    """Returns a row: both figures, the ratio (above 1: Baton is better), the target, and whether it is met."""
    ours, theirs = (figures(samples.get(name, {}).get(line.sample)) for name in ("baton", "official"))
    ratio = theirs["p50"] / ours["p50"] if ours and theirs and ours["p50"] > 0 else None
    met = None
    if line.at_most is not None and ours:
        met = ours["p50"] <= line.at_most
    elif line.times is not None and ratio is not None:
        met = ratio >= line.times
    note = None
    reached = min(samples.get("official", {}).get("sessions", [1000]))
    if line.sample == "memory_1000" and reached < 1000:
        # The memory of 1000 sessions is unknown, so there is no ratio.
        note, ratio = f"after {reached:.0f} of them", None
    return {
        "title": line.title,
        "unit": line.unit,
        "baton": ours,
        "official": theirs,
        "official_note": note,
        "ratio": ratio,
        "target": target(line),
        "met": met,
    }


def figures(samples):
    """Returns the median and the 90th percentile."""
    if not samples:
        return None
    return {"p50": percentile(samples, 50), "p90": percentile(samples, 90), "count": len(samples)}


def target(line):
    """Formats the target of a line."""
    if line.times is not None:
        return f">= {line.times:.0f}x"
    return f"<= {line.at_most:.0f} {line.unit}" if line.at_most is not None else ""


def number(value):
    """Formats a number with three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cells(row):
    """Formats the cells of a row."""

    def cell(figures, note=None):
        if not figures:
            return "-"
        text = f"{number(figures['p50'])} {row['unit']}"
        if figures["count"] >= 10:
            text += f" (p90 {number(figures['p90'])})"
        return f"{text} {note}" if note else text

    ratio = f"{number(row['ratio'])}x" if row["ratio"] else "-"
    mark = {True: " ✓", False: " ✗", None: ""}[row["met"]]
    ours, theirs = cell(row["baton"]), cell(row["official"], row["official_note"])
    return [row["title"], ours, theirs, ratio, row["target"] + mark]


def header(report):
    """Formats the column titles."""
    versions = report["versions"]
    peer = f"official runtime {versions['official']}" if "official" in versions else "official runtime"
    return ["", f"Baton {versions['baton']}", peer, "ratio", "target"]


def remarks(report):
    """Formats the remarks below the table."""
    machine = report["machine"]
    lines = [
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; "
        f"{report['rounds']} alternating rounds; medians. Memory is PSS of the whole process tree. "
        f"Starting any program (`true`, to its exit) takes {number(report['floor'])} ms here. "
        f"Other programs used {report['others']:.0%} of the processors."
    ]
    if report["absent"]:
        lines.append(f"The official runtime was NOT measured: {report['absent']}")
    return lines


def print_text(report):
    """Prints the table for a terminal."""
    table = [header(report), *(cells(row) for row in report["rows"])]
    table = [[cell.replace("`", "") for cell in line] for line in table]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    print()
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print()
    print("\n".join(remarks(report)))


def to_markdown(report):
    """Formats the table as Markdown."""
    table = [header(report), ["---", "---:", "---:", "---:", "---:"], *(cells(row) for row in report["rows"])]
    lines = ["| " + " | ".join(line) + " |" for line in table]
    return "\n".join([*lines, "", *remarks(report)])
