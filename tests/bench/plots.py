"""Draws what was measured, as SVG."""

import os

from figures import MODES, median

WIDTH, LEFT, RIGHT, ROW = 760, 170, 70, 22
COLORS = {"reference": "#b0b7c0", "ours": "#1f6feb", "floor": "#2da44e"}


class Picture:
    """Shapes on white, from the top down."""

    def __init__(self, height, title):
        self.height, self.parts = height, []
        self.text(12, 24, title, size=15, weight="bold")

    def text(self, x, y, text, anchor="start", size=12, weight="normal", color="#24292f"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'font-weight="{weight}" fill="{color}">{text}</text>')

    def rectangle(self, x, y, width, height, color):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
                          f'height="{height:.1f}" fill="{color}"/>')

    def line(self, points, color, width=2):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" '
                          f'stroke-width="{width}"/>')

    def save(self, path):
        with open(path, "w", encoding="ascii") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                       f'height="{self.height}" viewBox="0 0 {WIDTH} {self.height}" '
                       f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n'
                       + "\n".join(self.parts) + "\n</svg>\n")


def color_of(name):
    return next(color for start, color in COLORS.items() if name.startswith(start))


def short(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def bars(title, groups):
    """groups: {heading: [(name, value)]}, all on one scale."""
    rows = sum(len(rows) for rows in groups.values())
    picture = Picture(44 + ROW * rows + 34 * len(groups), title)
    most = max(value for rows in groups.values() for _, value in rows)
    y = 44
    for heading, values in groups.items():
        picture.text(12, y + 16, heading, weight="bold")
        y += 24
        for name, value in values:
            length = (WIDTH - LEFT - RIGHT) * value / most
            picture.text(LEFT - 8, y + 14, name, "end")
            picture.rectangle(LEFT, y + 3, length, ROW - 6, color_of(name))
            picture.text(LEFT + length + 6, y + 14, short(value))
            y += ROW
        y += 10
    return picture


def steps(most):
    """Round numbers from 0 up to most, about five."""
    size = next(size * 10 ** power for power in range(6) for size in (1, 2, 5)
                if most / (size * 10 ** power) <= 6)
    return [size * i for i in range(int(most / size) + 1)]


def curves(title, below, lines):
    """lines: {name: [(x, y)]}, each with its name at its end."""
    height, top, bottom, left, right = 380, 50, 330, 60, WIDTH - 130
    picture = Picture(height, title)
    most_x = max(x for points in lines.values() for x, _ in points)
    most_y = 1.05 * max(y for points in lines.values() for _, y in points)

    def at(x, y):
        return left + (right - left) * x / most_x, bottom - (bottom - top) * y / most_y

    for value in steps(most_y):
        y = at(0, value)[1]
        picture.line([(left, y), (right, y)], "#d8dee4", 1)
        picture.text(left - 8, y + 4, f"{value:.0f}", "end")
    for value in steps(most_x):
        picture.text(at(value, 0)[0], bottom + 18, f"{value:.0f}", "middle")
    picture.text((left + right) / 2, height - 12, below, "middle")
    ends = []  # where names stand
    for name, points in sorted(lines.items(), key=lambda line: -line[1][-1][1]):
        places = [at(*point) for point in points]
        picture.line(places, color_of(name))
        for x, y in places:
            picture.rectangle(x - 2.5, y - 2.5, 5, 5, color_of(name))
        x, y = places[-1]
        y = max([y] + [above + 14 for beside, above in ends if beside == x])
        ends.append((x, y))
        picture.text(x + 8, y + 4, name)
    return picture


def _rows(found, verb, key="took"):
    names = ["reference", *(f"ours, {mode}" for mode in MODES), *(f"floor, {mode}" for mode in MODES)]
    taken = ((name, found.get(name, {}).get(verb, {}).get(key)) for name in names)
    return [(name, median(values)) for name, values in taken if values]


def draw_all(data, directory):
    """Writes a picture of each part that was measured."""
    os.makedirs(directory, exist_ok=True)
    if data.get("chain"):
        found = data["chain"]
        groups = {verb: [row for row in _rows(found, verb) if verb != "CHECK" or "floor" not in row[0]]
                  for verb in ("ADD", "CHECK", "DEL")}
        bars("One pod: bridge, host-local, portmap, bandwidth; milliseconds",
             groups).save(f"{directory}/pod.svg")
    if data.get("crowd"):
        options = data["options"]
        bars(f"{options['crowd']} pods, {options['parallel']} at a time; milliseconds until all are there, "
             "or gone", {verb: _rows(data["crowd"], verb, "batches") for verb in ("ADD", "DEL")}
             ).save(f"{directory}/crowd.svg")
    if data.get("growth"):
        lines = {f"{name.split(',')[0]} {verb}":
                 [(point["pods"], median(point["chain"][verb]["took"])) for point in points]
                 for name, points in data["growth"].items() for verb in ("ADD", "DEL")}
        curves("One more pod; milliseconds", "pods that are there already", lines
               ).save(f"{directory}/growth.svg")
