// CPU twin of neighbours.cu: a k-d tree of boxes (Bentley 1975).
#include "kernels/train/neighbours.h"

#include "kernels/error.h"
#include "kernels/workspace.h"

#include <algorithm>
#include <limits>

namespace luxel {
namespace {

constexpr int64_t kLeaf = 12;        // most points of a leaf
constexpr int64_t kOwnTask = 1 << 14;  // points from which the halves of a node are built in parallel

template <typename T> struct Entry {
  Place<T> place;
  int32_t index;
};

// The k nearest so far, in order.
template <typename T> struct Nearest {
  T distance[kMaxNeighbours];
  int32_t index[kMaxNeighbours];
  int k;

  explicit Nearest(int k) : k(k) {
    std::fill_n(distance, k, std::numeric_limits<T>::infinity());
    std::fill_n(index, k, std::numeric_limits<int32_t>::max());
  }
  T worst() const { return distance[k - 1]; }
  void offer(T d, int32_t n) {
    if (!(d < worst() || (d == worst() && n < index[k - 1]))) return;
    int at = k - 1;
    for (; at > 0 && (d < distance[at - 1] || (d == distance[at - 1] && n < index[at - 1])); --at) {
      distance[at] = distance[at - 1];
      index[at] = index[at - 1];
    }
    distance[at] = d;
    index[at] = n;
  }
};

// Entries in the order of the leaves. Node i covers a range of them, its children 2i + 1 and 2i + 2 a half each.
template <typename T> struct Tree {
  Entry<T>* entries;
  Box<T>* boxes;
  int64_t bytes;

  explicit Tree(const luxel_neighbours_args& args) {
    int64_t nodes = 1;
    for (int64_t points = args.count; points > kLeaf; points = (points + 1) / 2) nodes = 2 * nodes + 1;
    Layout layout;
    entries = layout.take<Entry<T>>(args.workspace, args.count);
    boxes = layout.take<Box<T>>(args.workspace, nodes);
    bytes = layout.used;
  }

  void build(int64_t node, int64_t begin, int64_t end) const {
    Box<T> box = Box<T>::none();
    for (int64_t i = begin; i < end; ++i) box.grow({entries[i].place, entries[i].place});
    boxes[node] = box;
    if (end - begin <= kLeaf) return;
    const int64_t middle = begin + (end - begin + 1) / 2;
    const T x = box.high.x - box.low.x, y = box.high.y - box.low.y, z = box.high.z - box.low.z, t = box.high.t - box.low.t;
    const T widest = larger(larger(x, y), larger(z, t));
    const auto split = [&](T Place<T>::*axis) {
      std::nth_element(entries + begin, entries + middle, entries + end, [axis](const Entry<T>& a, const Entry<T>& b) {
        return a.place.*axis < b.place.*axis || (a.place.*axis == b.place.*axis && a.index < b.index);
      });
    };
    split(x == widest ? &Place<T>::x : (y == widest ? &Place<T>::y : (z == widest ? &Place<T>::z : &Place<T>::t)));
#pragma omp task if (end - begin > kOwnTask)
    build(2 * node + 1, begin, middle);
    build(2 * node + 2, middle, end);
#pragma omp taskwait
  }

  void search(int64_t node, int64_t begin, int64_t end, const Entry<T>& query, Nearest<T>& nearest) const {
    if (end - begin <= kLeaf) {
      for (int64_t i = begin; i < end; ++i)
        if (entries[i].index != query.index) nearest.offer(square_distance(query.place, entries[i].place), entries[i].index);
      return;
    }
    const int64_t middle = begin + (end - begin + 1) / 2;
    const Box<T> point = {query.place, query.place};
    const T left = square_distance(point, boxes[2 * node + 1]), right = square_distance(point, boxes[2 * node + 2]);
    const auto go_left = [&] { if (near(left, nearest)) search(2 * node + 1, begin, middle, query, nearest); };
    const auto go_right = [&] { if (near(right, nearest)) search(2 * node + 2, middle, end, query, nearest); };
    if (left <= right) {
      go_left();
      go_right();
    } else {
      go_right();
      go_left();
    }
  }

  // Slightly enlarged: compilers may round the two kinds of distance differently.
  static bool near(T distance, const Nearest<T>& nearest) {
    return distance <= nearest.worst() * (1 + 8 * std::numeric_limits<T>::epsilon());
  }
};

template <typename T> int64_t gather(const luxel_neighbours_args& args, Entry<T>* entries) {
  int64_t valid = 0;
  for (int32_t n = 0; n < args.count; ++n) {
    const Place<T> place = load_place<T>(args, n);
    if (counts(args, n, place))
      entries[valid++] = {place, n};
    else
      std::fill_n(args.neighbours + static_cast<int64_t>(n) * args.k, args.k, n);
  }
  return valid;
}

template <typename T> int run(const luxel_neighbours_args& args) {
  const Tree<T> tree(args);
  if (args.workspace_bytes < tree.bytes) return fail("neighbours: workspace too small");
  const int64_t valid = gather(args, tree.entries);
#pragma omp parallel
  {
#pragma omp single
    tree.build(0, 0, valid);
#pragma omp for schedule(dynamic, 256)
    for (int64_t i = 0; i < valid; ++i) {
      const Entry<T>& query = tree.entries[i];
      Nearest<T> nearest(args.k);
      tree.search(0, 0, valid, query, nearest);
      int32_t* row = args.neighbours + static_cast<int64_t>(query.index) * args.k;
      for (int j = 0; j < args.k; ++j) row[j] = j < valid - 1 ? nearest.index[j] : query.index;
    }
  }
  return 0;
}

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_neighbours_workspace(const luxel_neighbours_args* args) {
  return args->dtype ? luxel::Tree<double>(*args).bytes : luxel::Tree<float>(*args).bytes;
}

int luxel_neighbours(const luxel_neighbours_args* args) { return args->dtype ? luxel::run<double>(*args) : luxel::run<float>(*args); }
}
