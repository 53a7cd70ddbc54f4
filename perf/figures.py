"""The pictures of perf/compare.py: bars, scaling over threads, rooflines."""
from estimates import portability
from study import plotting

STYLE = {"figsize": (9, 4.5), "layout": "constrained"}


def save(figure, path):
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def colors_of(count):
    """So many colors that differ, up to twenty."""
    colors = plotting().get_cmap("tab10" if count <= 10 else "tab20").colors
    return [colors[i % len(colors)] for i in range(count)]


def draw_bars(records, path):
    """The loop of each contender on each platform, a group of bars for each problem; whiskers from fastest to slowest."""
    pyplot = plotting()
    problems = list(dict.fromkeys((record.case, record.samples) for record in records))
    series = list(dict.fromkeys((record.contender, record.platform()) for record in records))
    figure, axes = pyplot.subplots(**STYLE)
    width = 0.8 / len(series)
    colors = colors_of(len(series))
    for place, one in enumerate(series):
        mine = [record for record in records if (record.contender, record.platform()) == one]
        spots = [problems.index((record.case, record.samples)) + place * width for record in mine]
        heights = [1e3 * record.median for record in mine]
        whiskers = [[max(0.0, height - 1e3 * min(record.seconds)) for record, height in zip(mine, heights)],
                    [max(0.0, 1e3 * max(record.seconds) - height) for record, height in zip(mine, heights)]]
        axes.bar(spots, heights, width, yerr=whiskers, color=colors[place], label=", ".join(one), error_kw={"linewidth": 0.7})
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(problems))],
                    [f"{case}\n{samples}" for case, samples in problems], rotation=30, fontsize="x-small", ha="right")
    axes.set(yscale="log", ylabel="median, ms", title="Layer loop, training step or product (lower is better)")
    figure.legend(fontsize="x-small", loc="outside right upper")
    return save(figure, path)


def draw_cascades(found, path):
    """A panel for each problem that several contenders compute on several machines: the application efficiencies of each contender, highest
    first (full), and their harmonic mean over so many machines (dotted), which ends at 0 where one is missing; None without such a problem.
    After Sewall, Pennycook, Jacobsen, Deakin and McIntosh-Smith, "Interpreting and visualizing performance portability metrics", 2020."""
    by_problem = {}
    for (problem, contender), (efficiencies, _) in found.items():
        by_problem.setdefault(problem, {})[contender] = sorted((part or 0.0 for part, _ in efficiencies.values()), reverse=True)
    panels_of = {problem: lines for problem, lines in by_problem.items() if len(lines) > 1 and len(next(iter(lines.values()))) > 1}
    if not panels_of:
        return None
    pyplot = plotting()
    columns = min(3, len(panels_of))
    contenders = list(dict.fromkeys(name for lines in panels_of.values() for name in lines))
    colors = dict(zip(contenders, colors_of(len(contenders))))
    figure, panels = pyplot.subplots(-(-len(panels_of) // columns), columns, figsize=(4.5 * columns, 3.2 * -(-len(panels_of) // columns)),
                                     layout="constrained", squeeze=False)
    for unused in panels.flat[len(panels_of):]:
        unused.remove()
    for axes, (problem, lines) in zip(panels.flat, panels_of.items()):
        for contender, parts in lines.items():
            numbers = range(1, len(parts) + 1)
            axes.plot(numbers, parts, marker="o", color=colors[contender], label=contender)
            axes.plot(numbers, [portability(parts[:count]) for count in numbers], linestyle=":", color=colors[contender])
        axes.set(xlabel="machines", ylabel="efficiency", ylim=(-0.03, 1.05), title=f"{problem[0]}, {problem[1]}")
        axes.set_xticks(list(numbers))
    lines = {label: line for axes in panels.flat[:len(panels_of)] for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(lines.values(), lines.keys(), fontsize="x-small", loc="outside right upper")
    return save(figure, path)


def scaling_series(records):
    """By problem, contender, machine and backend: (threads, seconds), where at least two numbers of threads ran."""
    series = {}
    for record in records:
        if record.threads:
            key = record.case, record.samples, record.contender, record.machine, record.backend
            points = series.setdefault(key, {})
            points[record.threads] = min(record.median, points.get(record.threads, record.median))
    return {key: sorted(points.items()) for key, points in series.items() if len(points) > 1}


def draw_scaling(records, path):
    """Speedup over the fewest threads, a panel for each machine and backend; None where no series has two numbers of threads."""
    series = scaling_series(records)
    if not series:
        return None
    pyplot = plotting()
    platforms = list(dict.fromkeys(key[3:] for key in series))
    problems = list(dict.fromkeys(key[:3] for key in series)) # one color each
    colors = colors_of(len(problems))
    figure, panels = pyplot.subplots(1, len(platforms), figsize=(4 * len(platforms) + 4, 4.5), layout="constrained", squeeze=False)
    for axes, platform in zip(panels[0], platforms):
        mine = {key[:3]: points for key, points in series.items() if key[3:] == platform}
        for problem, points in mine.items():
            first_threads, first_seconds = points[0]
            axes.plot([threads for threads, _ in points], [first_threads * first_seconds / seconds for _, seconds in points],
                      marker="o", color=colors[problems.index(problem)], label=", ".join(map(str, problem)))
        most = max(threads for points in mine.values() for threads, _ in points)
        axes.plot([1, most], [1, most], linestyle=":", color="black", label="ideal")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set(xlabel="threads", ylabel="speedup", title=", ".join(platform))
    lines = {label: line for axes in panels[0] for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(lines.values(), lines.keys(), fontsize="x-small", loc="outside right upper")
    return save(figure, path)


def roofline_points(records):
    """By platform: its ceilings, and (fma per byte, fma per second, name) of each record with traced steps."""
    platforms = {}
    for record in records:
        steps, ceilings = record.fields.get("steps"), record.fields.get("ceilings")
        if not steps or not ceilings:
            continue
        fma, moved, seconds = (sum(step[name] for step in steps) for name in ("fma", "least_bytes", "seconds"))
        if fma > 0 and moved > 0 and seconds > 0:
            _, points = platforms.setdefault((record.platform(), record.precision), (ceilings, []))
            points.append((fma / moved, fma / seconds, f"{record.case}, {record.samples}, {record.contender}"))
    return platforms


def draw_rooflines(records, path):
    """A panel for each platform: what copy and fma allow, and where the kernels of the traced runs lie."""
    platforms = roofline_points(records)
    if not platforms:
        return None
    pyplot = plotting()
    columns = min(3, len(platforms))
    rows = -(-len(platforms) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(6.5 * columns, 5 * rows), layout="constrained", squeeze=False)
    for unused in panels.flat[len(platforms):]:
        unused.remove()
    for axes, ((platform, precision), (ceilings, points)) in zip(panels.flat, platforms.items()):
        copy, peak = ceilings["copy_bytes_per_second"], ceilings["fma_per_second"]
        intensities = [point[0] for point in points] + [peak / copy]
        least, most = min(intensities) / 4, 4 * max(intensities)
        axes.plot([least, peak / copy, most], [copy * least, peak, peak], color="black")
        for intensity, rate, name in points:
            axes.plot(intensity, rate, marker="o", linestyle="none", label=name)
        axes.set(xscale="log", yscale="log", xlabel="fma per byte that must move", ylabel="fma/s", title=f"{platform}, {precision}")
        axes.legend(fontsize="xx-small")
    return save(figure, path)
