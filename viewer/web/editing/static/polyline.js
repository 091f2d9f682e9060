// Fewer points for the same line.

// The points [[x, y], ...] without those that lie within `tolerance` of the line through the others (Douglas and Peucker
// 1973). At most `most` remain: the tolerance is doubled until they are that few.
export function simplify(points, tolerance, most) {
  let retained = within(points, tolerance);
  while (retained.length > most) retained = within(retained, (tolerance *= 2));
  return retained;
}

function within(points, tolerance) {
  if (points.length < 3) return points;
  const keep = new Uint8Array(points.length);
  keep[0] = keep[points.length - 1] = 1;
  const spans = [[0, points.length - 1]];
  while (spans.length) {
    const [first, last] = spans.pop();
    let farthest = -1;
    let distance = tolerance;
    for (let i = first + 1; i < last; i++) {
      const d = toSegment(points[i], points[first], points[last]);
      if (d > distance) [farthest, distance] = [i, d];
    }
    if (farthest < 0) continue;
    keep[farthest] = 1;
    spans.push([first, farthest], [farthest, last]);
  }
  return points.filter((_, i) => keep[i]);
}

// The distance of a point from a line between two others.
function toSegment([x, y], [x0, y0], [x1, y1]) {
  const dx = x1 - x0;
  const dy = y1 - y0;
  const t = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}
